"""The release workflow's steps are run in a new clone, one after the other: `make release` and the publishing.

`NOT_RUN` names the commands that are not run, `STAND_INS` the programs that stand-ins replace, and `ACTIONS` the steps
that only GitHub runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from fix_node import tool

ROOT = Path(__file__).parents[2]
STEPS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"][
    "release"
]["steps"]
# Every test, of which these are a part; the advisories, which not every machine reaches.
NOT_RUN = {"Check and test", "Look for known vulnerabilities"}
# They need an account and a service outside: a stand-in records how each is called.
STAND_INS = {
    "Build the image and push it": "docker",
    "Publish the npm package": "npm",
    "Make the page of the release": "gh",
}
ACTIONS = ["actions/checkout", *2 * ("actions/attest-build-provenance",), "actions/attest-sbom"]
RECORD = """#!/bin/sh
printf '%s\\n' "$(basename "$0") $(printf '%s ' "$@")" >> "$RECORD"
[ "$1" != build ] || tar -tzf - > "$RECORD.context"
[ "$1" != inspect ] || echo registry.example/acme/skein@sha256:0123
"""
VERSION: str = tomllib.loads((ROOT / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]["version"]
DAY = "2026-12-31"
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Test"), ("EMAIL", "test@example.org"))
}

pytestmark = pytest.mark.timeout(1800)


class Index(ThreadingHTTPServer):
    """A package index on loopback that takes every upload and keeps the names of the files."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Upload)
        self.uploaded: list[str] = []


class Upload(BaseHTTPRequestHandler):
    """Twine's protocol: a form with the file."""

    server: Index

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        names = re.findall(rb'name="content"; filename="([^"]+)"', body)
        self.server.uploaded += [name.decode() for name in names]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@dataclass
class Release:
    """A clone in which the steps were run."""

    clone: Path
    public_key: str
    uploaded: list[str]
    # The output of each step.
    printed: dict[str, str] = field(default_factory=dict)
    # The calls of stand-ins: program and arguments.
    calls: list[list[str]] = field(default_factory=list)
    # Names in the archive that `docker build` was given.
    context: list[str] = field(default_factory=list)

    @property
    def dist(self) -> Path:
        return self.clone / "dist"


def git(*arguments: str, folder: Path) -> str:
    """Run git; return what it prints."""
    environment = {**os.environ, **IDENTITY}
    command = [tool("git"), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def environment_of_make() -> dict[str, str]:
    """Return this process's environment without what an outer make put there."""
    return {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}


def new_clone(folder: Path) -> Path:
    """Clone the repository with the changes of tracked files that are not committed yet."""
    commit = git("stash", "create", folder=ROOT) or "HEAD"
    git("clone", "--quiet", "--shared", str(ROOT), str(folder), folder=ROOT)
    git("reset", "--quiet", "--hard", git("rev-parse", commit, folder=ROOT), folder=folder)
    return folder


def run_step(step: dict[str, Any], values: dict[str, str], release: Release, environment: dict[str, str]) -> str:
    """Run a step's commands as GitHub does; return what they print."""

    def evaluated(text: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)

    own = {name: evaluated(str(value)) for name, value in step.get("env", {}).items()}
    ended = subprocess.run(
        [tool("bash"), "-e", "-c", evaluated(step["run"])],
        cwd=release.clone,
        env={**environment, **own},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.returncode == 0, f"{step['name']}: {ended.stdout}"
    return ended.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release that the workflow's steps made."""
    folder = tmp_path_factory.mktemp("release")
    clone = new_clone(folder / "clone")
    (clone / "changes").mkdir(exist_ok=True)
    (clone / "changes/fixed-a-test.md").write_text("- What a fragment of the test says.\n", "utf-8")
    subprocess.run([sys.executable, clone / "deploy/release.py", "changelog", DAY], check=True)
    git("add", "--all", folder=clone)
    git("commit", "--quiet", "--message", f"release {VERSION}", folder=clone)
    key = folder / "key"
    subprocess.run([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    values = {
        "secrets.SIGNING_KEY": key.read_text("utf-8").rstrip("\n"),
        "secrets.IMAGE_USER": "user",
        "secrets.IMAGE_PASSWORD": "password",
        "secrets.PYTHON_INDEX_TOKEN": "token",
        "secrets.NPMRC": "//registry.example/:_authToken=token",
        "vars.IMAGE": "registry.example/acme/skein",
        "github.token": "token",
    }
    (folder / "runner").mkdir()
    (folder / "programs").mkdir()
    for name in STAND_INS.values():
        (folder / "programs" / name).write_text(RECORD, "utf-8")
        (folder / "programs" / name).chmod(0o755)
    record = folder / "record"
    with Index() as index:
        serving = threading.Thread(target=index.serve_forever)
        serving.start()
        environment = {
            **environment_of_make(),
            "SKEIN_PYTHON": sys.executable,
            "GITHUB_REF_NAME": f"v{VERSION}",
            "GITHUB_SHA": git("rev-parse", "HEAD", folder=clone),
            "GITHUB_SERVER_URL": "https://example.org",
            "GITHUB_REPOSITORY": "acme/skein",
            "GITHUB_OUTPUT": str(folder / "output"),
            "RUNNER_TEMP": str(folder / "runner"),
            "RECORD": str(record),
            "TWINE_REPOSITORY_URL": f"http://127.0.0.1:{index.server_address[1]}/",
        }
        made = Release(clone, (folder / "key.pub").read_text("utf-8"), index.uploaded)
        for step in STEPS:
            if "run" in step and step["name"] not in NOT_RUN:
                programs = f"{folder / 'programs'}:" if step["name"] in STAND_INS else ""
                path = {"PATH": f"{programs}{environment['PATH']}"}
                made.printed[step["name"]] = run_step(step, values, made, {**environment, **path})
        index.shutdown()
        serving.join()
    made.calls = [shlex.split(line) for line in record.read_text("utf-8").splitlines()]
    made.context = Path(f"{record}.context").read_text("utf-8").split()
    return made


def test_every_step_is_run_or_named(release: Release) -> None:
    commands = {step["name"] for step in STEPS if "run" in step}

    assert commands == release.printed.keys() | NOT_RUN
    assert [step["uses"].partition("@")[0] for step in STEPS if "uses" in step] == ACTIONS
    assert release.printed.keys() >= STAND_INS.keys()


def test_a_release_has_a_file_of_every_kind(release: Release) -> None:
    made = {path.relative_to(release.dist).as_posix() for path in release.dist.rglob("*") if path.is_file()}
    python = {name for name in made if name.endswith((".whl", ".tar.gz")) and "/" not in name}
    summed = {line.split("  ")[1] for line in (release.dist / "SHA256SUMS").read_text("utf-8").splitlines()}

    assert made - python == {
        *("SHA256SUMS", "SHA256SUMS.sig", "notes.md", f"skein-{VERSION}.cdx.json"),
        *(f"npm/skein-client-{VERSION}.tgz", f"go/skein-go-{VERSION}.zip", f"image/skein-image-{VERSION}.tar.gz"),
    }
    assert len(python) == 14
    assert summed == made - {"SHA256SUMS", "SHA256SUMS.sig", "notes.md"}
    assert "the same from both checkouts" in "".join(release.printed.values())


def test_the_signature_is_that_of_the_workflows_key(release: Release, tmp_path: Path) -> None:
    (tmp_path / "signers").write_text(f"release {release.public_key}", "utf-8")
    verify = [tool("ssh-keygen"), "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "release"]
    verify += ["-n", "skein-release", "-s", str(release.dist / "SHA256SUMS.sig")]
    sums = (release.dist / "SHA256SUMS").read_text("utf-8")

    verified = subprocess.run(verify, check=False, input=sums, text=True, stdout=subprocess.DEVNULL)
    checked = subprocess.run([tool("sha256sum"), "--check", "--quiet", "SHA256SUMS"], cwd=release.dist, check=False)

    assert (verified.returncode, checked.returncode) == (0, 0)


def test_the_notes_have_the_fragments_which_are_used_up(release: Release) -> None:
    notes = (release.dist / "notes.md").read_text("utf-8")
    changelog = (release.clone / "CHANGELOG.md").read_text("utf-8")

    assert "### Fixed\n\n- What a fragment of the test says.\n" in notes
    assert f"## [{VERSION}] - {DAY}\n" in changelog
    assert notes.strip() in changelog
    assert not list((release.clone / "changes").glob("*.md"))


def test_each_package_is_uploaded_after_those_that_it_requires(release: Release) -> None:
    python = {path.name for path in release.dist.iterdir() if path.name.endswith((".whl", ".tar.gz"))}
    order = list(dict.fromkeys(name.partition("-")[0] for name in release.uploaded))

    assert sorted(release.uploaded) == sorted(python)
    assert order[0] == "skein_protos"
    assert order.index("skein_client") < order.index("skein_adapters")
    assert order[-1] == "skein_memory"


def test_the_programs_of_the_outside_get_the_files_of_the_release(release: Release) -> None:
    called = {(call[0], call[1]): call for call in release.calls}
    named = {argument for call in release.calls for argument in call if argument.startswith("dist/")}
    of_the_page = {argument.removeprefix("dist/") for argument in called["gh", "release"] if "dist/" in argument}

    assert called.keys() == {
        *(("docker", verb) for verb in ("login", "build", "push", "inspect")),
        *(("npm", "publish"), ("gh", "release")),
    }
    assert all((release.clone / name).is_file() for name in named)
    assert of_the_page == {
        path.relative_to(release.dist).as_posix() for path in release.dist.rglob("*") if path.is_file()
    }
    assert f"registry.example/acme/skein:{VERSION}" in called["docker", "build"]


def test_the_context_of_the_image_has_what_the_dockerfile_copies_and_nothing_of_git(release: Release) -> None:
    recipe = (release.clone / "deploy/Dockerfile").read_text("utf-8")
    lines = re.findall(r"^COPY (?!--from)(.*)$", recipe, re.MULTILINE)
    copied = {name for line in lines for name in line.split()[:-1]}
    tracked = set(git("ls-files", folder=release.clone).splitlines())
    files = {name for name in release.context if not name.endswith("/")}

    assert copied
    assert {name for name in copied if not any(one == name or one.startswith(f"{name}/") for one in files)} == set()
    assert files <= tracked
    assert not [name for name in files if name.startswith(("tests/", "docs/"))]


def test_the_go_module_and_the_npm_package_name_the_repository(release: Release) -> None:
    with zipfile.ZipFile(release.dist / f"go/skein-go-{VERSION}.zip") as archive:
        names = archive.namelist()
    with tarfile.open(release.dist / f"npm/skein-client-{VERSION}.tgz") as package:
        manifest = package.extractfile("package/package.json")
        assert manifest is not None
        described = json.load(manifest)

    module = f"example.org/acme/skein/libs/go@v{VERSION}"
    assert {f"{module}/go.mod", f"{module}/LICENSE", f"{module}/skein/gateway/v1/gateway.pb.go"} <= set(names)
    assert all(name.startswith(f"{module}/") for name in names)
    assert described["repository"]["url"] == "git+https://example.org/acme/skein.git"
    assert described["version"] == VERSION


@pytest.mark.parametrize(
    ("change", "tag", "reason"),
    [
        pytest.param("", "v0.0.1", f"is not v{VERSION}", id="another version"),
        pytest.param("README.md", f"v{VERSION}", "no commit has", id="an uncommitted change"),
        pytest.param("changes/added-late.md", f"v{VERSION}", "CHANGELOG.md lacks", id="a fragment"),
    ],
)
def test_what_is_no_release_is_refused(release: Release, tmp_path: Path, change: str, tag: str, reason: str) -> None:
    clone = tmp_path / "clone"
    git("clone", "--quiet", "--shared", str(release.clone), str(clone), folder=tmp_path)
    if change:
        (clone / change).parent.mkdir(exist_ok=True)
        (clone / change).write_text("- A change.\n", "utf-8")
    command = [sys.executable, str(clone / "deploy/release.py"), "build", str(tmp_path / "dist"), tag, "unused"]

    ended = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)

    assert ended.returncode == 1
    assert reason in ended.stderr


def test_notes_need_a_section_with_a_day(tmp_path: Path) -> None:
    clone = new_clone(tmp_path / "clone")
    for fragment in (clone / "changes").glob("*.md"):
        fragment.unlink()
    (clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]: {VERSION}\n\nAll.\n", "utf-8")
    command = [sys.executable, str(clone / "deploy/release.py")]

    undated = subprocess.run([*command, "notes", f"v{VERSION}"], check=False, stderr=subprocess.PIPE, text=True)
    subprocess.run([*command, "changelog", DAY], check=True)
    dated = subprocess.run([*command, "notes", f"v{VERSION}"], check=True, stdout=subprocess.PIPE, text=True)

    assert "has no section" in undated.stderr
    assert dated.stdout == "All.\n"
