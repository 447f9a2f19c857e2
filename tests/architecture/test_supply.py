"""What Skein is made of: pinned, hashed, listed, and under licences that we may pass on."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import yaml
from fix_catalogue import over
from packaging.markers import Marker

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BILL: dict[str, Any] = json.loads((DEPLOY / "sbom.cdx.json").read_text("utf-8"))
COMPONENTS = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one for one in BILL["components"]}
LOCKS = (ROOT / "requirements.lock", *sorted(DEPLOY.glob("*.lock")))
# What tests are made with and the product is not.
PINNED = (
    *LOCKS,
    *sorted((ROOT / "tests/edge").glob("*.lock")),
    ROOT / "docs/tools/site.lock",
    *sorted((ROOT / "tests/bench").glob("*.lock")),
)
# What may be passed on with a program under Apache-2.0, unchanged and beside it.
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0",
    "Zlib",
}  # fmt: skip
# Of all distributions and of the image.
VERSION = tomllib.loads((ROOT / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]["version"]
# What the image is.
LINUX = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "python_version": "3.13",
    "python_full_version": "3.13.11",
}
PINS = re.compile(r"^([a-z0-9-]+)==([^ \\]+)(?: ; ([^\\\n]+))?", re.MULTILINE)


def pins(path: Path) -> dict[str, str]:
    """Return what a lock installs on the image's platform."""
    matches = PINS.findall(path.read_text("utf-8"))
    return {name: version for name, version, marker in matches if not marker or Marker(marker.strip()).evaluate(LINUX)}


def test_the_bill_of_materials_is_what_the_image_s_lock_installs() -> None:
    assert {name: one["version"] for name, one in COMPONENTS.items()} == pins(DEPLOY / "requirements.lock"), (
        "run make sbom"
    )


@over("name", sorted(COMPONENTS))
def test_a_distribution_has_a_licence_that_may_be_passed_on(name: str) -> None:
    (license_,) = COMPONENTS[name]["licenses"]

    choices = license_["expression"].split(" OR ")
    assert any(set(re.split(r" AND |[()]", choice)) - {""} <= ALLOWED for choice in choices), license_


def test_the_table_of_licences_says_what_the_bill_says() -> None:
    rows = [f"| {one['name']} | {one['version']} | {one['licenses'][0]['expression']} |" for one in BILL["components"]]
    head: str = runpy.run_path(str(DEPLOY / "sbom.py"))["HEAD"]

    assert (DEPLOY / "licences.md").read_text("utf-8") == head + "\n".join(sorted(rows, key=str.lower)) + "\n"


@over("lock", PINNED, name=lambda lock: str(lock.relative_to(ROOT)))
def test_every_pin_is_exact_and_has_its_hashes(lock: Path) -> None:
    text = lock.read_text("utf-8")
    logical = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.lstrip().startswith("#")]

    assert logical
    for line in logical:
        assert PINS.match(line), line
        assert "--hash=sha256:" in line, line


@over("lock", PINNED, name=lambda lock: str(lock.relative_to(ROOT)))
def test_a_lock_names_no_place_that_packages_come_from(lock: Path) -> None:
    assert "://" not in lock.read_text("utf-8")


def test_every_distribution_has_the_version_of_the_contract() -> None:
    versions = {}
    for path in sorted([*ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")]):
        content = tomllib.loads(path.read_text("utf-8"))
        source = content.get("tool", {}).get("hatch", {}).get("version", {}).get("path", "")
        versions[content["project"]["name"]] = (
            (path.parent / source).resolve() if source else content["project"]["version"]
        )

    assert versions.pop("skein-protos") == VERSION
    assert set(versions.values()) == {ROOT / "libs/protos/pyproject.toml"}


def test_the_image_says_the_version() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")

    assert set(re.findall(r"(?:--tag skein:|image\.version=\")([\w.]+)", text)) == {VERSION}


def test_the_vulnerability_scan_covers_every_lock() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").split("\naudit:")[1].split("\n\n")[0]

    assert set(re.findall(r"-r (\S+)", recipe)) == {str(lock.relative_to(ROOT)) for lock in LOCKS}
    assert "--strict" in recipe


@over(
    "lock",
    [ROOT / "tests/edge/package-lock.json", ROOT / "libs/typescript/package-lock.json"],
    name=lambda lock: str(lock.relative_to(ROOT)),
)
def test_a_lock_of_npm_has_every_checksum_and_names_no_place(lock: Path) -> None:
    content = json.loads(lock.read_text("utf-8"))
    packages = {name: one for name, one in content["packages"].items() if name}

    assert packages
    assert [name for name, one in packages.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert "omit-lockfile-registry-resolved=true" in (lock.parent / ".npmrc").read_text("utf-8")
    assert "resolved" not in {key for one in packages.values() for key in one}


def test_the_release_runs_commands_that_exist() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    scripts = "\n".join(step.get("run", "") for step in workflow["jobs"]["release"]["steps"])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = {name for line in re.findall(r"\bmake ([a-z -]+)", scripts) for name in line.split()}
    packages = re.findall(r"for name in ([a-z ]+);", scripts)[0].split()

    assert {"check", "test-all", "release"} <= called <= targets
    assert (ROOT / "deploy/release.py").is_file()
    assert {f"skein-{name}" for name in packages} == {
        one.name for one in runpy.run_path(str(DEPLOY / "dist.py"))["packages"]()
    }
