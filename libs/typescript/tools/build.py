"""Builds the package for npm from the contract and the sources, in .edge/typescript. Run by `make typescript`.

libs/typescript/tools/build.py FOLDER [URL]    where the package goes, and the address of the repository that it names

The generated code is made here and not committed: a build needs Node in any case.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
HERE = ROOT / "libs/typescript"
WORK = ROOT / ".edge/typescript"
BUF = Path(sys.executable).parent / "buf"
PLUGIN = "node_modules/@bufbuild/protoc-gen-es/bin/protoc-gen-es"
# What only a build needs, and what keeps an unbuilt package from being published.
BUILD_ONLY = ("devDependencies", "private")


def main(folder: str, url: str = "") -> None:
    """Write the package into a folder, where an earlier one is removed."""
    out = Path(folder).resolve()
    package = WORK / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(HERE / "src", package / "src")
    shutil.copy(HERE / "tsconfig.json", package)
    generate(package / "src/gen")
    run("node", str(WORK / "node_modules/typescript/bin/tsc"), "--project", "tsconfig.json", folder=package)
    shutil.rmtree(package / "src")
    (package / "tsconfig.json").unlink()
    shutil.copy(ROOT / "LICENSE", package)
    (package / "README.md").write_text(without_links((HERE / "README.md").read_text("utf-8")), "utf-8")
    (package / "package.json").write_text(json.dumps(manifest(url), indent=2) + "\n", "utf-8")
    # npm packs the modes of the files, which the builder's mask of permissions made.
    for path in package.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
    out.mkdir(parents=True, exist_ok=True)
    for path in out.glob("skein-client-*.tgz"):
        path.unlink()
    run("npm", "pack", "--silent", "--pack-destination", str(out), folder=package)
    (path,) = out.glob("skein-client-*.tgz")
    print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


def generate(target: Path) -> None:
    """Write TypeScript of the contract and of the files that it imports."""
    template = (HERE / "buf.gen.yaml").read_text("utf-8")
    template = template.replace("PLUGIN", json.dumps(str(WORK / PLUGIN))).replace("OUT", json.dumps(str(target)))
    path = WORK / "buf.gen.yaml"
    path.write_text(template, "utf-8")
    run(str(BUF), "generate", "--template", str(path), folder=ROOT)


def manifest(url: str) -> dict[str, Any]:
    """Return the package.json of the package, in the version of the contract."""
    project = tomllib.loads((ROOT / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]
    source = json.loads((HERE / "package.json").read_text("utf-8"))
    name = source.pop("name")
    kept = {key: value for key, value in source.items() if key not in BUILD_ONLY}
    addresses = {
        "homepage": f"{url}/libs/typescript",
        "bugs": f"{url}/issues",
        "repository": {"type": "git", "url": f"git+{url}.git", "directory": "libs/typescript"},
    }
    return {"name": name, "version": project["version"], **kept, **(addresses if url else {})}


def without_links(text: str) -> str:
    """Return a page with plain text for its links into the repository, which lead nowhere on a package index."""
    return re.sub(r"\[([^\]]+)\]\((?![a-z]+:)[^)]+\)", r"\1", text)


def run(*command: str, folder: Path) -> None:
    """Run a program, which must succeed."""
    subprocess.run(command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
