"""Which Python `make` takes, of several that only say of themselves what they are."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "env.sh"
# It is asked whether it will do, whether it was built to be fast, and for its version. When it is taken, that is all.
PYTHON = """#!/bin/sh
case "$*" in
    *ensurepip*) exit {unusable} ;;
    *CONFIG_ARGS*) exit {slow} ;;
    *python_version*) echo {version} ;;
    *venv*) echo {version} >taken; kill "$PPID" ;;
esac
"""


@dataclass(frozen=True, kw_only=True)
class Python:
    # Newer than any that a machine really has, or that one would be taken.
    version: str
    place: str = "bin/python3.{minor}"
    usable: bool = True
    fast: bool = True

    def put(self, home: Path) -> None:
        path = home / self.place.format(minor=self.version.split(".")[1], version=self.version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PYTHON.format(version=self.version, unusable=int(not self.usable), slow=int(not self.fast)))
        path.chmod(0o755)


PYENV = ".pyenv/versions/{version}/bin/python3"
UV = ".local/share/uv/python/cpython-{version}-linux/bin/python3"
NEW, OLD = Python(version="3.30.1"), Python(version="3.29.4")


def taken(folder: Path, *pythons: Python, **environment: str) -> str:
    """Run the script where there are these; return the version that it takes."""
    home = folder / "home"
    for python in pythons:
        python.put(home)
    # What it needs of the machine, and none of the machine's Pythons on the search path.
    tools = folder / "tools"
    tools.mkdir()
    for name in ("rm", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    shutil.copy(SCRIPT, folder)
    variables = {"PATH": f"{home}/bin:{tools}", "HOME": str(home), "TMPDIR": str(folder), **environment}
    subprocess.run(["/bin/sh", SCRIPT.name], cwd=folder, env=variables, capture_output=True, timeout=60, check=False)
    return (folder / "taken").read_text().strip()


@pytest.mark.parametrize(
    ("pythons", "expected"),
    [
        pytest.param((NEW, OLD), NEW, id="the newest"),
        pytest.param((Python(version="3.30.1", fast=False), OLD), OLD, id="one that was built to be fast first"),
        pytest.param((Python(version="3.30.1", usable=False), OLD), OLD, id="one that will do"),
        pytest.param((Python(version="3.30.1", place=PYENV), OLD), NEW, id="also of pyenv"),
        pytest.param((Python(version="3.30.1", place=UV), OLD), NEW, id="also of uv"),
        pytest.param((NEW, Python(version="3.30.2", place=PYENV)), NEW, id="of the search path first"),
    ],
)
def test_one_of_several_pythons_is_taken(tmp_path: Path, pythons: tuple[Python, ...], expected: Python) -> None:
    assert taken(tmp_path, *pythons) == expected.version


def test_the_one_that_is_named_is_taken_whatever_there_is(tmp_path: Path) -> None:
    named = Python(version="3.29.4", fast=False)

    assert taken(tmp_path, NEW, named, SKEIN_PYTHON="python3.29") == named.version
