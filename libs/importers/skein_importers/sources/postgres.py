"""Reads another system's Postgres in one read-only snapshot, row by row, without locks that block its writers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from skein_importers.errors import SourceInvalid, SourceTooLarge
from skein_importers.sources.reading_limits import STATEMENT_SECONDS

# Rows of one round trip.
_FETCH = 500
_CONNECT_SECONDS = 15.0
_CLOSE_SECONDS = 5.0
_TIMEOUT = "statement_timeout"
_SCHEMES = frozenset({"postgres", "postgresql"})
_SETTINGS = {
    "application_name": "skein import",
    "default_transaction_read_only": "on",
    # Do not wait for schema changes; and the import may be idle between reads.
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "0",
}
_COLUMNS = """
SELECT class.relname AS table_name, attribute.attname AS column_name,
       pg_catalog.has_column_privilege(class.oid, attribute.attnum, 'SELECT') AS readable
FROM pg_catalog.pg_attribute AS attribute
JOIN pg_catalog.pg_class AS class ON class.oid = attribute.attrelid
WHERE class.relname = ANY ($1) AND class.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND pg_catalog.pg_table_is_visible(class.oid) AND attribute.attnum > 0 AND NOT attribute.attisdropped
"""
_ALL_COLUMNS = """
SELECT class.relname AS table_name, attribute.attname AS column_name
FROM pg_catalog.pg_attribute AS attribute
JOIN pg_catalog.pg_class AS class ON class.oid = attribute.attrelid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE class.relkind IN ('r', 'p') AND pg_catalog.pg_table_is_visible(class.oid)
  AND namespace.nspname NOT IN ('pg_catalog', 'information_schema')
  AND attribute.attnum > 0 AND NOT attribute.attisdropped
  AND pg_catalog.has_column_privilege(class.oid, attribute.attnum, 'SELECT')
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The columns to read from one table."""

    # Required columns.
    needs: Sequence[str]
    # Optional columns; NULL when missing.
    may_have: Sequence[str] = ()
    # Unique columns that give a stable order.
    order: Sequence[str] = ()
    # Columns to read as text.
    as_text: frozenset[str] = field(default_factory=frozenset)
    # The table itself is optional.
    optional: bool = False
    # Why columns have no place here; "" for one that the report names elsewhere. Further columns are then read too, as
    # whether they hold something, so that the report counts them.
    unread: Mapping[str, str] | None = None


class Database:
    """An open database of another system."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: asyncpg.Connection[asyncpg.Record],
        tables: Mapping[str, Table],
        columns: Mapping[str, frozenset[str]],
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._tables = tables
        self._columns = columns

    def has(self, table: str) -> bool:
        """Say whether the database has one of the optional tables."""
        return table in self._columns

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty when it does not exist."""
        return self._columns.get(table, frozenset())

    def describe(self, table: str, definition: Table, columns: frozenset[str]) -> None:
        """Read a table that was recognized by its columns."""
        self._tables = {**self._tables, table: definition}
        self._columns = {**self._columns, table: columns}

    def all_tables(self) -> list[tuple[str, frozenset[str]]]:
        """Return every table of the search path and its readable columns."""
        columns: dict[str, set[str]] = {}
        for row in self.query(_ALL_COLUMNS):
            columns.setdefault(row["table_name"], set()).add(row["column_name"])
        return [(name, frozenset(names)) for name, names in sorted(columns.items())]

    def rows(
        self, table: str, where: str = "", *parameters: object, extra_columns: Mapping[str, str] | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """Read a table's rows in order; `where` is a condition with $1 and so on.

        `extra_columns` has further expressions by name.

        Raises SourceInvalid when the connection ends, or the server refuses.
        """
        if not self.has(table):
            return
        definition, columns = self._tables[table], self._columns[table]
        expressions = [
            _column(table, name, exists=name in columns, as_text=name in definition.as_text)
            for name in (*definition.needs, *definition.may_have)
        ]
        if definition.unread is not None:
            others = sorted(columns - {*definition.needs, *definition.may_have})
            expressions += [f'CASE WHEN "{table}"."{name}" IS NOT NULL THEN TRUE END AS "{name}"' for name in others]
        expressions += [f'{expression} AS "{name}"' for name, expression in (extra_columns or {}).items()]
        condition = f" WHERE {where}" if where else ""
        order = ", ".join(f'"{table}"."{name}"' for name in definition.order if name in columns)
        statement = f'SELECT {", ".join(expressions)} FROM "{table}"{condition} ORDER BY {order}'  # noqa: S608 - our names.
        yield from self.query(statement, *parameters)

    def query(self, statement: str, *parameters: object) -> Iterator[Mapping[str, Any]]:
        """Read the rows of a statement, some at a time."""
        cursor = self._run(self._connection.cursor(statement, *parameters))
        while rows := self._run(cursor.fetch(_FETCH)):
            yield from rows

    def count(self, table: str) -> int:
        """Count a table's rows."""
        if not self.has(table):
            return 0
        return int(self._run(self._connection.fetchval(f'SELECT count(*) FROM "{table}"')))  # noqa: S608 - our names.

    def _run(self, call: Any) -> Any:
        return _run(self._loop, call)


@contextmanager
def open_database(url: str, tables: Mapping[str, Table], system: str) -> Iterator[Database]:
    """Read a database as it is now until the block ends. Raises SourceInvalid, which names no password."""
    server = _server_of(url)
    loop = asyncio.new_event_loop()
    try:
        connection = _connect(loop, url, server)
        try:
            transaction = connection.transaction(isolation="repeatable_read", readonly=True)
            _run(loop, transaction.start())
            columns = _check_columns(
                _run(loop, connection.fetch(_COLUMNS, list(tables))), tables, f"{system} ({server})"
            )
            yield Database(loop, connection, tables, columns)
        finally:
            loop.run_until_complete(_close(connection))
    finally:
        loop.close()


def _server_of(url: str) -> str:
    """Return a URL's host, port and database, without secrets."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in _SCHEMES:
        raise SourceInvalid("SOURCE is the URL of a Postgres database, such as postgresql://user@host:5432/database.")
    return f"{parts.hostname or 'the default host'}{port}{parts.path}"


def _connect(loop: asyncio.AbstractEventLoop, url: str, server: str) -> asyncpg.Connection[asyncpg.Record]:
    settings = dict(_SETTINGS)
    if _TIMEOUT not in parse_qs(urlsplit(url).query):
        settings[_TIMEOUT] = f"{STATEMENT_SECONDS}s"
    connect = asyncpg.connect(url, timeout=_CONNECT_SECONDS, server_settings=settings)
    try:
        return loop.run_until_complete(connect)
    except asyncpg.InvalidAuthorizationSpecificationError:
        message = f"{server} does not let this user in: check the user and the password of the URL (or PGPASSWORD)."
    except asyncpg.InvalidCatalogNameError:
        message = f"There is no such database: {server}."
    except asyncpg.PostgresError as error:
        message = f"{server} refused the connection ({error.sqlstate}): ask its administrator."
    except (OSError, TimeoutError):
        message = f"No Postgres answers at {server}: check the host and the port, and that it can be reached from here."
    except (ValueError, asyncpg.InterfaceError):
        message = f"The URL of {server} has a part that Postgres does not know; check what follows the database's name."
    raise SourceInvalid(message)


def _run(loop: asyncio.AbstractEventLoop, call: Any) -> Any:
    """Await a query. Raises SourceInvalid for errors of the server or connection."""
    try:
        return loop.run_until_complete(_await(call))
    except asyncpg.InsufficientPrivilegeError:
        message = "The user of the URL may not read a table: GRANT SELECT on it, and run the import again."
    except asyncpg.QueryCanceledError:
        raise SourceTooLarge(
            "A statement in the database took too long. A view may have endless rows; for a very large table add "
            f'"?{_TIMEOUT}=1h" to the URL.'
        ) from None
    except asyncpg.LockNotAvailableError:
        message = "Another session is changing a table of the database: run the import again when that is done."
    except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError):
        message = "The connection to the database ended: run the import again, which continues where it stopped."
    except asyncpg.PostgresError as error:
        message = f"The database could not be read (SQLSTATE {error.sqlstate}): run the import again."
    raise SourceInvalid(message)


async def _close(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Close the connection; abort it when the server does not answer."""
    try:
        await connection.close(timeout=_CLOSE_SECONDS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


async def _await(call: Any) -> Any:
    return await call


def _check_columns(
    rows: Sequence[Mapping[str, Any]], tables: Mapping[str, Table], system: str
) -> Mapping[str, frozenset[str]]:
    """Return the columns of each existing table. Raises SourceInvalid for missing or unreadable ones."""
    columns: dict[str, set[str]] = {}
    for row in rows:
        columns.setdefault(row["table_name"], set()).add(row["column_name"])
    for name, table in tables.items():
        if name not in columns:
            if table.optional:
                continue
            raise SourceInvalid(
                f"This is no database of {system}: it has no table {name} (in the search path of this user)."
            )
        missing = [column for column in table.needs if column not in columns[name]]
        if missing:
            raise SourceInvalid(f"This is no database of {system}: its table {name} has no column {missing[0]}.")
    unreadable = sorted({row["table_name"] for row in rows if not row["readable"]})
    if unreadable:
        raise SourceInvalid(
            f"The user of the URL may not read {', '.join(unreadable)}: GRANT SELECT on it, and run the import again."
        )
    return {name: frozenset(names) for name, names in columns.items()}


def _column(table: str, name: str, *, exists: bool, as_text: bool) -> str:
    if not exists:
        return f'NULL::text AS "{name}"'
    expression = f'"{table}"."{name}"'
    return f'{expression}::text AS "{name}"' if as_text else expression
