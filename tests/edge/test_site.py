"""The site of the documents builds, has no dead link, and needs no other host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fix_node import run, tool

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".edge/docs"


class QuietFileHandler(SimpleHTTPRequestHandler):
    """Serves files and says nothing about it."""

    def log_message(self, *_: object) -> None:
        """Leave the output to the tests."""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The built pages, by their paths."""
    made = subprocess.run(["make", "docs"], cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S607 - make of the machine.
    assert made.returncode == 0, made.stdout + made.stderr
    return {path.relative_to(SITE).as_posix(): path.read_text("utf-8") for path in SITE.rglob("*.html")}


@pytest.mark.essential
def test_a_page_of_each_reader_is_there(pages: dict[str, str]) -> None:
    expected = {f"docs/guides/{path.stem}.html" for path in (ROOT / "docs/guides").glob("*.md")}

    assert {"index.html", "docs/quickstart.html", "docs/operations.html", *expected} <= set(pages)


@pytest.mark.essential
def test_no_page_loads_anything_from_another_host(pages: dict[str, str]) -> None:
    loaded = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?(?:https?:)?//|<link[^>]*\shref=[\"']?(?:https?:)?//")

    assert [name for name, text in pages.items() if loaded.search(text)] == []


@pytest.mark.usefixtures("pages")
def test_the_search_index_knows_the_reference() -> None:
    result = json.loads((SITE / "search/search_index.json").read_text("utf-8"))["docs"]

    assert any("SKEIN_POOL_SIZE" in entry["text"] for entry in result)
    assert any(entry["location"].startswith("docs/reference/rpc/memory.html") for entry in result)


@pytest.mark.usefixtures("pages")
async def test_a_reader_searches_without_any_other_host() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFileHandler, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"

        report = await run(
            Path(__file__).with_name("site.mjs"),
            {"CHROMIUM": tool("chromium"), "ORIGIN": origin, "QUERY": "SKEIN_MEMORY_ACCESS_LOG_MONTHS"},
        )
        server.shutdown()

    assert "docs/reference/settings.html" in report["found"]
    assert report["elsewhere"] == []


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](quickstart.md#gone)"])
def test_a_dead_link_fails_the_build(tmp_path: Path, link: str) -> None:
    copy = shutil.copytree(ROOT / ".edge/pages", tmp_path / "pages")
    page = copy / "src/docs/README.md"
    page.write_text(page.read_text("utf-8") + f"\n{link}\n", "utf-8")

    made = subprocess.run(
        [ROOT / ".edge/site/bin/python", "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=copy,
        check=False,
        capture_output=True,
        text=True,
    )

    assert made.returncode != 0
    assert "gone" in made.stderr
