"""Sources with one realm and no accounts, and JSON documents that are read as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.assistant_store import unmapped_fields
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm
from skein_importers.sources.reading_limits import read_file
from skein_importers.sources.rows import Row, make_storable
from skein_kit.json_values import exact

# Characters of an id in a report.
_LABEL = 80


class SingleRealmSource:
    """A source that is one realm."""

    def __init__(self, name: str, read: Callable[[Notes], Iterator[Record | UnreadableRecord]]) -> None:
        """Read the records that `read` yields; each call starts again."""
        self.name = name
        self._read = read

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return [Realm(key=self.name, name=self.name, slug=self.name)]

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: it has no accounts."""
        return iter(())

    def records(self, _realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read its records."""
        return self._read(notes)


def read_document(source: str, system: str, members: Collection[str]) -> dict[str, Any]:
    """Read a JSON object that has at least one of the lists `members`. Raises SourceInvalid."""
    return parse_document(read_file(source), source, system, members)


def parse_document(text: bytes, source: str, system: str, members: Collection[str]) -> dict[str, Any]:
    """Parse a JSON object that has at least one of the lists `members`. Raises SourceInvalid."""
    try:
        document = exact.loads_mixed(text)
    except (ValueError, ArithmeticError, RecursionError):
        raise SourceInvalid(
            f"{source} is no JSON: make the export again, and check that the file is complete."
        ) from None
    if not isinstance(document, dict) or not any(isinstance(document.get(name), list) for name in members):
        raise SourceInvalid(f"{source} is no {system}: an object with a list {' or '.join(members)}.")
    return document


def rows_of(values: Any, table: str, key: str, notes: Notes, metadata_path: str = "metadata") -> Iterator[Row]:
    """Yield the objects of a list as rows, named by `key`; an element that is no object is counted as ignored."""
    for number, element in enumerate(values if isinstance(values, list) else (), 1):
        if isinstance(element, dict):
            yield row_of(element, table, key, number, notes, metadata_path)
        else:
            notes.read(table)
            notes.count_ignored(table, "no JSON object")


def row_of(
    values: Mapping[str, Any], table: str, key: str, number: int, notes: Notes, metadata_path: str = "metadata"
) -> Row:
    """Return an object as a row, named by its `key`, or by its number in the list."""
    label = values.get(key)
    name = make_storable(str(label))[:_LABEL] if isinstance(label, str | int) and str(label) else f"#{number}"
    return Row(table, name, values, notes, metadata_path)


def ids_of(row: Row, column: str) -> list[str]:
    """Return the ids of a list, or the one id of a column, without duplicates; other values are left out and noted."""
    value = row.value(column)
    values = value if isinstance(value, list) else [] if value is None else [value]
    ids: dict[str, None] = {}
    for element in values:
        if isinstance(element, str) and element:
            ids[str(make_storable(element))] = None
        else:
            row.count_converted(column, "no id: left out")
    return list(ids)


def kept_fields(row: Row, mapped: Collection[str]) -> dict[str, Any]:
    """Return the fields of a row that have no place here and hold something, and note each."""
    fields = unmapped_fields(row, tuple(mapped))
    extra = {name: value for name, value in fields.items() if value is not False and value not in ("", [], {})}
    for name in extra:
        row.count_converted(name, f"no such field here: kept as {row.metadata_path}")
    return extra
