"""Documents are short, and what they name exists: pages, make targets, commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from skein_cluster import registry

ROOT = Path(__file__).parents[2]
README_BYTES = 12_288
SERVICE_README_LINES = 60


def documents() -> list[Path]:
    """Return every page of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],  # noqa: S607 - git of the machine.
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


PAGES = {path: path.read_text("utf-8") for path in documents()}


def blocks(text: str) -> list[str]:
    """Return the shell blocks of a page."""
    matches = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for language, block in matches if language in {"", "sh"}]


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= README_BYTES


def test_a_service_s_readme_is_one_screen() -> None:
    lines = {name: PAGES[ROOT / f"services/{name}/README.md"].count("\n") for name in registry.NAMES}

    assert {name: count for name, count in lines.items() if count > SERVICE_README_LINES} == {}


def test_links_lead_to_files_that_exist() -> None:
    dead = [
        f"{path.relative_to(ROOT)}: {target}"
        for path, text in PAGES.items()
        for target in re.findall(r"\]\((?![a-z]+:)([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"(?s)```.*?```|`[^`]*`", "", text))
        if not (path.parent / target).exists()
    ]

    assert dead == []


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    unknown = [
        f"{path.relative_to(ROOT)}: {target}"
        for path, text in PAGES.items()
        for target in re.findall(r"(?:^|`|=many )make ([a-z-]+)", text, re.MULTILINE)
        if target not in targets
    ]

    assert unknown == []


def test_every_command_that_reads_a_data_folder_reads_the_one_that_the_environment_names() -> None:
    lines = [
        line
        for text in PAGES.values()
        for block in blocks(text)
        for line in block.splitlines()
        if re.search(r"credentials\.json|share/skein", line)
    ]

    assert lines
    for line in lines:
        assert "${SKEIN_DATA_DIR:-" in line, line
