"""Reads another system's SQLite file, or the SQL of a D1 export; never writes, and never locks for long.

Rows are read by row id, some hundreds at a time, so that other users of the file do not wait for the import.
"""

from __future__ import annotations

import math
import re
import sqlite3
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from skein_importers.errors import SourceInvalid, SourceTooLarge
from skein_importers.sources.reading_limits import (
    MAX_ROWS_INFLATION,
    MAX_STATEMENT_CHARACTERS,
    MIN_ROWS_BYTES,
    MIN_STEPS,
    STEPS_PER_BYTE,
)

_MAGIC = b"SQLite format 3\0"
# Header byte of the format's read version: 2 means a write-ahead log.
_READ_VERSION = 19
_WITH_LOG = 2
_FETCH = 500
_PROBE_BYTES = 65_536
_STEPS_BETWEEN_CHECKS = 10_000
_PAGE_BYTES = 4096
_EXPORT_HINT = "Export it with `wrangler d1 export NAME --remote --output FILE.sql`, or copy the .sqlite file."
_BUSY_SECONDS = 10.0
_PIECE_CHARACTERS = 1024 * 1024
# What ends a run of plain SQL, and what ends each thing that it begins.
_SPECIAL = re.compile(r"""['"`\[;]|--|/\*""")
_ENDS = {"'": "'", '"': '"', "`": "`", "[": "]", "--": "\n", "/*": "*/"}
_COMMENTS = frozenset({"--", "/*"})
# The first half of something of two characters, at the end of a piece.
_HALVES = ("-", "/", "*")
_HEAD_CHARACTERS = 400
_IMPORTED = re.compile(
    r'(CREATE\s+TABLE|INSERT\s+(OR\s+\w+\s+)?INTO)\s+(?!["`\[]?(sqlite_|_cf_))',
    re.IGNORECASE,
)
_TRIGGER = re.compile(r"CREATE\s+(TEMP(ORARY)?\s+)?TRIGGER\b", re.IGNORECASE)
_END_OF_TRIGGER = re.compile(r"\bEND\s*$", re.IGNORECASE)
_TAIL_CHARACTERS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """The columns to read from one table."""

    # Required columns.
    needs: Sequence[str]
    # Optional columns; NULL when missing.
    may_have: Sequence[str] = ()
    # The table itself is optional.
    optional: bool = False
    # Why columns have no place here; "" for one that the report names elsewhere. Further columns are then read too, as
    # whether they hold something, so that the report counts them.
    unread: Mapping[str, str] | None = None


class Database:
    """An open file of another system."""

    def __init__(self, connection: sqlite3.Connection, path: str, tables: Mapping[str, Table]) -> None:
        """Read from `connection`; all `columns` of `tables` exist."""
        self._connection = connection
        self._path = path
        self._tables = tables
        pages = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")]
        self._size = math.prod(pages)
        self._steps = _StepLimit(connection, self._size)
        self._columns: dict[str, frozenset[str]] = {}

    def has(self, table: str) -> bool:
        """Say whether the file has one of the optional tables."""
        return table in self._columns

    def has_column(self, table: str, column: str) -> bool:
        """Say whether a table has one of the optional columns."""
        return column in self._columns.get(table, ())

    def describe(self, table: str, definition: Table) -> None:
        """Read a table that was recognized by its columns."""
        self._tables = {**self._tables, table: definition}
        self._columns[table] = self._columns_of(table)

    def all_tables(self) -> list[tuple[str, frozenset[str]]]:
        """Return every table of the file and its columns."""
        statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
        names = [str(name) for (name,) in self.query(f"{statement} ORDER BY name")]
        return [(name, self._columns_of(name)) for name in names]

    def check(self, system: str) -> None:
        """Check required tables and columns. Raises SourceInvalid."""
        tables = {name.lower(): columns for name, columns in self.all_tables()}
        for name, table in self._tables.items():
            if name not in tables:
                if table.optional:
                    continue
                raise SourceInvalid(f"{self._path} is no database of {system}: it has no table {name}.")
            missing = [column for column in table.needs if column not in tables[name]]
            if missing:
                raise SourceInvalid(
                    f"{self._path} is no database of {system}: its table {name} has no column {missing[0]}."
                )
            self._columns[name] = tables[name]

    def rows(
        self, table: str, *, order: str = "", where: str = "", parameters: Sequence[Any] = (), extra_columns: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Read a table's rows by column, and `rowid`.

        `order`, `where` and `extra_columns` (further columns) are SQL. Rows equal in `order` come as they were stored.
        """
        if not self.has(table):
            return
        definition = self._tables[table]
        expressions = ["rowid"]
        expressions += [
            f'"{name}"' if name in self._columns[table] else f'NULL AS "{name}"'
            for name in (*definition.needs, *definition.may_have)
        ]
        if definition.unread is not None:
            others = sorted(self._columns[table] - {*definition.needs, *definition.may_have})
            expressions += [f'CASE WHEN "{name}" IS NOT NULL THEN 1 END AS "{name}"' for name in others]
        expressions += [extra_columns] if extra_columns else []
        condition = f" WHERE {where}" if where else ""
        full_order = f"{order}, rowid" if order else "rowid"
        ids = array(
            "q",
            (
                number
                for (number,) in self._fetched(
                    self.query(
                        f'SELECT rowid FROM "{table}"{condition} ORDER BY {full_order}',  # noqa: S608 - our names.
                        parameters,
                    )
                )
            ),
        )
        statement = f'SELECT {", ".join(expressions)} FROM "{table}" WHERE rowid IN'  # noqa: S608 - our names.
        remaining_bytes = max(MIN_ROWS_BYTES, MAX_ROWS_INFLATION * self._size)
        for first in range(0, len(ids), _FETCH):
            chunk = ids[first : first + _FETCH]
            cursor = self.query(f"{statement} ({', '.join('?' * len(chunk))})", chunk)
            names = [column[0] for column in cursor.description]
            rows = {}
            for row in self._fetched(cursor):
                rows[row[0]] = dict(zip(names, row, strict=True))
                remaining_bytes -= sum(len(value) for value in row if isinstance(value, str | bytes))
                if remaining_bytes < 0:
                    raise _too_much_work(self._path, f"table {table}")
            yield from (rows[number] for number in chunk if number in rows)

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a query. Raises SourceInvalid for a damaged file, or one that is not a database."""
        self._steps.restart()
        try:
            return self._connection.execute(statement, tuple(parameters))
        except sqlite3.DatabaseError as error:
            raise self._error(error) from None

    def _fetched(self, cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
        """Read the rows of a query, which may end with an error at any of them. Raises SourceInvalid."""
        try:
            yield from cursor
        except sqlite3.DatabaseError as error:
            raise self._error(error) from None

    def _error(self, error: sqlite3.DatabaseError) -> SourceInvalid:
        if self._steps.is_exceeded:
            return _too_much_work(self._path, "a query of its rows")
        return SourceInvalid(f"{self._path} cannot be read ({error}). {_EXPORT_HINT}")

    def _columns_of(self, table: str) -> frozenset[str]:
        return frozenset(str(name).lower() for (name,) in self.query("SELECT name FROM pragma_table_info(?)", (table,)))


def is_sqlite(path: Path) -> bool:
    """Say whether a file is an SQLite database. Raises SourceInvalid when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise SourceInvalid(f"{path} cannot be read ({error.strerror}): check its name and who may read it.") from None


@contextmanager
def open_sqlite(source: str, system: str, tables: Mapping[str, Table]) -> Iterator[Database]:
    """Read a file until the block ends; `system` is the name for messages. Raises SourceInvalid."""
    path = Path(source)
    if is_sqlite(path):
        with closing(_open_readonly(path)) as connection:
            database = Database(connection, source, tables)
            database.check(system)
            yield database
        return
    with path.open("rb") as file:
        head = file.read(_PROBE_BYTES)
    if not re.search(rb"CREATE\s+TABLE", head, re.IGNORECASE):
        raise SourceInvalid(f"{path} is neither an SQLite database nor an SQL export. {_EXPORT_HINT}")
    with (
        tempfile.TemporaryDirectory(prefix="skein-import-") as folder,
        closing(_load_sql(path, Path(folder) / "export.sqlite")) as connection,
    ):
        database = Database(connection, source, tables)
        database.check(system)
        yield database


def seconds(column: str) -> str:
    """Return SQL that converts times of any unit to seconds."""
    name = f'"{column}"'
    by_unit = " ".join(
        f"WHEN {name} >= {limit} THEN {name} / {unit}" for limit, unit in (("1e14", "1e6"), ("1e11", "1e3"))
    )
    return f"CASE WHEN typeof({name}) NOT IN ('integer', 'real') THEN {name} {by_unit} ELSE {name} END"


def _open_readonly(path: Path) -> sqlite3.Connection:
    """Open a file read-only with locks, else as immutable."""
    with path.open("rb") as file:
        header = file.read(_READ_VERSION + 1)
    has_log = header[_READ_VERSION:] == bytes([_WITH_LOG])
    # With a write-ahead log, SQLite would create files beside this one.
    modes = (
        ["immutable=1"] if has_log and not path.with_name(f"{path.name}-wal").exists() else ["mode=ro", "immutable=1"]
    )
    for mode in modes:
        connection = _connect(f"file:{quote(str(path.absolute()))}?{mode}")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            error_text = str(error)
            connection.close()
        except sqlite3.DatabaseError as error:
            error_text = str(error)
            connection.close()
            break
        else:
            return connection
    raise SourceInvalid(f"{path} cannot be read as SQLite ({error_text}). {_EXPORT_HINT}")


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None, timeout=_BUSY_SECONDS)
    # Accept invalid UTF-8; readers note the replaced characters.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_STATEMENT_CHARACTERS)
    # Views, columns and indexes of the file call no function that is not harmless.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def _load_sql(path: Path, copy: Path) -> sqlite3.Connection:
    """Load the tables and rows of an exported SQL script into a temporary file. Raises SourceInvalid."""
    connection = _connect(f"file:{quote(str(copy))}")
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA foreign_keys = OFF")
    size = path.stat().st_size
    pages = max(MIN_ROWS_BYTES, MAX_ROWS_INFLATION * size) // _PAGE_BYTES
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    connection.execute(f"PRAGMA max_page_count = {pages}")
    connection.execute("BEGIN")
    number, steps = 1, _StepLimit(connection, size)
    try:
        with path.open("r", encoding="utf-8", errors="surrogateescape", newline="") as file:
            for line, statement in statements(file, MAX_STATEMENT_CHARACTERS):
                number = line
                connection.execute(statement.encode("utf-8", "replace").decode())
        connection.execute("COMMIT")
    except StatementTooLong:
        connection.close()
        raise SourceTooLarge(
            f"{path} has a statement of more than {MAX_STATEMENT_CHARACTERS} characters after line {number}. "
            f"{_EXPORT_HINT}"
        ) from None
    except sqlite3.Error as error:
        connection.close()
        if steps.is_exceeded or error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise _too_much_work(path, f"line {number}") from None
        raise SourceInvalid(f"{path} cannot be read as SQL (line {number}: {error}). {_EXPORT_HINT}") from None
    steps.end()
    connection.execute("PRAGMA query_only = ON")
    return connection


class _StepLimit:
    """Interrupts the statements of a connection when they have taken more steps than a file of its size needs."""

    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        """Count from now on; the file has `size` bytes."""
        self._connection = connection
        self._max_steps = MIN_STEPS + STEPS_PER_BYTE * size
        self._steps = 0
        connection.set_progress_handler(self._check, _STEPS_BETWEEN_CHECKS)

    @property
    def is_exceeded(self) -> bool:
        """Whether a statement was interrupted."""
        return self._steps > self._max_steps

    def restart(self) -> None:
        """Count the steps of the next statement."""
        self._steps = 0

    def end(self) -> None:
        """Count no longer."""
        self._connection.set_progress_handler(None, 0)

    def _check(self) -> bool:
        self._steps += _STEPS_BETWEEN_CHECKS
        return self.is_exceeded


def _too_much_work(path: object, where: str) -> SourceTooLarge:
    return SourceTooLarge(
        f"{path} holds a statement or rows that take much more work than its size explains ({where}). {_EXPORT_HINT}"
    )


class StatementTooLong(Exception):
    """A statement to execute is longer than the limit."""


@dataclass(slots=True)
class _Statement:
    """A statement while it is read."""

    line: int = 0
    # Its first and its last characters, and all of them as long as it may be one to execute.
    head: str = ""
    tail: str = ""
    parts: list[str] = field(default_factory=list)
    length: int = 0
    is_kept: bool = True

    def add(self, text: str, line: int, max_characters: int) -> None:
        """Add text without comments."""
        if not self.head:
            start = len(text) - len(text.lstrip())
            self.line = line + text.count("\n", 0, start)
            text = text[start:]
        if not text:
            return
        if len(self.head) < _HEAD_CHARACTERS:
            self.head = (self.head + text)[:_HEAD_CHARACTERS]
        self.tail = (self.tail + text)[-_TAIL_CHARACTERS:]
        if len(self.head) >= _HEAD_CHARACTERS and self.is_kept and not _IMPORTED.match(self.head):
            self.is_kept = False
            self.parts.clear()
        if self.is_kept:
            self.length += len(text)
            if self.length > max_characters:
                raise StatementTooLong
            self.parts.append(text)

    @property
    def is_complete(self) -> bool:
        """Whether a semicolon ends it: in a trigger, that after END."""
        return not _TRIGGER.match(self.head) or _END_OF_TRIGGER.search(self.tail) is not None


def statements(file: TextIO, max_characters: int) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each statement to execute, in one pass. Raises StatementTooLong.

    Comments outside of texts are left out, so that a statement begins with its first word. Only statements that an
    import executes are kept in memory: CREATE TABLE, and INSERT INTO another table than SQLite's own.
    """
    statement, inside, line = _Statement(), "", 1
    for piece in _pieces(file):
        position = 0
        while position < len(piece):
            if inside:
                end = piece.find(_ENDS[inside], position)
                stop = len(piece) if end < 0 else end + len(_ENDS[inside])
                # A comment is white space.
                statement.add(" " if inside in _COMMENTS else piece[position:stop], line, max_characters)
                inside = inside if end < 0 else ""
            else:
                special = _SPECIAL.search(piece, position)
                stop = len(piece) if special is None else special.start()
                statement.add(piece[position:stop], line, max_characters)
                if special is not None:
                    inside, stop = special.group(), special.end()
                    if inside not in _COMMENTS and inside != ";":
                        statement.add(inside, line, max_characters)
            if inside == ";":
                inside = ""
                if statement.is_complete:
                    if statement.is_kept and _IMPORTED.match(statement.head):
                        yield statement.line, "".join(statement.parts)
                    statement = _Statement()
                else:
                    statement.add(";", line, max_characters)
            line += piece.count("\n", position, stop)
            position = stop


def _pieces(file: TextIO) -> Iterator[str]:
    """Yield pieces that do not end within something of two characters."""
    rest = ""
    while text := file.read(_PIECE_CHARACTERS):
        text, rest = rest + text, ""
        if text.endswith(_HALVES):
            text, rest = text[:-1], text[-1]
        yield text
    if rest:
        yield rest
