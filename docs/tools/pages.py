"""Copies every page of the repository into a folder that mkdocs can build, and fails on a link that leads nowhere.

Pages keep their paths, so that links between them work in the repository and in the site. A link to another file of the
repository becomes its text, because the site has pages only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("mkdocs.yml")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")


def main(target: Path) -> None:
    """Fill the folder anew."""
    shutil.rmtree(target, ignore_errors=True)
    pages = tracked_pages()
    dead: list[str] = []
    for page in pages:
        copy = target / "src" / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(adapted(page, pages, dead), "utf-8")
    if dead:
        sys.exit("\n  ".join(["Links that lead nowhere:", *dead]))
    shutil.copyfile(CONFIG, target / "mkdocs.yml")


def tracked_pages() -> set[Path]:
    """Return the Markdown files that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],  # noqa: S607 - git of the machine.
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return {ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}


def adapted(page: Path, pages: set[Path], dead: list[str]) -> str:
    """Return the text of a page for the site; add each dead link to `dead`."""

    def replace(found: re.Match[str]) -> str:
        target = (page.parent / found[2]).resolve()
        if target in pages:
            return found[0]
        if not target.exists():
            dead.append(f"{page.relative_to(ROOT)}: {found[2]}")
        return found[1]

    pieces = _FENCE.split(page.read_text("utf-8"))
    return "".join(piece if number % 2 else _LINK.sub(replace, piece) for number, piece in enumerate(pieces))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
