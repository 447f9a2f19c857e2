"""Writes the generated part of libs/protos (`write`), or says whether it is what the protos give (`check`).

Everything is made in a scratch folder first, so that a proto that does not compile leaves the stubs as they were.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import vendor_protos

HOME = Path("libs/protos")
GENERATED = ("skein", "buf", "vendor")
BUF = Path(sys.executable).parent / "buf"


def write() -> None:
    # buf.yaml names this folder, so generating needs it in its place.
    vendor_protos.main(HOME / "vendor")
    with tempfile.TemporaryDirectory() as scratch:
        vendor_protos.main(Path(scratch) / HOME / "vendor")
        generate(Path(scratch))
        for name in differences(Path(scratch) / HOME):
            if (Path(scratch) / HOME / name).exists():
                (HOME / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(scratch) / HOME / name, HOME / name)
            else:
                (HOME / name).unlink()


def check() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        vendor_protos.main(Path(scratch) / HOME / "vendor")
        generate(Path(scratch))
        stale = differences(Path(scratch) / HOME)
    if stale:
        sys.exit(
            "\n  ".join(
                ["Not what the protos give (run `make protos` and commit):", *(str(HOME / name) for name in stale)]
            )
        )


def generate(root: Path) -> None:
    """Run buf on the committed protos, its output below the root."""
    done = subprocess.run([BUF, "generate", "--output", root], check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def differences(fresh: Path) -> list[Path]:
    """Generated files that one side lacks or that differ, as paths below libs/protos."""
    names = files(fresh) | files(HOME)
    return sorted(name for name in names if content(fresh / name) != content(HOME / name))


def files(home: Path) -> set[Path]:
    """What is generated below one home; bytecode does not count."""
    found = (path for folder in GENERATED for path in (home / folder).rglob("*") if path.is_file())
    return {path.relative_to(home) for path in found if "__pycache__" not in path.parts}


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]]()
