"""Stores of voice assistants' memory agents: entries of one form in an SQLite table or a JSON document."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.struct_pb2 import Struct

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.base import Notes, Realm
from skein_importers.sources.json_stream import entries
from skein_importers.sources.rows import InvalidRow, Row, format_iso, make_storable, set_times, struct
from skein_importers.sources.sqlite import Database, Table, is_sqlite, open_sqlite

_PROBE_BYTES = 4096
# Columns of an entry's text.
_TEXTS = ("text", "content", "message", "summary", "value", "description")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreFormat:
    """The form of a store's entries."""

    # Name of its tables or members in reports.
    table: str
    # The id field; in an object, the keys are the ids.
    key: str
    # Fields of which an entry has at least one.
    fields: Sequence[str]
    # Members of a document that hold entries.
    containers: Sequence[str]


class AssistantStore:
    """An open store, which is one realm."""

    def __init__(self, source: str, store_format: StoreFormat, database: Database | None, table: str) -> None:
        """Read entries of `store_format` from a database's table, or from the document at `source`."""
        self._source = source
        self._store_format = store_format
        self._database = database
        self._table = table

    def rows(self, notes: Notes, table: str = "") -> Iterator[Row]:
        """Read entries one by one; `table` is their name in reports."""
        for number, (name, value) in enumerate(self._entries(), 1):
            values = value if isinstance(value, dict) else {}
            if name and not values.keys() & {self._store_format.key, *self._store_format.fields}:
                notes.count_ignored(table or self._store_format.table, "a member of the document that is no entry")
                continue
            if name and values.get(self._store_format.key) is None:
                values = {**values, self._store_format.key: name}
            key = values.get(self._store_format.key)
            label = make_storable(str(key))[:80] if isinstance(key, str | int) and str(key) else f"#{number}"
            yield Row(table or self._store_format.table, label, values, notes)

    def _entries(self) -> Iterator[tuple[str, Any]]:
        if self._database is not None:
            return (("", row) for row in self._database.rows(self._table))
        return entries(
            self._source, self._store_format.containers, (self._store_format.key, *self._store_format.fields)
        )


@contextmanager
def open_store(source: str, name: str, store_format: StoreFormat) -> Iterator[AssistantStore]:
    """Open an SQLite file or a JSON document. Raises SourceInvalid for anything else."""
    path = Path(source)
    if not is_sqlite(path):
        with path.open("rb") as file:
            head = file.read(_PROBE_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n")
        if head[:1] not in {b"[", b"{"}:
            raise SourceInvalid(
                f"{source} is neither an SQLite database nor a JSON document. SOURCE is the store of {name}."
            )
        yield AssistantStore(source, store_format, None, "")
        return
    with open_sqlite(source, name, {}) as database:
        for table, columns in database.all_tables():
            if store_format.key in columns and columns.intersection(store_format.fields):
                database.describe(
                    table, Table(needs=(store_format.key,), may_have=sorted(columns - {store_format.key}))
                )
                yield AssistantStore(source, store_format, database, table)
                return
    raise SourceInvalid(
        f"{source} is no {name} store: it has no table with {store_format.key} and one of "
        f"{', '.join(store_format.fields)}."
    )


def convert_rows(
    rows: Iterable[Row],
    convert: Callable[[Row], Iterable[Record]],
    *,
    count_rows: bool = True,
    unread: Mapping[str, str] | None = None,
) -> Iterator[Record | UnreadableRecord]:
    """Convert rows one by one; invalid rows become UnreadableRecord. Rows are counted as read if `count_rows`.

    With `unread`, values that `convert` did not read are counted as left out, with the reasons that it has by column.
    """
    for row in rows:
        if count_rows:
            row.notes.read(row.table)
        try:
            records = list(convert(row))
        except InvalidRow as error:
            yield UnreadableRecord(where=row.where, reason=str(error), table=row.table)
        except (ValueError, ArithmeticError, RecursionError):
            yield UnreadableRecord(where=row.where, reason="cannot be stored: nested too deeply", table=row.table)
        else:
            for record in records:
                set_times(row, record.kind, record.item)
            if unread is not None:
                row.count_unread(unread)
            yield from records


def one_realm(name: str) -> list[Realm]:
    """Return the realm of a source that has only one."""
    return [Realm(key=name, name=name, slug=name)]


def text_of(row: Row, column: str, value: Any) -> str:
    """Return an entry's text, or the whole entry as text."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        text = next((value[name] for name in _TEXTS if isinstance(value.get(name), str) and value[name].strip()), None)
        if text is not None:
            return _clean(text)
    if value in (None, {}, []):
        return ""
    row.count_converted(column, "has no text: its fields became one")
    return json_to_text(value)


def json_to_text(value: Any) -> str:
    """Return JSON as readable text: "name: Ada; likes: tea, jazz"."""
    if isinstance(value, dict):
        return "; ".join(
            f"{name}: {json_to_text(element)}" for name, element in value.items() if element not in (None, "", [], {})
        )
    if isinstance(value, list):
        return ", ".join(json_to_text(element) for element in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _clean(value)


def tags_of(row: Row, column: str) -> list[str]:
    """Return tags of a list, of JSON, or of text with commas."""
    value = row.value(column)
    return row.tags(column, make_storable(value)) if isinstance(value, list) else row.tags(column)


def vector_of(value: Any) -> list[float] | None:
    """Return a vector from a list, JSON, or packed float32; None for anything else."""
    if isinstance(value, bytes) and value[:1] != b"[":
        value = array("f", value).tolist() if value and len(value) % 4 == 0 else None
    elif isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(number, int | float) for number in value):
        return None
    try:
        numbers = [float(number) for number in value]
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def metadata_of(column: str, values: Mapping[str, Any]) -> Struct | None:
    """Return JSON for a message; None for none. Raises InvalidRow for values that JSON cannot hold."""
    if not values:
        return None
    try:
        return struct(make_storable(dict(values)))
    except (ValueError, RecursionError):
        raise InvalidRow(f"{column} is nested too deeply") from None


def unmapped_fields(row: Row, mapped: Sequence[str]) -> dict[str, Any]:
    """Return the fields without a target, for the metadata."""
    extra: dict[str, Any] = {}
    for name, value in row.values.items():
        if name in mapped or name == "rowid" or value is None:
            continue
        converted = format_iso(value) if hasattr(value, "astimezone") else value
        if isinstance(converted, bytes):
            converted = row.text(name)
        extra[str(name)] = make_storable(converted)
    return extra


def _clean(value: object) -> str:
    return str(make_storable(str(value))).strip()
