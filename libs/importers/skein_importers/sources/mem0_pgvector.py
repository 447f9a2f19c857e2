"""`mem0-pgvector`: mem0's collections in Postgres; each table of memories is a realm, with its table of entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, slug_of
from skein_importers.sources.documents import ids_of
from skein_importers.sources.mem0 import memory_records, mention, payload_entry
from skein_importers.sources.postgres import Database, Table, open_database
from skein_importers.sources.rows import Row

NAME = "mem0-pgvector"
_COLUMNS = frozenset({"id", "vector", "payload"})
_ENTITIES = "_entities"
# The collection in which mem0 keeps the id of its own usage statistics.
_OWN_COLLECTION = "mem0migrations"
_TABLE = Table(needs=("id", "payload"), order=("id",), as_text=frozenset({"id", "payload"}))


class Mem0Database:
    """A database with mem0's collections."""

    name = NAME

    def __init__(self, database: Database, collections: Sequence[str]) -> None:
        """Read the tables `collections`."""
        self._database = database
        self._collections = collections

    def tenants(self) -> list[Realm]:
        """Return a realm for each table of memories."""
        return [Realm(key=table, name=table, slug=slug_of(table, table)) for table in self._collections]

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: mem0 has no accounts."""
        return iter(())

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read a table's memories, then its entities with the links to them."""
        entities = f"{realm.key}{_ENTITIES}"
        yield from convert_rows(self._rows(realm.key, notes), memory_records)
        yield from convert_rows(self._rows(entities, notes), memory_records)
        for row in self._rows(entities, notes):
            names = ids_of(row, "linked_memory_ids")
            statement = f'SELECT "id"::text AS id FROM "{realm.key}" WHERE "id"::text = ANY ($1)'  # noqa: S608 - a table that exists.
            existing = {found["id"] for found in self._database.query(statement, names)}
            for name in names:
                if name in existing:
                    yield mention(row, name, row.text("id"))
                else:
                    row.count_converted("linked_memory_ids", "no such memory there: the link is left out")

    def _rows(self, table: str, notes: Notes) -> Iterator[Row]:
        for values in self._database.rows(table):
            identity = str(values["id"])
            extra: dict[str, Any] = {}
            payload = Row(table, identity, values, notes, "metadata.mem0").mapping("payload", extra)
            yield Row(table, identity, payload_entry(identity, {**payload, **extra}), notes, "metadata.mem0")


@contextmanager
def open_source(source: str) -> Iterator[Mem0Database]:
    """Read the database at a URL, as it is now. Raises SourceInvalid."""
    with open_database(source, {}, "mem0") as database:
        tables = {name: columns for name, columns in database.all_tables() if columns >= _COLUMNS and '"' not in name}
        if not tables:
            message = "This is no database of mem0: no table has the columns id, vector and payload (search path)."
            raise SourceInvalid(message)
        for name, columns in tables.items():
            database.describe(name, _TABLE, columns)
        collections = [
            name
            for name in tables
            if name != _OWN_COLLECTION and not (name.endswith(_ENTITIES) and name.removesuffix(_ENTITIES) in tables)
        ]
        yield Mem0Database(database, collections)
