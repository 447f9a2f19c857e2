"""What a release has beside its packages: a bill of materials, checksums, their signature, notes. Run by make.

deploy/release.py describe FOLDER TOOLS    write skein-VERSION.cdx.json (CycloneDX) and SHA256SUMS for the packages of a
                                           folder; TOOLS is the interpreter that has cyclonedx-bom
deploy/release.py sign FOLDER KEY          sign SHA256SUMS with a private key of OpenSSH, into SHA256SUMS.sig
deploy/release.py freeze [FOLDER]          write what later versions keep: migrations.toml and contract.binpb.gz
deploy/release.py notes TAG                print the section of CHANGELOG.md of the version that the tag names
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import dist
import sbom
from skein_cluster import registry
from skein_kit.database.schema_migrations import release_faults

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"
# Binds a signature to its purpose: a signature of another kind of file is none of a release.
NAMESPACE = "skein-release"
RELEASED = ROOT / "deploy/released"
MIGRATIONS = "migrations.toml"
CONTRACT = "contract.binpb.gz"
_HEAD = """\
# Written by `make freeze`: the migrations of each version that no earlier one had, with the SHA-256 of their texts.
# A file that is named here is never changed, renamed or removed.
"""


def describe(folder: str, tools: str) -> None:
    """Write the bill of materials of all Python packages together, then the checksums of every file of the version."""
    out = Path(folder).resolve()
    version = dist.version()
    with tempfile.TemporaryDirectory() as scratch:
        python = install(Path(scratch) / "environment", out)
        bill = sbom.bill_of_materials(tools, python)
    ours = sorted(one["bom-ref"] for one in bill["components"] if one["name"] in published())
    bill["metadata"]["component"] = {
        "bom-ref": "root-component",
        "type": "application",
        "name": "skein",
        "version": version,
        "description": "All packages of a release of Skein.",
        "licenses": [{"expression": "Apache-2.0"}],
    }
    # The graph of what requires what begins at our packages.
    bill["dependencies"] = [one for one in bill["dependencies"] if one["ref"] != "root-component"]
    bill["dependencies"].append({"ref": "root-component", "dependsOn": ours})
    add_model(bill)
    (out / f"skein-{version}.cdx.json").write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", "utf-8")
    files = sorted(path for path in out.rglob(f"*{version}*") if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}\n" for path in files]
    (out / SUMS).write_text("".join(lines), "utf-8")
    (out / f"{SUMS}.sig").unlink(missing_ok=True)


def install(environment: Path, out: Path) -> str:
    """Install every package of a folder, and what they require in the versions of the lock; return the interpreter."""
    python = str(environment / "bin/python")
    uv("venv", "--python", sys.executable, str(environment))
    wheels = [str(path) for path in sorted(out.glob(f"skein*-{dist.version()}-*.whl"))]
    uv("pip", "install", "--python", python, "--no-index", "--no-deps", *wheels)
    required = {
        requirement
        for package in dist.packages()
        for requirement in dist.requirements(package, published())
        if requirement.partition("==")[0] not in published()
    }
    lock = str(ROOT / "requirements.lock")
    uv("pip", "install", "--python", python, "--no-build", "--constraint", lock, *sorted(required))
    return python


def published() -> set[str]:
    """Return the names of our packages."""
    return {package.name for package in dist.packages()}


def add_model(bill: dict[str, Any]) -> None:
    """Add the weights that the server's package carries, which are no package in an environment of it."""
    version = distribution(dist.MODEL).version
    (server,) = (one["bom-ref"] for one in bill["components"] if one["name"] == dist.SERVER)
    reference = f"{dist.MODEL}=={version}"
    bill["components"].append(
        {
            "bom-ref": reference,
            "type": "machine-learning-model",
            "name": dist.MODEL,
            "version": version,
            "licenses": [{"expression": "MIT"}],
        }
    )
    (requires,) = (one for one in bill["dependencies"] if one["ref"] == server)
    requires["dependsOn"] = sorted([*requires.get("dependsOn", []), reference])
    bill["dependencies"].append({"ref": reference})


def uv(*arguments: str) -> None:
    """Run uv, which must succeed."""
    subprocess.run([sys.executable, "-m", "uv", *arguments, "--quiet"], check=True)


def freeze(folder: str = str(RELEASED)) -> None:
    """Add the version's migrations to the list of a folder, and write its contract there.

    A second run for a version replaces what the first one wrote. Exits when an earlier version's migration was changed.
    """
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    file = out / MIGRATIONS
    released = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
    released.pop(dist.version(), None)
    migrations = registry.migrations()
    if faults := release_faults(released, migrations):
        sys.exit("\n".join(faults))
    former = {name for names in released.values() for name in names}
    released[dist.version()] = {one.file_name: one.checksum for one in migrations if one.file_name not in former}
    file.write_text(
        _HEAD + "\n" + dist.as_toml({f'"{version}"': names for version, names in released.items()}), "utf-8"
    )
    contract = [sys.executable, "libs/protos/tools/contract.py", "write", str(out / CONTRACT)]
    subprocess.run(contract, cwd=ROOT, check=True)


def sign(folder: str, key: str) -> None:
    """Sign the checksums. `ssh-keygen -Y verify` checks the signature with the public key."""
    sums = Path(folder) / SUMS
    sums.with_suffix(".sig").unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, str(sums)], check=True)  # noqa: S607 - the machine's.


def notes(tag: str, changelog: str = str(ROOT / "CHANGELOG.md")) -> None:
    """Print the notes of a version. Exits with a sentence when the tag or the changelog is not that of this version."""
    version = dist.version()
    if tag != f"v{version}":
        sys.exit(f"The tag {tag} is not v{version}, the version in libs/protos/pyproject.toml.")
    text = Path(changelog).read_text("utf-8")
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if section is None:
        sys.exit(f"CHANGELOG.md has no section ## [{version}] - YYYY-MM-DD.")
    print(section[1].strip())


if __name__ == "__main__":
    {"describe": describe, "freeze": freeze, "sign": sign, "notes": notes}[sys.argv[1]](*sys.argv[2:])
