"""The scope of a search on port 7140: its fields and `filters` as filters of the RPCs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skein.memory.v1 import memory_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links, parents
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionRequest

# Fields that restrict a search, by all their names.
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
# Restrictions beside `filters`; other fields of a message are ignored.
_TOP_LEVEL_NAMES = frozenset({"parent_id", "session_id", "user_id", "memory_type", "memory_tier", "tags"})
# Most ids of one `where` condition.
_MAX_CONDITION_IDS = 80
_MAX_VALUES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchScope:
    """The part of a tenant that is searched."""

    # A memory must match one of them; without any, the search is empty.
    filters: tuple[pb.MemoryFilter, ...]
    # The session whose children are searched; "" for none. Children of memories match the filters but are excluded.
    session_id: str
    # The search names a parent or a session.
    is_narrow: bool
    # Some children are not searched.
    is_truncated: bool

    def with_condition(self, condition: str) -> list[pb.MemoryFilter]:
        """Return the filters with one more `where` condition."""
        result = []
        for item in self.filters:
            copy = pb.MemoryFilter()
            copy.CopyFrom(item)
            copy.where = _join_conditions([item.where, condition] if item.where else [condition])
            result.append(copy)
        return result

    def contains(self, record: Mapping[str, Any]) -> bool:
        """Say whether a record belongs to the named parent."""
        return not self.session_id or record["parent_id"] == self.session_id

    def has_type(self) -> bool:
        """Say whether the search names memory types."""
        return bool(self.filters and self.filters[0].types)


async def parse_scope(api: GatewayApi, request: ActionRequest) -> SearchScope:
    """Read a search's scope. Raises RequestError for a missing parent or an invalid filter."""
    values = _parse_restrictions(request.fields)
    condition = pb.MemoryFilter()
    conditions = []
    for name, value in values.items():
        conditions += _parse_restriction(name, value, condition)
    session_id, child_ids, is_truncated = "", None, False
    if "parent_id" in values:
        parent_id = fields.required_text(values, "parent_id")
        parent = await parents.parent_of(api, request, parent_id)
        if parent.session is None:
            memories, is_truncated = await links.list_children(api, request, parent_id)
            child_ids = [memory.memory_id for memory in memories]
        elif condition.session_id and condition.session_id != parent_id:
            child_ids = []
        else:
            session_id = condition.session_id = parent_id
    if child_ids is None:
        condition.where = _join_conditions(conditions)
        filters = [condition]
    else:
        filters = []
        for start in range(0, len(child_ids), _MAX_CONDITION_IDS):
            batch_filter = pb.MemoryFilter()
            batch_filter.CopyFrom(condition)
            ids = ", ".join(json.dumps(memory_id) for memory_id in child_ids[start : start + _MAX_CONDITION_IDS])
            batch_filter.where = _join_conditions([*conditions, f"memory_id IN ({ids})"])
            filters.append(batch_filter)
    is_narrow = bool({"parent_id", "session_id"} & values.keys())
    return SearchScope(filters=tuple(filters), session_id=session_id, is_narrow=is_narrow, is_truncated=is_truncated)


def one_of(path: str, values: list[Any]) -> str:
    """Return a condition: the field, or an element of it, is one of the values."""
    return f"{path} IN ({', '.join(json.dumps(value) for value in values)})"


def _parse_restrictions(message_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search's restrictions by name; unknown names in `filters` restrict the metadata."""
    values = {name: message_fields[name] for name in sorted(_TOP_LEVEL_NAMES) if message_fields.get(name) is not None}
    metadata: dict[str, Any] = {}
    for name, value in fields.mapping(message_fields.get("filters"), "filters").items():
        if value is None:
            continue
        field_name = _NAMES.get(name)
        if field_name is None:
            metadata[name] = value
        elif field_name == "metadata":
            metadata |= fields.mapping(value, "filters.metadata")
        elif values.setdefault(field_name, value) != value:
            raise fields.invalid(f"filters.{name}", f"is another {field_name} than the message names elsewhere")
    return {**values, **({"metadata": metadata} if metadata else {})}


def _parse_restriction(name: str, value: Any, condition: pb.MemoryFilter) -> list[str]:
    """Read one restriction; return its `where` conditions."""
    match name:
        case "session_id":
            condition.session_id = fields.required_text({name: value}, name)
        case "user_id":
            # The metadata's user_id also sets the subject.
            condition.subject_id = fields.required_text({name: value}, name)
        case "memory_type":
            items = value if isinstance(value, list) else [value]
            condition.types.extend(records.parse_memory_type(item) for item in items)
        case "memory_tier":
            return [one_of("level", records.level_names(value))]
        case "tags":
            condition.tags_any.extend(fields.texts(value, "tags"))
        case "min_importance":
            condition.min_importance = records.parse_number(value, name, default=0, minimum=0, maximum=1)
        case "max_importance":
            condition.max_importance = records.parse_number(value, name, default=1, minimum=0, maximum=1)
        case "metadata":
            return [_metadata_condition(key, item) for key, item in value.items()]
    return []


def _metadata_condition(key: str, value: Any) -> str:
    """Return a condition on one key of the metadata."""
    if not key:
        raise fields.invalid("filters", "names a field of the metadata by an empty text")
    fields.require_text(key, "filters")
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > _MAX_VALUES or not all(isinstance(item, str | int | float) for item in values):
        raise fields.invalid(
            f"filters.{key[:100]}", f"is a text, a number, true or false, or up to {_MAX_VALUES} of them"
        )
    for item in values:
        if isinstance(item, str):
            fields.require_text(item, f"filters.{key[:100]}")
    return one_of(f"metadata.{json.dumps(key)}", values)


def _join_conditions(conditions: list[str]) -> str:
    return " AND ".join(f"({condition})" for condition in conditions)
