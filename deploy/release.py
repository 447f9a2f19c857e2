"""Makes the files of a release, and what each release has beside its packages. Run by make.

deploy/release.py build FOLDER TAG TOOLS [URL]
                                           make everything of the tagged version from the commit, twice, with equal
                                           bytes; URL is the address of the repository, TOOLS as below
deploy/release.py describe FOLDER TOOLS    write skein-VERSION.cdx.json (CycloneDX) and SHA256SUMS for the packages of a
                                           folder; TOOLS is the interpreter that has cyclonedx-bom
deploy/release.py sign FOLDER KEY          sign SHA256SUMS with a private key of OpenSSH, into SHA256SUMS.sig
deploy/release.py freeze [FOLDER]          write what later versions keep: migrations.toml and contract.binpb.gz
deploy/release.py changelog DAY            write the fragments of changes/ into CHANGELOG.md, whose section gets the day
deploy/release.py notes TAG                print the section of CHANGELOG.md of the version that the tag names
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
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
CHANGELOG = ROOT / "CHANGELOG.md"
FRAGMENTS = ROOT / "changes"
# The headings of Keep a Changelog, in its order; the name of a fragment begins with one of them.
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
# What a build could depend on and must not: time zone, language, order of sets, mask of permissions, and path.
WORLDS = (
    ({"TZ": "UTC", "LC_ALL": "C.UTF-8"}, 0o022, "first"),
    ({"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7"}, 0o077, "a second checkout/of the commit"),
)


def build(folder: str, tag: str, tools: str, url: str = "") -> None:
    """Make everything of a release from two checkouts of the commit. Exits with a sentence when bytes differ."""
    out = Path(folder).resolve()
    text = released_notes(tag)
    if git("status", "--porcelain", "--untracked-files=no", of=ROOT):
        sys.exit("There are changes that no commit has: a release is made of a commit.")
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        made = []
        for environment, mask, name in WORLDS:
            checkout, files = Path(scratch) / name / "skein", Path(scratch) / name / "made"
            make_once(checkout, files, (str(Path(tools).absolute()), url), {**os.environ, **environment}, mask)
            made.append(files)
        first, second = ({path.relative_to(files): digest(path) for path in all_files(files)} for files in made)
        differing = sorted(str(name) for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        if differing:
            sys.exit("\n  ".join(["Two builds of the commit differ in:", *differing]))
        # uv writes a .gitignore.
        shutil.copytree(made[0], out, ignore=shutil.ignore_patterns(".*"))
    (out / "notes.md").write_text(f"{text}\n", "utf-8")
    print(f"{len(first)} files of {tag}, the same from both checkouts of {git('rev-parse', 'HEAD', of=ROOT)[:12]}")


def make_once(checkout: Path, out: Path, given: tuple[str, str], environment: dict[str, str], mask: int) -> None:
    """Make everything of a release from a new checkout, with the tools of this clone's locks."""
    tools, url = given
    # What git ignores or does not have cannot enter.
    clone = ("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(checkout))
    subprocess.run(clone, umask=mask, check=True)
    # What the TypeScript client is built with; its package.json makes the sources modules.
    work = checkout / ".edge/typescript"
    work.mkdir(parents=True)
    (work / "node_modules").symlink_to(ROOT / ".edge/typescript/node_modules")
    shutil.copy(checkout / "libs/typescript/package.json", work)

    def run(program: str, *arguments: str) -> None:
        command = [sys.executable, str(checkout / program), *arguments]
        subprocess.run(command, cwd=checkout, env=environment, umask=mask, check=True, stdout=subprocess.DEVNULL)

    run("deploy/dist.py", str(out), url)
    run("libs/typescript/tools/build.py", str(out / "npm"), url)
    run("libs/go/tools/go_module.py", str(checkout / "go"), url)
    write_go_module(checkout / "go", out / "go")
    write_image_context(checkout, out / "image")
    run("deploy/release.py", "describe", str(out), tools)


def write_go_module(module: Path, folder: Path) -> None:
    """Write the zip file of a Go module, as module proxies have it: names begin with the module and its version."""
    (path,) = re.findall(r"^module (.*)$", (module / "go.mod").read_text("utf-8"), re.MULTILINE)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"skein-go-{dist.version()}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in all_files(module):
            # A ZipInfo has the time 1980-01-01 and no permissions.
            entry = zipfile.ZipInfo(f"{path}@v{dist.version()}/{file.relative_to(module).as_posix()}")
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


def write_image_context(checkout: Path, folder: Path) -> None:
    """Write what `docker build --file deploy/Dockerfile -` reads: what .dockerignore lets through."""
    ignore = (checkout / ".dockerignore").read_text("utf-8").splitlines()
    names = ["deploy/Dockerfile", *(line[1:] for line in ignore if line.startswith("!"))]
    archived = ("-c", "tar.umask=0022", "archive", "--format=tar", "HEAD", *names)
    data = subprocess.run(["git", *archived], cwd=checkout, check=True, stdout=subprocess.PIPE).stdout  # noqa: S607 - git of the machine.
    folder.mkdir(parents=True)
    (folder / f"skein-image-{dist.version()}.tar.gz").write_bytes(gzip.compress(data, mtime=0))


def all_files(folder: Path) -> list[Path]:
    """Return the files below a folder, sorted by their names."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git(*arguments: str, of: Path) -> str:
    """Return what git prints about a repository."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=of, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


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
    lines = [f"{digest(path)}  {path.relative_to(out).as_posix()}\n" for path in files]
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

    A second run for a version replaces what the first one wrote, until the version is tagged. Exits then, and when an
    earlier version's migration was changed.
    """
    if git("tag", "--list", f"v{dist.version()}", of=ROOT):
        sys.exit(f"v{dist.version()} is tagged, so what later versions keep of it stands: set the next version first.")
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


def changelog(day: str) -> None:
    """Write the fragments into the section of the version, which gets its day, and remove them."""
    version = dist.version()
    fragments = {kind: sorted(FRAGMENTS.glob(f"{kind}-*.md")) for kind in KINDS}
    if unknown := set(FRAGMENTS.glob("*.md")) - {path for paths in fragments.values() for path in paths}:
        sys.exit(f"The names of fragments begin with one of {', '.join(KINDS)}: {', '.join(map(str, sorted(unknown)))}")
    added = "".join(
        f"\n### {kind.capitalize()}\n\n" + "".join(f"{path.read_text('utf-8').strip()}\n" for path in paths)
        for kind, paths in fragments.items()
        if paths
    )
    number = re.escape(version)
    head = rf"^## \[(?:Unreleased\]: {number}|{number}\] - [-\d]+)\n(.*?)(?=^## |\Z)"
    text = CHANGELOG.read_text("utf-8")
    section = re.search(head, text, re.DOTALL | re.MULTILINE)
    body = "" if section is None else section[1]
    dated = f"## [{version}] - {day}\n{body.rstrip()}\n{added}\n"
    if section is None:
        before, mark, after = text.partition("\n## ")
        text = f"{before}\n{dated}{mark[1:]}{after}"
    else:
        text = text[: section.start()] + dated + text[section.end() :]
    CHANGELOG.write_text(text.rstrip() + "\n", "utf-8")
    for path in FRAGMENTS.glob("*.md"):
        path.unlink()


def released_notes(tag: str) -> str:
    """Return the notes of a version. Exits with a sentence when tag or changelog is not of this version."""
    version = dist.version()
    if tag != f"v{version}":
        sys.exit(f"The tag {tag} is not v{version}, the version in libs/protos/pyproject.toml.")
    if any(FRAGMENTS.glob("*.md")):
        sys.exit("changes/ has fragments that CHANGELOG.md lacks: deploy/release.py changelog YYYY-MM-DD")
    text = CHANGELOG.read_text("utf-8")
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if section is None:
        sys.exit(f"CHANGELOG.md has no section ## [{version}] - YYYY-MM-DD.")
    return section[1].strip()


def notes(tag: str) -> None:
    """Print the notes of a version."""
    print(released_notes(tag))


if __name__ == "__main__":
    commands = {
        "build": build, "describe": describe, "sign": sign, "freeze": freeze, "changelog": changelog, "notes": notes,
    }  # fmt: skip
    commands[sys.argv[1]](*sys.argv[2:])
