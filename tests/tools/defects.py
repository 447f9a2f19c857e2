"""`python tests/tools/defects.py`: plants each defect of defects.toml and says which tier of the tests finds it.

Each is planted in a copy of the committed tree. The test files that it names run there until one fails; that test must
pass once the defect is taken back, so an unreliable test finds nothing. What they do not find is put to the whole tier
with --whole.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).parent / "defects.toml"
# In this order the tiers are asked: their tests, as pytest chooses them.
TIERS = {"fast": "not system and not edge", "system": "system"}
# A run of one tier's tests that has not ended by then hangs.
_LIMIT_SECONDS = 1800
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)
# Of pytest: tests failed, a run was ended by the first failure, no test was chosen.
_TESTS_FAILED, _INTERRUPTED, _NO_TESTS = 1, 2, 5


@dataclass(frozen=True, kw_only=True)
class Defect:
    """One text of the product that is replaced by a wrong one."""

    area: str
    # Says what goes wrong.
    name: str
    file: str
    before: str
    after: str
    # Names of test files that are asked first, apart by spaces.
    expect: str

    def plant(self, copy: Path) -> None:
        """Write the wrong text; fails where the right one does not occur exactly once."""
        path = copy / self.file
        text = path.read_text("utf-8")
        if text.count(self.before) != 1:
            raise click.ClickException(f"{self.name}: {self.file} has its text {text.count(self.before)} times")
        path.write_text(text.replace(self.before, self.after), "utf-8")


@dataclass(frozen=True)
class Copy:
    """The committed tree in a folder of its own, run with this clone's environment."""

    folder: Path
    workers: int

    @classmethod
    def make(cls, folder: Path, workers: int) -> Copy:
        _git("clone", "--quiet", str(ROOT), str(folder))
        (folder / ".venv").symlink_to(ROOT / ".venv", target_is_directory=True)
        return cls(folder, workers)

    def restore(self) -> None:
        _git("-C", str(self.folder), "checkout", "--quiet", ".")

    def run(self, tests: list[str], *options: str) -> tuple[int, str]:
        """Run these tests and return the exit code and what was printed."""
        paths = [str(path) for path in (*self.folder.glob("services/*"), *self.folder.glob("libs/*"))]
        environment = {
            **os.environ,
            # Before the installed packages, which are this clone's own.
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        command = [
            sys.executable, "-m", "pytest", "-q", "-n", str(self.workers), "--dist", "worksteal", *options, *tests,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
            timeout=_LIMIT_SECONDS,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def finder(self, tests: list[str], tier: str, defect: Defect) -> str:
        """Return a tier's first test that fails with the defect and passes without it; "" if none does."""
        defect.plant(self.folder)
        try:
            code, output = self.run(tests, "-x", "-m", TIERS[tier])
        finally:
            self.restore()
        if code in (0, _NO_TESTS):
            return ""
        failed = _FAILED.findall(output)
        if code not in (_TESTS_FAILED, _INTERRUPTED) or not failed:
            raise click.ClickException(f"{defect.name}: the tests did not run:\n{output[-3000:]}")
        return next((test for test in failed if self.run([test], "-n", "0")[0] == 0), "")


@click.command()
@click.option("--tier", type=click.Choice([*TIERS, "each"]), default="each", show_default=True)
@click.option("--only", default="", help="A part of the names of the defects to plant.")
@click.option("--whole", is_flag=True, help="Put to the whole tier what the named test files do not find.")
@click.option("--workers", default=2, show_default=True)
def main(tier: str, only: str, whole: bool, workers: int) -> None:  # noqa: FBT001 - click passes it by name.
    """Plant each defect and print a row of the table of findings; fails when one is not found."""
    defects = [Defect(**each) for each in tomllib.loads(FILE.read_text("utf-8"))["defect"] if only in each["name"]]
    tiers = [*TIERS] if tier == "each" else [tier]
    folder = Path(tempfile.mkdtemp(prefix="skein-defects-"))
    try:
        copy = Copy.make(folder / "copy", workers)
        found = [_find(copy, defect, tiers, whole=whole) for defect in defects]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    counts = ", ".join(f"{found.count(each)} by {each}" for each in tiers)
    click.echo(f"{len(defects)} defects: {counts}, {found.count('')} by none")
    sys.exit(found.count("") > 0)


def _find(copy: Copy, defect: Defect, tiers: list[str], *, whole: bool) -> str:
    """Print which test finds a defect, and return its tier."""
    began = time.monotonic()
    for tier in tiers:
        named = [
            str(path.relative_to(ROOT)) for path in ROOT.glob("tests/*/*.py") if path.name in defect.expect.split()
        ]
        for tests in filter(None, (named, ["tests"] if whole else [])):
            if test := copy.finder(tests, tier, defect):
                seconds = time.monotonic() - began
                click.echo(f"{defect.area:12} {defect.name:66} {tier:6} {seconds:4.0f} s  {test}")
                return tier
    click.echo(f"{defect.area:12} {defect.name:66} none   {time.monotonic() - began:4.0f} s")
    return ""


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)  # noqa: S607 - git of the developer's path.


if __name__ == "__main__":
    main()
