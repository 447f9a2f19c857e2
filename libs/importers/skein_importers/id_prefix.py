"""Prefixes of ids of sessions, messages and memories, because two sources may both have a "1"."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, Source

# Ids have at most 255 characters, most of them for the source's own.
PREFIX = re.compile(r"[!-~]{1,64}")
# Fields with such an id, of the record itself or of another record.
_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    Kind.SESSION: ("session_id",),
    Kind.MESSAGE: ("external_id", "session_id"),
    Kind.ITEM: ("session_id",),
    Kind.AGENT_STATE: ("session_id",),
    Kind.MEMORY: ("external_id", "session_id"),
    Kind.EMBEDDING: ("external_id",),
    Kind.LINK: ("from_memory_id", "to_memory_id"),
    Kind.ALIAS: ("alias_memory_id", "canonical_memory_id"),
    Kind.CONFLICT: ("a_memory_id", "b_memory_id", "canonical_memory_id"),
    Kind.PAGE: ("entity_memory_id",),
}


class PrefixedSource:
    """A source whose ids begin with a prefix."""

    def __init__(self, source: Source, prefix: str) -> None:
        """Read `source`."""
        self.name = source.name
        self._source = source
        self._prefix = prefix

    def tenants(self) -> list[Realm]:
        """Return its realms."""
        return self._source.tenants()

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read a realm."""
        return add_prefix(self._source.records(realm, notes), self._prefix)

    def accounts(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Read the accounts, OAuth clients and memberships."""
        return self._source.accounts(notes)


def add_prefix(records: Iterable[Record | UnreadableRecord], prefix: str) -> Iterator[Record | UnreadableRecord]:
    """Yield the records with `prefix` before every such id; people, agents, tools and blocks keep theirs."""
    for record in records:
        if not isinstance(record, Record) or record.kind not in _FIELDS:
            yield record
            continue
        item = type(record.item)()
        item.CopyFrom(record.item)
        for name in _FIELDS[record.kind]:
            if value := getattr(item, name):
                setattr(item, name, f"{prefix}{value}")
        yield dataclasses.replace(record, item=item)
