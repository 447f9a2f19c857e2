"""Items of LangGraph ↔ memories: the value is data, its texts are the searched content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from google.protobuf.struct_pb2 import Struct, Value
from langgraph.store.base import Item, SearchItem, get_text_at_path

from skein.memory.v1 import memory_pb2
from skein_client import exact_json
from skein_langgraph.namespaces import Namespace, StoreRoot

# Deepest level of data; deeper values are kept as JSON text.
_MAX_DEPTH = 20
# Default limit of a memory's content, in characters.
_MAX_CONTENT = 100_000
# Doubles cannot hold larger whole numbers exactly.
_EXACT = 2**53
# Paths of an item's update.
FIELDS = ("content", "data", "metadata", "expire_time", "archive_time")
WHOLE = "$"
# A read refreshes the time to live after this share of it, so that not every read is a write.
_WORN = 0.1
_MAX_MINUTES = 52_560_000
_EMPTY = {"empty": True}


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemDraft:
    """A new item."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any]
    index: Literal[False] | Sequence[str]
    # In minutes; None for no expiry.
    ttl: float | None = None
    # The person whom the item is about; empty for none.
    subject_id: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid time to live."""
        if self.ttl is not None and not 0 < self.ttl <= _MAX_MINUTES:
            raise ValueError(
                f"an item lives for more than 0 and up to {_MAX_MINUTES} minutes (a century), not {self.ttl}"
            )

    def memory(self, root: StoreRoot, kind: str, now: datetime) -> memory_pb2.Memory:
        """Return the item's memory. Raises TypeError or ValueError for a value that is not JSON."""
        plain: dict[str, Any] = exact_json.loads(exact_json.dumps(dict(self.value)))
        own: dict[str, Any] = {"namespace": list(self.namespace), "key": self.key}
        data = _prune(plain) or _EMPTY
        if _text(_plain(_struct(data))) != _text(plain):
            # Data cannot tell 1 from 1.0, and has a limited depth.
            own["exact"] = exact_json.dumps(plain)
        if self.ttl is not None:
            own["ttl_minutes"] = self.ttl
        made = memory_pb2.Memory(
            external_id=root.item_id(self.namespace, self.key),
            type=kind,
            content=search_text(plain, self.index),
            tags=root.item_tags(self.namespace),
            source="langgraph",
            subject_id=self.subject_id,
        )
        exact_json.with_json(made, data=data, metadata={root.name: own})
        if self.ttl is not None:
            made.expire_time.FromDatetime(now + timedelta(minutes=self.ttl))
        return made


def namespace_memory(root: StoreRoot, kind: str, namespace: Namespace) -> memory_pb2.Memory:
    """Return the memory that registers a namespace; nothing in it is searched."""
    made = memory_pb2.Memory(
        external_id=root.namespace_id(namespace), type=kind, tags=root.registry_tags(namespace), source="langgraph"
    )
    return exact_json.with_json(made, data={"namespace": list(namespace)})


def namespace_of(memory: memory_pb2.Memory, root: StoreRoot) -> Namespace | None:
    """Return the namespace that a memory registers; None for a memory of another client with the same tag."""
    found = _labels((exact_json.get_json(memory, "data") or {}).get("namespace"))
    return found if found is not None and memory.external_id == root.namespace_id(found) else None


def is_item(memory: memory_pb2.Memory, root: StoreRoot) -> bool:
    """Say whether a memory is an item, not another client's memory with the same tags or id."""
    own = _store_fields(memory, root)
    namespace, key = _labels(own.get("namespace")), own.get("key")
    return namespace is not None and isinstance(key, str) and memory.external_id == root.item_id(namespace, key)


def to_item(memory: memory_pb2.Memory, root: StoreRoot) -> Item:
    """Return a memory's item."""
    return Item(**_facts(memory, root))


def search_item(memory: memory_pb2.Memory, root: StoreRoot, score: float | None = None) -> SearchItem:
    """Return a memory's item with its score."""
    return SearchItem(**_facts(memory, root), score=score)


def is_expired(memory: memory_pb2.Memory, now: datetime) -> bool:
    """Say whether an item has expired: Skein still returns it by id until its purge."""
    return memory.HasField("expire_time") and _moment(memory, "expire_time") <= now


def ttl_update(memory: memory_pb2.Memory, root: StoreRoot, now: datetime) -> memory_pb2.Memory | None:
    """Return the update that refreshes an item's time to live; None without one, or when little of it is over."""
    own = _store_fields(memory, root)
    minutes = own.get("ttl_minutes")
    if minutes is None:
        return None
    life = timedelta(minutes=float(minutes))
    if _moment(memory, "expire_time") - now > life * (1 - _WORN):
        return None
    # A read must not change update_time.
    own["updated_at"] = _updated_at(memory, own).isoformat()
    made = memory_pb2.Memory(memory_id=memory.memory_id, revision=memory.revision)
    exact_json.set_json(made, "metadata", {root.name: own})
    made.expire_time.FromDatetime(now + life)
    return made


def search_text(value: Mapping[str, Any], index: Literal[False] | Sequence[str]) -> str:
    """Return a value's searched text: the texts at some paths, or the whole value, one line per leaf."""
    if index is False:
        return ""
    lines: list[str] = []
    for path in index:
        lines.extend(_lines("", value) if path == WHOLE else get_text_at_path(value, path))
    return "\n".join(lines)[:_MAX_CONTENT]


def _facts(memory: memory_pb2.Memory, root: StoreRoot) -> dict[str, Any]:
    own = _store_fields(memory, root)
    # Sorted names keep prompts stable.
    value = exact_json.loads(own["exact"]) if "exact" in own else _ordered(exact_json.get_json(memory, "data") or {})
    return {
        "namespace": tuple(own["namespace"]),
        "key": own["key"],
        "value": value,
        "created_at": _moment(memory, "create_time"),
        "updated_at": _updated_at(memory, own),
    }


def _store_fields(memory: memory_pb2.Memory, root: StoreRoot) -> dict[str, Any]:
    found = (exact_json.get_json(memory, "metadata") or {}).get(root.name)
    return found if isinstance(found, dict) else {}


def _labels(said: Any) -> Namespace | None:
    return tuple(said) if isinstance(said, list) and all(isinstance(label, str) for label in said) else None


def _updated_at(memory: memory_pb2.Memory, own: Mapping[str, Any]) -> datetime:
    said = own.get("updated_at")
    return datetime.fromisoformat(said) if said else _moment(memory, "update_time")


def _moment(memory: memory_pb2.Memory, field: str) -> datetime:
    moment: datetime = getattr(memory, field).ToDatetime(tzinfo=UTC)
    return moment


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(below) for below in value] if isinstance(value, list) else value


def _struct(value: Mapping[str, Any]) -> Struct:
    made = Struct()
    made.update(_rounded(value))
    return made


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_rounded(below) for below in value]
    return float(value) if isinstance(value, Decimal) else value


def _plain(struct: Struct) -> dict[str, Any]:
    """Return a value as a Struct returns it: numbers without a fraction become whole."""
    return {name: _value(struct.fields[name]) for name in sorted(struct.fields)}


def _value(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _plain(value.struct_value)
    if kind == "list_value":
        return [_value(below) for below in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < _EXACT else number
    return None if kind in {None, "null_value"} else getattr(value, kind)


def _prune(value: Any, depth: int = 0) -> Any:
    if isinstance(value, dict | list) and depth >= _MAX_DEPTH:
        return exact_json.dumps(value)
    if isinstance(value, dict):
        return {name: _prune(below, depth + 1) for name, below in value.items()}
    if isinstance(value, list):
        return [_prune(below, depth + 1) for below in value]
    return value


def _text(value: Any) -> str:
    return exact_json.dumps(value, sort_keys=True)


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _lines(f"{name} {key}".strip(), below)
    elif isinstance(value, list):
        for below in value:
            yield from _lines(name, below)
    elif value is not None:
        yield f"{name}: {value}" if name else str(value)
