"""Databases of the systems that people move in from, as their own documents describe them, for the tests of imports."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner
from fix_cluster import ARCHIVES, Cluster, Tenant, test_environment
from fix_command import CommandResult

from skein_cluster.cli.error_messages import command_error
from skein_cluster.embedded.databases import create_database, drop_database
from skein_cluster.main import skein as main
from skein_importers.errors import SourceInvalid
from skein_importers.sources import FORMATS

_LOGGED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[.*\n", re.MULTILINE)


@asynccontextmanager
async def a_database(cluster: Cluster, ddl: str) -> AsyncIterator[tuple[str, asyncpg.Connection[asyncpg.Record]]]:
    """Make a Postgres database of another system until the block ends: its URL, and a connection to fill it."""
    name = f"moving_{uuid.uuid4().hex}"
    await create_database(cluster.postgres, name)
    url = cluster.postgres.url(user="postgres", database=name)
    try:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(ddl)
            yield url, connection
        finally:
            await connection.close()
    finally:
        await drop_database(cluster.postgres, name)


async def fill(connection: asyncpg.Connection[asyncpg.Record], table: str, *rows: Mapping[str, Any]) -> None:
    """Insert rows into a Postgres table."""
    for row in rows:
        names = ", ".join(f'"{name}"' for name in row)
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", *row.values())  # noqa: S608 - our names.


def a_file(path: Path, ddl: str, **tables: Sequence[Mapping[str, Any]]) -> str:
    """Make an SQLite file of another system; return its name."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ddl)
        for table, rows in tables.items():
            for row in rows:
                names = ", ".join(f'"{name}"' for name in row)
                # What is no UTF-8 is put in as the bytes that it is.
                places = ", ".join("CAST(? AS TEXT)" if isinstance(value, bytes) else "?" for value in row.values())
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))  # noqa: S608 - our names.
        connection.commit()
    return str(path)


def holding(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with a tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


def outcome(report: Any, kind: str) -> tuple[int, int, int]:
    """Return how many records of a kind were read, written and there already."""
    return report["read"].get(kind, 0), report["written"].get(kind, 0), report["skipped"].get(kind, 0)


def changed(report: Any, table: str, column: str) -> dict[str, int]:
    """Return how a column's values were changed on the way, and how often."""
    results = [entry for entry in report["coerced"] if (entry["table"], entry["column"]) == (table, column)]
    return {entry["how"]: entry["count"] for entry in results}


def remaining_counts(report: Any) -> dict[str, int]:
    """Return how many rows of each table stayed behind."""
    counts: dict[str, int] = {}
    for entry in report["left"]:
        counts[entry["table"]] = counts.get(entry["table"], 0) + entry["count"]
    return counts


def refusals(report: Any) -> dict[str, str]:
    """Return why rows were refused, by their places."""
    return {entry["where"]: entry["reason"] for entry in report["refused"]}


async def move_in(cluster: Cluster, tenant: Tenant, form: str, source: str, *options: str) -> CommandResult:
    """Import a source into a tenant, and tell what the report says as JSON."""
    return await _imported(form, source, *options, SKEIN_ENDPOINT=cluster.endpoint, SKEIN_API_KEY=tenant.api_key)


async def move_all_in(cluster: Cluster, form: str, source: str, *options: str) -> CommandResult:
    """Import every realm of a source as the operator."""
    key = cluster.operator_key
    return await _imported(form, source, "--all", *options, SKEIN_ENDPOINT=cluster.endpoint, SKEIN_OPERATOR_KEY=key)


async def _imported(*arguments: str, **environment: str) -> CommandResult:
    """Run the command in a thread of this process: starting another takes longer than most imports."""
    names = (*os.environ, *environment)
    settings = {name: environment.get(name) for name in names if name.startswith("SKEIN_")}
    runner = CliRunner(env={**settings, "SKEIN_DATA_DIR": ARCHIVES.name})
    done = await asyncio.to_thread(runner.invoke, main, ["import", *arguments, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        # As the command's own `main` ends.
        failure = command_error(done.exception)
        if failure is None:
            raise done.exception
        return CommandResult(failure.exit_code, "", f"Error: {failure.message}\n")
    # The cluster of the tests is in this process, and may log meanwhile to what is taken for the command's.
    return CommandResult(done.exit_code, _LOGGED.sub("", done.stdout), _LOGGED.sub("", done.stderr))


async def refusal_of(form: str, source: str) -> str:
    """Open a source that cannot be read; return what is said of it."""

    def opened() -> None:
        with FORMATS[form].open(source) as result:
            result.tenants()

    with pytest.raises(SourceInvalid) as caught:
        await asyncio.to_thread(opened)
    return str(caught.value)
