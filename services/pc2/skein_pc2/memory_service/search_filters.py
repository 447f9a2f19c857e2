"""What a search of port 7140 keeps to: its own fields and its `filters`, as conditions of the RPCs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links, parents
from skein_pc2.protocol import fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.actions import Ask

# Fields of a search that keep it to a part of the tenant, each with its other names.
_NAMES = {
    "parent_id": "parent_id",
    "session_id": "session_id",
    "user_id": "user_id",
    "memory_type": "memory_type",
    "memory_types": "memory_type",
    "type": "memory_type",
    "memory_tier": "memory_tier",
    "tier": "memory_tier",
    "tags": "tags",
    "metadata": "metadata",
    "min_importance": "min_importance",
    "max_importance": "max_importance",
}
# Beside the query these alone count: other fields of a message are its sender's own.
_BESIDE = frozenset({"parent_id", "session_id", "user_id", "memory_type", "memory_tier", "tags"})
# A condition in words names so many ids at most.
_IDS_AT_ONCE = 80
_MOST_VALUES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchScope:
    """The part of a tenant that a search is kept to."""

    # A memory passes when it passes one of them; none: there is nothing to search.
    filters: tuple[pb.MemoryFilter, ...]
    # The session whose children are searched; "" for none. A child of a memory passes the filters, and is none of it.
    session_id: str
    # A parent or a session was named.
    is_narrow: bool
    # There are children that are not looked at.
    is_cut: bool

    def with_condition(self, condition: str) -> list[pb.MemoryFilter]:
        """Return the filters with one more condition, in the words of MemoryFilter.where."""
        changed = []
        for one in self.filters:
            copy = pb.MemoryFilter()
            copy.CopyFrom(one)
            copy.where = _all_of([one.where, condition] if one.where else [condition])
            changed.append(copy)
        return changed

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Say whether a written memory belongs to the parent that was named."""
        return not self.session_id or record["parent_id"] == self.session_id

    def has_type(self) -> bool:
        """Say whether the search is kept to types of memories."""
        return bool(self.filters and self.filters[0].types)


async def parse_scope(api: GatewayApi, ask: Ask) -> SearchScope:
    """Read what a search keeps to. Raises Rejected when the parent is not there or a filter cannot be read."""
    values = _values(ask.said)
    condition = pb.MemoryFilter()
    wheres = []
    for name, value in values.items():
        wheres += _read(name, value, condition)
    session_id, child_ids, is_cut = "", None, False
    if "parent_id" in values:
        parent_id = fields.required_text(values, "parent_id")
        parent = await parents.parent_of(api, ask, parent_id)
        if parent.session is None:
            memories, is_cut = await links.children(api, ask, parent_id)
            child_ids = [memory.memory_id for memory in memories]
        elif condition.session_id and condition.session_id != parent_id:
            child_ids = []
        else:
            session_id = condition.session_id = parent_id
    if child_ids is None:
        condition.where = _all_of(wheres)
        filters = [condition]
    else:
        filters = []
        for start in range(0, len(child_ids), _IDS_AT_ONCE):
            portion = pb.MemoryFilter()
            portion.CopyFrom(condition)
            ids = ", ".join(json.dumps(memory_id) for memory_id in child_ids[start : start + _IDS_AT_ONCE])
            portion.where = _all_of([*wheres, f"memory_id IN ({ids})"])
            filters.append(portion)
    is_narrow = bool({"parent_id", "session_id"} & values.keys())
    return SearchScope(filters=tuple(filters), session_id=session_id, is_narrow=is_narrow, is_cut=is_cut)


def equals(path: str, values: list[Any]) -> str:
    """Write that a field, or an element of it, is one of some values."""
    return f"{path} IN ({', '.join(json.dumps(value) for value in values)})"


def _values(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that restricts a search, by name; what `filters` does not know is about the metadata."""
    values = {name: said[name] for name in sorted(_BESIDE) if said.get(name) is not None}
    metadata: dict[str, Any] = {}
    for name, value in fields.mapping(said.get("filters"), "filters").items():
        if value is None:
            continue
        known = _NAMES.get(name)
        if known is None:
            metadata[name] = value
        elif known == "metadata":
            metadata |= fields.mapping(value, "filters.metadata")
        elif values.setdefault(known, value) != value:
            raise fields.invalid(f"filters.{name}", f"is another {known} than the message names elsewhere")
    return {**values, **({"metadata": metadata} if metadata else {})}


def _read(name: str, value: Any, into: pb.MemoryFilter) -> list[str]:
    """Read one restriction; return the conditions in words that it makes."""
    match name:
        case "session_id":
            into.session_id = fields.required_text({name: value}, name)
        case "user_id":
            # The metadata's user_id is the subject as well.
            into.subject_id = fields.required_text({name: value}, name)
        case "memory_type":
            items = value if isinstance(value, list) else [value]
            into.types.extend(records.memory_type(item) for item in items)
        case "memory_tier":
            return [equals("level", records.level_names(value))]
        case "tags":
            into.tags_any.extend(fields.texts(value, "tags"))
        case "min_importance":
            into.min_importance = records.number(value, name, default=0, least=0, most=1)
        case "max_importance":
            into.max_importance = records.number(value, name, default=1, least=0, most=1)
        case "metadata":
            return [_about(key, item) for key, item in value.items()]
    return []


def _about(key: str, value: Any) -> str:
    """Write a condition on a name of the metadata."""
    if not key:
        raise fields.invalid("filters", "names a field of the metadata by an empty text")
    fields.require_text(key, "filters")
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > _MOST_VALUES or not all(isinstance(one, str | int | float) for one in values):
        raise fields.invalid(
            f"filters.{key[:100]}", f"is a text, a number, true or false, or up to {_MOST_VALUES} of them"
        )
    for one in values:
        if isinstance(one, str):
            fields.require_text(one, f"filters.{key[:100]}")
    return equals(f"metadata.{json.dumps(key)}", values)


def _all_of(conditions: list[str]) -> str:
    return " AND ".join(f"({condition})" for condition in conditions)
