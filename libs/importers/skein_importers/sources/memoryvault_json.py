"""`memoryvault-json`: an export that MemoryVault writes of one brain, memoryvault_export_v1."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, slug_of
from skein_importers.sources.memoryvault import TABLES, BrainRows, superseded_by
from skein_importers.sources.reading_limits import read_file
from skein_importers.sources.rows import parse_time
from skein_kit.json_values import exact

NAME = "memoryvault-json"
FORMAT = "memoryvault_export_v1"
# Keys of the export's format name.
_NAMES = ("format", "schema", "schema_version", "export_version", "version")
# Lists of an export and their tables.
_LISTS: Mapping[str, tuple[str, ...]] = {
    "memories": ("memories",),
    "memory_links": ("links", "memory_links"),
    "brain_source_trust": ("source_trust", "source_trusts", "brain_source_trust"),
    "memory_entity_aliases": ("aliases", "entity_aliases", "memory_entity_aliases"),
    "memory_conflict_resolutions": ("conflict_resolutions", "memory_conflict_resolutions"),
    "brain_policies": ("brain_policies",),
    "memory_watches": ("watches", "memory_watches"),
}
_POLICY = ("policy", "brain_policy")
_IGNORED = {
    "changelog": "what happened there; the history here begins with the import",
    "memory_changelog": "what happened there; the history here begins with the import",
    "snapshots": "copies in a form of its own; make a snapshot when the import is done",
    "brain_snapshots": "copies in a form of its own; make a snapshot when the import is done",
}


class Export:
    """An export that was read."""

    name = NAME

    def __init__(self, lists: Mapping[str, Any], brain: Mapping[str, Any]) -> None:
        """Read the lists and the brain of an export."""
        self._lists = lists
        self._brain = brain

    def tenants(self) -> list[Realm]:
        """Return its one brain."""
        key = str(self._brain.get("id") or "brain")
        name = str(self._brain.get("name") or "MemoryVault")
        return [Realm(key=key, name=name, slug=slug_of(name, key, str(self._brain.get("slug") or "")))]

    def accounts(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: an export has no accounts."""
        del notes
        return iter(())

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read its lists."""
        del realm
        memories = self._rows("memories")
        ids = {str(row["id"]) for row in memories if isinstance(row, dict) and row.get("id")}
        superseded = superseded_by(
            *(
                [row for row in self._rows(table) if isinstance(row, dict) and all(name in row for name in ends)]
                for table, ends in _ENDS.items()
                if table != "memory_entity_aliases"
            )
        )
        brain = BrainRows(notes, _keys(memories, superseded))
        for table in TABLES:
            for number, row in enumerate(self._rows(table), 1):
                if not isinstance(row, dict):
                    notes.read(table)
                    yield UnreadableRecord(where=f"{table} {number}", reason="is no JSON object", table=table)
                    continue
                known_columns = {f"{name}_known": str(row[name]) in ids for name in _ENDS.get(table, ()) if name in row}
                yield from brain.records(table, [{**row, **known_columns}])
        for name, reason in _IGNORED.items():
            if isinstance(entries := self._lists.get(name), list) and entries:
                notes.ignored[name, reason] += len(entries)

    def _rows(self, table: str) -> list[Any]:
        rows = [row for name in _LISTS[table] for row in self._lists.get(name) or []]
        if table == "brain_policies":
            rows += [{"policy_json": self._lists[name]} for name in _POLICY if isinstance(self._lists.get(name), dict)]
        return rows


_ENDS: Mapping[str, tuple[str, ...]] = {
    "memory_links": ("from_id", "to_id"),
    "memory_entity_aliases": ("alias_memory_id", "canonical_memory_id"),
    "memory_conflict_resolutions": ("a_id", "b_id"),
}


@contextmanager
def open_source(source: str) -> Iterator[Export]:
    """Read a file as a whole: the server wrote it in one piece, so it is small. Raises SourceInvalid."""
    try:
        document = exact.loads_mixed(read_file(source))
    except (ValueError, ArithmeticError, RecursionError):
        raise SourceInvalid(
            f"{source} is no JSON: make the export again, and check that the file is complete."
        ) from None
    message = f"{source} is no {FORMAT}: an object with the list `memories`, as MemoryVault's export gives it."
    if not isinstance(document, dict):
        raise SourceInvalid(message)
    format_name = next((document[name] for name in _NAMES if isinstance(document.get(name), str)), FORMAT)
    data = document.get("data")
    lists = data if isinstance(data, dict) else document
    row_lists = [lists[name] for names in _LISTS.values() for name in names if lists.get(name) is not None]
    if format_name != FORMAT or not row_lists or not all(isinstance(rows, list) for rows in row_lists):
        raise SourceInvalid(message)
    brain = document.get("brain")
    yield Export(lists, brain if isinstance(brain, dict) else {})


def _keys(memories: list[Any], superseded: Collection[str]) -> dict[str, str]:
    """Return the memory of each fact key in lower case: of those neither archived nor superseded, the one changed last.

    Where all of them are, it is the one changed last.
    """
    best: dict[str, tuple[bool, bool, float, str]] = {}
    for row in memories:
        if isinstance(row, dict) and row.get("type") == "fact" and row.get("key"):
            try:
                at = parse_time(row.get("updated_at") or row.get("created_at"))[0].timestamp()
            except ValueError:
                at = 0.0
            identity = str(row.get("id"))
            rank = (row.get("archived_at") is None, identity not in superseded, at, identity)
            key = str(row["key"]).strip().lower()
            best[key] = max(best.get(key, rank), rank)
    return {key: rank[-1] for key, rank in best.items()}
