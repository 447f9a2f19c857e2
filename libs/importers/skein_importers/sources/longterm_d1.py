"""`longterm-d1`: the table long_term_memory with a realm per tenant, and a dump of its vectors.

The dump has one JSON object a line: `{"id": ..., "values": [...]}`, as a vector index lists its entries. A row's vector
has the row's id.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_importers.errors import SourceInvalid, SourceTooLarge
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows, metadata_of, vector_of
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, slug_of
from skein_importers.sources.rows import Row, to_timestamp
from skein_importers.sources.sqlite import Database, Table, open_sqlite
from skein_kit.json_values import exact

NAME = "longterm-d1"
# Bytes of one vector with its metadata.
_MAX_LINE = 4 * 1024 * 1024
_TABLE = "long_term_memory"
_VECTORS = "vectors"
# The realm, and what the row's vector says.
_UNREAD: Mapping[str, str] = dict.fromkeys(
    ("rowid", "tenant_id", "embedding_provider", "embedding_model", "embedding_dimensions"), ""
)
# Without a dump of the vectors.
_COMPUTED_AGAIN = dict.fromkeys(
    ("embedding_provider", "embedding_dimensions"), "left out: of a vector that is computed again"
)
TABLES = {
    _TABLE: Table(
        needs=("id", "tenant_id", "content"),
        may_have=(
            "agent_id", "metadata", "embedding_provider", "embedding_model", "embedding_dimensions", "created_at",
        ),
        unread=_UNREAD,
    )
}  # fmt: skip
_IDS = ("id", "_id", "vector_id")
_VALUES = ("values", "vector", "embedding")


class LongTerm:
    """An open database, and the dump of its vectors."""

    name = NAME

    def __init__(self, database: Database, vectors: VectorDump | None) -> None:
        """Read the database's rows; without `vectors` the cluster computes them."""
        self._database = database
        self._vectors = vectors
        self._is_counted = False

    def tenants(self) -> list[Realm]:
        """Return a realm for each tenant_id."""
        rows = self._database.query(f'SELECT DISTINCT "tenant_id" FROM "{_TABLE}" ORDER BY "tenant_id"')  # noqa: S608 - our names.
        keys = [str(key) for (key,) in rows if _is_realm_key(key)]
        return [Realm(key=key, name=key, slug=slug_of(key, key)) for key in keys]

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: it has no accounts."""
        return iter(())

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read a tenant's memories, then their vectors."""
        self._note_strays(notes)
        unread = _UNREAD if self._vectors is not None else {**_UNREAD, **_COMPUTED_AGAIN}
        yield from convert_rows(self._rows(realm, notes, _TABLE), _memory, unread=unread)
        if self._vectors is None:
            for row in self._rows(realm, notes, _TABLE):
                if row.value("embedding_model"):
                    row.count_converted("embedding", "computed again: --vectors names no dump")
        if (vectors := self._vectors) is not None:
            yield from convert_rows(
                self._rows(realm, notes, _VECTORS), lambda row: _embedding(row, vectors), count_rows=False
            )
            for reason in vectors.ignored_reasons(self._database):
                notes.read(_VECTORS)
                notes.count_ignored(_VECTORS, reason)

    def _note_strays(self, notes: Notes) -> None:
        """Count the rows without a realm, once."""
        if self._is_counted:
            return
        self._is_counted = True
        statement = f'SELECT "tenant_id", count(*) FROM "{_TABLE}" GROUP BY "tenant_id"'  # noqa: S608 - our names.
        for key, count in self._database.query(statement):
            if not _is_realm_key(key):
                notes.rows[_TABLE] += count
                notes.ignored[_TABLE, "tenant_id is no text that names a tenant"] += count

    def _rows(self, realm: Realm, notes: Notes, table: str) -> Iterator[Row]:
        for values in self._database.rows(_TABLE, where='CAST("tenant_id" AS TEXT) = ?', parameters=(realm.key,)):
            yield Row(table, str(values["id"] or f"#{values['rowid']}")[:80], values, notes)


class VectorDump:
    """A dump of vectors by id. A temporary file holds the offset of each line."""

    def __init__(self, path: Path, folder: str) -> None:
        """Open the dump at `path`, with its index in `folder`."""
        self._file = path.open("rb")
        self._offsets = sqlite3.connect(str(Path(folder) / "offsets"), isolation_level=None, check_same_thread=False)
        self._offsets.execute("PRAGMA journal_mode = OFF")
        self._offsets.execute("CREATE TABLE offsets (id TEXT PRIMARY KEY, byte_offset INTEGER) WITHOUT ROWID")
        self._unreadable = self._repeated = 0
        self._is_reported = False

    def index(self) -> bool:
        """Index the offsets of all vectors; return whether the dump has vectors or is empty."""
        self._offsets.execute("BEGIN")
        offset = 0
        while line := self._file.readline(_MAX_LINE + 1):
            if len(line) > _MAX_LINE:
                raise SourceTooLarge(f"The dump of vectors has a line of more than {_MAX_LINE} bytes.")
            self._index_line(line, offset)
            offset += len(line)
        self._offsets.execute("COMMIT")
        return not offset or bool(self._offsets.execute("SELECT EXISTS (SELECT 1 FROM offsets)").fetchone()[0])

    def of(self, identity: object) -> Any:
        """Return a row's vector, the last one of several; None without one."""
        row = self._offsets.execute("SELECT byte_offset FROM offsets WHERE id = ?", (_text(identity),)).fetchone()
        if row is None:
            return None
        self._file.seek(row[0])
        entry = exact.loads_mixed(self._file.readline())
        return next(entry[name] for name in _VALUES if name in entry)

    def ignored_reasons(self, database: Database) -> Iterator[str]:
        """Return the reason for each unused line, on the first call only."""
        if self._is_reported:
            return
        self._is_reported = True
        yield from ["no JSON object with an id and values"] * self._unreadable
        yield from ["an earlier vector of the same id"] * self._repeated
        statement = f'SELECT EXISTS (SELECT 1 FROM "{_TABLE}" WHERE "id" = ?)'  # noqa: S608 - our names.
        for (identity,) in self._offsets.execute("SELECT id FROM offsets ORDER BY id"):
            if not database.query(statement, (identity,)).fetchone()[0]:
                yield f"no row of {_TABLE} has its id"

    def close(self) -> None:
        """Close its files."""
        self._file.close()
        self._offsets.close()

    def _index_line(self, line: bytes, offset: int) -> None:
        if not line.strip():
            return
        try:
            entry = exact.loads_mixed(line)
            identity = next(entry[name] for name in _IDS if name in entry)
            next(name for name in _VALUES if name in entry)
        except (ValueError, ArithmeticError, TypeError, KeyError, StopIteration, RecursionError):
            self._unreadable += 1
            return
        row = self._offsets.execute("SELECT 1 FROM offsets WHERE id = ?", (_text(identity),)).fetchone()
        self._repeated += row is not None
        self._offsets.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?)", (_text(identity), offset))


@contextmanager
def open_source(source: str, vectors: str = "") -> Iterator[LongTerm]:
    """Open a database, and its dump of vectors if any. Raises SourceInvalid."""
    with open_sqlite(source, "long-term memory", TABLES) as database:
        if not vectors:
            yield LongTerm(database, None)
            return
        with tempfile.TemporaryDirectory(prefix="skein-import-") as folder:
            try:
                dump = VectorDump(Path(vectors), folder)
            except OSError as error:
                raise SourceInvalid(
                    f"{vectors} cannot be read ({error.strerror}): check its name and who may read it."
                ) from None
            with closing(dump):
                if not dump.index():
                    message = (
                        f"{vectors} holds no vectors: each line should be a JSON object such as "
                        '{"id": "…", "values": [0.1]}.'
                    )
                    raise SourceInvalid(message)
                yield LongTerm(database, dump)


def _memory(row: Row) -> Iterator[Record]:
    extra: dict[str, Any] = {}
    metadata = {**row.mapping("metadata", extra), **extra}
    memory = memory_pb2.Memory(
        external_id=row.required_text("id"), content=row.required_text("content"), agent_id=row.text("agent_id", 255)
    )
    if (create_time := row.time("created_at")) is not None:
        memory.create_time.CopyFrom(to_timestamp(create_time))
    if (struct := metadata_of("metadata", metadata)) is not None:
        memory.metadata.CopyFrom(struct)
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _embedding(row: Row, vectors: VectorDump) -> Iterator[Record]:
    values = vectors.of(row.value("id"))
    if values is None:
        if row.value("embedding_model"):
            row.count_converted("embedding", "computed again: the dump has no vector for this row")
        return
    row.notes.read(_VECTORS)
    vector = vector_of(values)
    if vector is None:
        row.count_converted("values", "computed again: the value is no list of numbers")
    elif not row.value("embedding_model"):
        row.count_converted("embedding_model", "computed again: the row names no model")
    elif row.value("embedding_dimensions") not in {None, len(vector)}:
        row.count_converted("embedding_dimensions", "computed again: the vector's dimensions differ from the row's")
    else:
        request = recall_pb2.PutEmbeddingRequest(
            external_id=row.required_text("id"),
            model=row.text("embedding_model"),
            provider=row.text("embedding_provider", 64),
            embeddings=[recall_pb2.Embedding(values=vector)],
        )
        yield Record(where=row.where, kind=Kind.EMBEDDING, item=request, table=_VECTORS)


def _is_realm_key(key: object) -> bool:
    return isinstance(key, int | float) or (isinstance(key, str) and bool(key.strip()) and _text(key) == key)


def _text(identity: object) -> str:
    return str(identity).encode("utf-8", "replace").decode()
