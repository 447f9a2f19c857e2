"""What the disk of a database holds: the bytes of its files, and the steps that clean them."""

from __future__ import annotations

import base64
import gzip
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]


def spellings(stem: str) -> set[bytes]:
    """Return how files may hold a word: as it was said, in lower and upper case, and in Base64 at any offset."""
    spelled = {stem, stem.lower(), stem.upper()}
    coded = set[str]()
    for text in spelled:
        for offset in range(3):
            whole = base64.b64encode(b"x" * offset + text.encode()).decode()
            # The first and the last characters hold bits of the neighbours.
            coded.add(whole[4 if offset else 0 : -4])
    return {text.encode() for text in spelled | coded}


async def write_anew(connection: Connection) -> None:
    """Clean the data files and the write-ahead log by the steps of docs/security/erasure.md."""
    files = "FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
    await connection.execute("ALTER SYSTEM SET autovacuum = off")
    await connection.execute("ALTER SYSTEM SET wal_recycle = off")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.execute("VACUUM FULL")
    first = await connection.fetchval("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
    await connection.execute("CHECKPOINT")
    last = await connection.fetchval(f"SELECT max(name) {files}")
    is_clean = f"SELECT min(name) > $1 AND pg_walfile_name(pg_current_wal_lsn()) > $2 {files}"
    while not await connection.fetchval(is_clean, first, last):
        await connection.execute("SELECT pg_switch_wal()")
        await connection.execute("CHECKPOINT")


def files_holding(folders: Iterable[Path], needles: set[bytes]) -> dict[str, bytes]:
    """Return the files below some folders that hold one of some bytes, unpacked or packed, and which."""
    # The words of a person differ in case alone, so one look finds them all.
    any_needle = re.compile(b"|".join(re.escape(needle) for needle in sorted(needles)))
    results = {}
    for folder in folders:
        for file in folder.rglob("*"):
            if not file.is_file():
                continue
            data = file.read_bytes()
            data = gzip.decompress(data) if file.suffix == ".gz" else data
            if (match := any_needle.search(data)) is not None:
                results[str(file.relative_to(folder))] = match.group()
    return results
