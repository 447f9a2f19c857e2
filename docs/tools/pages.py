"""Copies every page of the repository into a folder that mkdocs can build, and fails on a link that leads nowhere.

Pages and pictures keep their paths, so that links between them work in the repository and in the site. A link to
another file of the repository becomes its text, because the site has no other files. Pages of RPCs are found last.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("mkdocs.yml")
_RPCS = ROOT / "docs/reference/rpc"
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")


def main(target: Path) -> None:
    """Replace the folder's content."""
    shutil.rmtree(target, ignore_errors=True)
    pages = tracked_pages()
    dead: list[str] = []
    for page in pages:
        copy = target / "src" / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            copy.write_text(_rank(page) + adapted(page, page.read_text("utf-8"), pages, dead), "utf-8")
        else:
            shutil.copyfile(page, copy)
    if dead:
        sys.exit("\n  ".join(["Links that lead nowhere:", *dead]))
    shutil.copyfile(CONFIG, target / "mkdocs.yml")


def tracked_pages() -> set[Path]:
    """Return the Markdown files, and the pictures of docs/ and deploy/, that git knows or would add."""
    patterns = ("*.md", "docs/*.svg", "docs/*.webp", "deploy/*.svg")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],  # noqa: S607 - git of the machine.
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return {ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()}


def _rank(page: Path) -> str:
    """Return the front matter that lets a search find a page's guide before the page, where it is one of RPCs."""
    return "---\nsearch:\n  boost: 0.2\n---\n\n" if page.parent == _RPCS else ""


def adapted(page: Path, text: str, pages: set[Path], dead: list[str]) -> str:
    """Return the text of a page for the site; add each dead link to `dead`."""

    def replace(found: re.Match[str]) -> str:
        target = (page.parent / found[2]).resolve()
        if target in pages:
            return found[0]
        if not target.exists():
            dead.append(f"{page.relative_to(ROOT)}: {found[2]}")
        return found[1]

    pieces = _FENCE.split(text)
    return "".join(piece if number % 2 else _LINK.sub(replace, piece) for number, piece in enumerate(pieces))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
