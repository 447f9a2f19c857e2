"""`langgraph-pg`: the table `store` of LangGraph's PostgresStore.

Items and namespaces get the form in which `SkeinStore` with its default root keeps them, so a graph reads them after
the import as before. Vectors are computed again, because `store_vectors` names no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from skein.memory.v1 import memory_pb2
from skein_client import exact_json
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource
from skein_importers.sources.postgres import Database, Table, open_database
from skein_importers.sources.rows import InvalidRow, Row, to_timestamp

NAME = "langgraph-pg"
_ROOT = "langgraph"
_TABLE, _VECTORS = "store", "store_vectors"
TABLES = {
    _TABLE: Table(
        needs=("prefix", "key", "value"),
        may_have=("created_at", "updated_at", "expires_at", "ttl_minutes"),
        order=("prefix", "key"),
        as_text=frozenset({"value"}),
    ),
    _VECTORS: Table(needs=("prefix", "key", "field_name"), order=("prefix", "key", "field_name"), optional=True),
}
_NAMESPACES = 'SELECT DISTINCT "prefix" FROM "store" ORDER BY "prefix"'
# As in SkeinStore.
_MAX_CHARACTERS = 255
_MAX_LABELS = 90
_MAX_DEPTH = 20
_MAX_CONTENT = 100_000
_EXACT = 2**53
_EMPTY = {"empty": True}


class Store:
    """An open store."""

    def __init__(self, database: Database) -> None:
        """Read `database`."""
        self._database = database

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read the namespaces, then the items; count the vectors."""
        namespaces = (Row(_TABLE, values["prefix"], values, notes) for values in self._database.query(_NAMESPACES))
        yield from convert_rows(namespaces, _namespace, count_rows=False)
        items = (
            Row(_TABLE, f"{values['prefix']} {values['key']}", values, notes) for values in self._database.rows(_TABLE)
        )
        yield from convert_rows(items, _item)
        if vectors := self._database.count(_VECTORS):
            notes.rows[_VECTORS] += vectors
            notes.ignored[_VECTORS, "computed again by the cluster: the table names no model"] += vectors


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Read the database at a URL, as it is now. Raises SourceInvalid."""
    with open_database(source, TABLES, "LangGraph's PostgresStore") as database:
        yield SingleRealmSource(NAME, Store(database).records)


def _namespace(row: Row) -> Iterator[Record]:
    labels = _labels(row)
    memory = memory_pb2.Memory(
        external_id=_shorten(f"{_ROOT}_namespace:", labels),
        type=_ROOT,
        tags=_tags(f"{_ROOT}_namespaces", labels),
        source=_ROOT,
    )
    exact_json.with_json(memory, data={"namespace": labels})
    yield Record(where=f"namespace {row.key}", kind=Kind.MEMORY, item=memory, table="namespaces")


def _item(row: Row) -> Iterator[Record]:
    labels, key = _labels(row), row.text("key")
    value = exact_json.loads(row.text("value"))
    if not isinstance(value, dict):
        raise InvalidRow("value is no JSON object")
    own: dict[str, Any] = {"namespace": labels, "key": key}
    if not value or not _is_kept(value):
        own["exact"] = exact_json.dumps(value)
    if minutes := row.number("ttl_minutes"):
        own["ttl_minutes"] = minutes
    text = "\n".join(_lines("", value))
    if len(text) > _MAX_CONTENT:
        row.count_converted("value", f"its searched text is cut to {_MAX_CONTENT} characters; the value is whole")
    memory = memory_pb2.Memory(
        external_id=_shorten(f"{_ROOT}:", labels, f"..{key}"),
        type=_ROOT,
        content=text[:_MAX_CONTENT],
        tags=[*_tags(_ROOT, labels), _shorten(f"{_ROOT}_in:", labels)],
        source=_ROOT,
    )
    exact_json.with_json(memory, data=_prune(value) or _EMPTY, metadata={_ROOT: own})
    if (create_time := row.time("created_at")) is not None:
        memory.create_time.CopyFrom(to_timestamp(create_time))
    if (expire_time := row.time("expires_at")) is not None:
        memory.expire_time.CopyFrom(to_timestamp(expire_time))
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _labels(row: Row) -> list[str]:
    labels = row.text("prefix").split(".")
    if len(labels) > _MAX_LABELS:
        raise InvalidRow(f"prefix has more than {_MAX_LABELS} labels")
    return labels


def _tags(start: str, labels: Sequence[str]) -> list[str]:
    return [start, *(_shorten(f"{start}:", labels[:depth]) for depth in range(1, len(labels) + 1))]


def _shorten(start: str, labels: Sequence[str], end: str = "") -> str:
    """Return an id or tag, with a digest in place of a path that is too long."""
    path = ".".join(labels) + end
    if len(start) + len(path) <= _MAX_CHARACTERS:
        return f"{start}{path}"
    return f"{start}..{hashlib.sha256(path.encode()).hexdigest()}"


def _is_kept(value: Any, depth: int = 0) -> bool:
    """Say whether data, which cannot tell 1 from 1.0 and has a limited depth, keeps a value as it is."""
    if isinstance(value, dict | list):
        values = value.values() if isinstance(value, dict) else value
        return depth < _MAX_DEPTH and all(_is_kept(element, depth + 1) for element in values)
    if isinstance(value, bool | str) or value is None:
        return True
    if isinstance(value, int):
        return abs(value) < _EXACT
    return isinstance(value, float) and not value.is_integer()


def _prune(value: Any, depth: int = 0) -> Any:
    if isinstance(value, dict | list) and depth >= _MAX_DEPTH:
        return exact_json.dumps(value)
    if isinstance(value, dict):
        return {name: _prune(element, depth + 1) for name, element in value.items()}
    if isinstance(value, list):
        return [_prune(element, depth + 1) for element in value]
    return value


def _lines(name: str, value: Any) -> Iterator[str]:
    """Yield a line for each leaf, with the names that lead to it."""
    if isinstance(value, dict):
        for key, element in value.items():
            yield from _lines(f"{name} {key}".strip(), element)
    elif isinstance(value, list):
        for element in value:
            yield from _lines(name, element)
    elif value is not None:
        yield f"{name}: {value}" if name else str(value)
