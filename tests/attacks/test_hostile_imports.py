"""Sources of imports that are small and cost much: comments, recursion, depth, digits, archives that inflate.

Attack: a person is given a file, or the URL of a database, and moves it in with `skein import`.
May be seen: a refusal that says what is wrong with the source.
May be spent: what a sound source of that size takes.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster
from fix_moving import a_database

from skein_importers.errors import SourceInvalid, SourceTooLarge
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources import FORMATS
from skein_importers.sources.base import Notes

# Makes a source in a folder and returns what is imported.
Maker = Callable[["Path"], str]

SQL, STORE, DOCUMENT, STREAM, ARCHIVE, SERVER = "SQL", "store", "document", "stream", "archive", "server"
# What each format is made of; a new one is entered here.
KINDS: Mapping[str, tuple[str, ...]] = {
    "duyetbot-d1": (SQL,),
    "longterm-d1": (SQL,),
    "memoryvault-d1": (SQL,),
    "memoryvault-json": (DOCUMENT,),
    "agentmem-pg": (SERVER,),
    "orchestrator-pg": (SERVER,),
    "session-memory-agent": (STORE, STREAM),
    "contextual-memory": (STORE, STREAM),
    "jarvis-memory": (STORE, STREAM),
    "chatgpt-json": (STREAM,),
    "claude-json": (STREAM,),
    "graphiti-json": (DOCUMENT,),
    "hindsight-zip": (ARCHIVE,),
    "langgraph-pg": (SERVER,),
    "letta-af": (DOCUMENT,),
    "letta-pg": (SERVER,),
    "mem0-json": (STREAM,),
    "mem0-pgvector": (SERVER,),
    "mcp-memory-jsonl": (STREAM,),
    "openmemory-sqlite": (SQL,),
    "mif": (DOCUMENT,),
}
MEBIBYTE = 1024 * 1024


def written(name: str, *parts: str) -> Maker:
    """Return what writes a file of some texts."""

    def write(folder: Path) -> str:
        path = folder / name
        path.write_text("".join(parts), "utf-8")
        return str(path)

    return write


def script(*statements: str) -> Maker:
    return written("export.sql", "CREATE TABLE first (id TEXT);\n", *statements)


def sparse(folder: Path) -> str:
    """Make a file that no machine can hold, and that takes no room."""
    path = folder / "document.json"
    with path.open("wb") as file:
        file.write(b'{"memories": [')
        file.truncate(1 << 40)
    return str(path)


def archive(members: Mapping[str, bytes]) -> Maker:
    def write(folder: Path) -> str:
        path = folder / "bank.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("manifest.json", json.dumps({"schema_version": 1, "source_bank_id": "b"}))
            for name, content in members.items():
                made.writestr(name, content)
        return str(path)

    return write


def store_of_views(folder: Path) -> str:
    """Make an SQLite file whose only table is a query without end."""
    path = folder / "store.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW memories AS {ENDLESS} SELECT n AS id, n AS content FROM numbers")  # noqa: S608 - our names.
    return str(path)


ENDLESS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)"
# Each has a name, a source, and whether it is refused for its size. A slow reader would not end in the time of a test.
HOSTILE: Mapping[str, Mapping[str, tuple[Maker, bool]]] = {
    SQL: {
        "empty comments": (script("/**/" * 40, "x;\n"), False),
        "half a million empty comments": (script("/**/" * 500_000, "INSERT INTO first VALUES ('a');\n"), False),
        "semicolons in a text": (script("INSERT INTO first VALUES ('", ";\n" * 500_000, "');\n"), False),
        "a trigger of many statements": (script("CREATE TRIGGER t BEGIN ", "x;\n" * 50_000, "END;\n"), False),
        "a text without end": (script("INSERT INTO first VALUES ('", ";\n" * 500_000), False),
        "recursion without end": (script(f"INSERT INTO first {ENDLESS} SELECT n FROM numbers;\n"), True),  # noqa: S608 - our names.
        "a table of recursion": (script(f"CREATE TABLE other AS {ENDLESS} SELECT n FROM numbers;\n"), True),  # noqa: S608 - our names.
        "a join of everything": (
            script(
                f"INSERT INTO first VALUES {', '.join(['(1)'] * 400)};\n",  # noqa: S608 - our names.
                "INSERT INTO first SELECT a.id FROM first a, first b, first c, first d;\n",
            ),
            True,
        ),
        "blobs from nothing": (
            script("INSERT INTO first SELECT zeroblob(33554432) FROM (VALUES ", ", ".join(["(1)"] * 400), ");\n"),
            True,
        ),
        "a value longer than any": (script("INSERT INTO first VALUES (hex(zeroblob(900000000)));\n"), False),
        "a view without end": (store_of_views, False),
    },
    STORE: {"a view without end": (store_of_views, False)},
    DOCUMENT: {
        "depth": (written("a.json", '{"memories": ' + "[" * 500_000), False),
        "digits": (written("a.json", '{"memories": [', "9" * 2_000_000, "]}"), False),
        "a file without end": (sparse, True),
    },
    STREAM: {
        "depth": (written("a.json", "[" * 500_000), False),
        "digits": (written("a.json", "[", "9" * 4_000_000), False),
        "digits of a fraction": (written("a.json", "[0.", "9" * 4_000_000), False),
        "a text without end": (written("a.json", '[{"id": "', "x" * 4_000_000), False),
        "spaces": (written("a.json", "[", " " * 4_000_000), False),
    },
    ARCHIVE: {
        "members that inflate": (
            archive({f"documents/{number:06}.json": b" " * (4 * MEBIBYTE) for number in range(40)}),
            True,
        ),
        "depth": (archive({"documents/000000.json": b"[" * 500_000}), False),
    },
}


def read_all(name: str, source: str) -> list[Record | UnreadableRecord]:
    """Read a source as an import does."""
    with FORMATS[name].open(source) as opened:
        records = [record for realm in opened.tenants() for record in opened.records(realm, Notes())]
        list(opened.accounts(Notes()))
        return records


def test_each_format_has_its_hostile_sources() -> None:
    assert KINDS.keys() == FORMATS.keys()
    assert set(itertools.chain(*KINDS.values())) == {*HOSTILE, SERVER}


@pytest.mark.system
@pytest.mark.parametrize("name", [name for name in KINDS if SERVER not in KINDS[name]])
def test_a_hostile_file_is_refused_for_what_it_is(tmp_path: Path, name: str) -> None:
    for kind in KINDS[name]:
        for attack, (make, is_too_large) in HOSTILE[kind].items():
            source = make(tmp_path)

            with pytest.raises(SourceTooLarge if is_too_large else SourceInvalid) as caught:
                pytest.fail(f"{name} reads {attack}: {read_all(name, source)[:3]}")

            assert str(caught.value), attack


@pytest.mark.system
@pytest.mark.parametrize("name", [name for name in KINDS if SERVER in KINDS[name]])
async def test_tables_without_end_are_read_for_a_limited_time(cluster: Cluster, name: str) -> None:
    module = importlib.import_module(f"skein_importers.sources.{FORMATS[name].module}")
    tables: Mapping[str, Any] = getattr(module, "TABLES", {})
    # Without tables of known names, it reads no views.
    statements = ["SELECT 1"]
    for table, columns in tables.items():
        values = ", ".join(f'n AS "{column}"' for column in columns.needs)
        statements.append(f'CREATE VIEW "{table}" AS {ENDLESS} SELECT {values} FROM numbers')  # noqa: S608 - our names.
    async with a_database(cluster, "; ".join(statements)) as (url, _):
        source = f"{url}{'&' if '?' in url else '?'}statement_timeout=200"

        with pytest.raises(SourceTooLarge if tables else SourceInvalid) as caught:
            await asyncio.to_thread(read_all, name, source)

    assert "://" not in str(caught.value)
