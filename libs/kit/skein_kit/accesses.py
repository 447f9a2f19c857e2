"""What an access to a tenant's memory is, for the record: read from a request and its answer. Pure; never content.

Of a request the record keeps ids, numbers, switches and the lengths of texts; of a search a keyed hash of its words,
unless the tenant wants the words.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from google.protobuf.field_mask_pb2 import FieldMask
    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp

    from skein_kit.call import Call

# A call that touches more has one row for these and the number of all.
MAX_MEMORIES = 100
_MAX_DEPTH = 3
_MAX_TEXT = 255
_READS = (
    "Get",
    "List",
    "BatchGet",
    "Export",
    "Diff",
    "Explain",
    "Compile",
    "Find",
    "Traverse",
    "Suggest",
    "Activate",
    "Stream",
    "Watch",
)
_SEARCHES = ("Search", "Recall")
_CREATES = ("Create", "BatchCreate", "Append", "Put", "Import", "Upsert")
_DELETES = ("Delete", "Purge", "Forget", "Remove", "Detach")
_QUERY_FIELDS = frozenset({"query"})
_CONTEXT = ("session_id", "agent_id", "subject_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """One call, as it is recorded."""

    tenant_id: UUID
    # The method's name: "GetMemory".
    method: str
    operation: str
    principal: str
    memory_ids: tuple[UUID, ...]
    session_id: str | None
    agent_id: str | None
    subject_id: str | None
    item_count: int
    # JSON text.
    request_data: str | None
    # None: it is still at work.
    success: bool | None
    error_reason: str | None
    client_address: str | None
    request_id: str
    create_time: datetime

    @property
    def places(self) -> tuple[UUID | None, ...]:
        """Return the memories that its rows name: one row each, or one of none for a call that touched none."""
        return self.memory_ids or (None,)

    @property
    def row_count(self) -> int:
        """Return how many rows it takes."""
        return len(self.places)

    def of(self, memory_ids: tuple[UUID, ...]) -> Access:
        """Return the same access of these memories only."""
        return replace(self, memory_ids=memory_ids)

    def rows(self, access_ids: Sequence[UUID]) -> list[dict[str, object]]:
        """Return the rows to store, under these ids, of which there must be one for each."""
        shared = {name: getattr(self, name) for name in _SHARED}
        return [
            {**shared, "access_id": access_id, "memory_id": memory_id}
            for access_id, memory_id in zip(access_ids, self.places, strict=True)
        ]


def operation_of(method: str) -> str:
    """Return what a method does: create, read, update, delete or search."""
    for operation, prefixes in (
        ("read", _READS), ("search", _SEARCHES), ("create", _CREATES), ("delete", _DELETES),
    ):  # fmt: skip
        if method.startswith(prefixes):
            return operation
    return "update"


def access_of(
    call: Call,
    tenant_id: UUID,
    request: Message,
    response: Message | None,
    *,
    at: datetime,
    error_reason: str | None = None,
    with_query: bool = False,
) -> Access:
    """Read what is recorded of a call. Neither a response nor a reason: it is still at work."""
    caller = call.caller
    touched = list(dict.fromkeys([*_named(request), *(_answered(response) if response is not None else ())]))
    context = {name: _context(request, name) for name in _CONTEXT}
    agent_id = context["agent_id"] or (caller.agent_id if caller is not None else None)
    return Access(
        tenant_id=tenant_id,
        method=call.path.rsplit("/", 1)[-1],
        operation=operation_of(call.path.rsplit("/", 1)[-1]),
        principal=caller.principal if caller is not None else "",
        memory_ids=tuple(touched[:MAX_MEMORIES]),
        session_id=context["session_id"],
        agent_id=agent_id or None,
        subject_id=context["subject_id"],
        item_count=len(touched),
        # What the database cannot store would cost every record that is written with it.
        request_data=json.dumps(_described(request, tenant_id, with_query=with_query), separators=(",", ":")).replace(
            "\\u0000", "\\ufffd"
        ),
        success=None if response is None and error_reason is None else error_reason is None,
        error_reason=error_reason,
        client_address=call.client_address or None,
        request_id=call.request_id,
        create_time=at,
    )


def used(response: Message) -> Iterator[UUID]:
    """Yield the memories that an answer hands out to be used: those read by id, and those recalled."""
    kind = response.DESCRIPTOR.name
    if kind in {"GetMemoryResponse", "BatchGetMemoriesResponse", "RecallResponse"}:
        yield from _answered(response)


def _named(request: Message) -> Iterator[UUID]:
    """Yield the memories that a request names by their own ids; external ids are found in the answer."""
    names: list[str] = []
    for field, value in request.ListFields():
        if field.name.endswith("memory_id"):
            names.append(value)
        elif field.name.endswith("memory_ids"):
            names += value
        elif field.name in {"memory", "link"}:
            names += [text for inner, text in value.ListFields() if inner.name.endswith("memory_id")]
    yield from _ids(names)


def _answered(response: Message) -> Iterator[UUID]:
    """Yield the memories that an answer holds."""
    found: list[str] = []
    for field, value in response.ListFields():
        if field.name == "memory":
            found.append(value.memory_id)
        elif field.name == "memories" and field.message_type is not None:
            found += [memory.memory_id for memory in value if "memory_id" in memory.DESCRIPTOR.fields_by_name]
        elif field.name == "hits":
            found += [hit.memory.memory_id for hit in value if "memory" in hit.DESCRIPTOR.fields_by_name]
    yield from _ids(found)


def _ids(names: Iterable[str]) -> Iterator[UUID]:
    for name in names:
        if name and (id_ := parse_id(name)) is not None:
            yield id_


def _context(request: Message, name: str) -> str | None:
    """Find what a call is about, in the request or in the one thing that it carries."""
    fields = request.ListFields()
    for holder in (request, *(value for field, value in fields if field.message_type and field.name in _HOLDERS)):
        if name in holder.DESCRIPTOR.fields_by_name:
            value = getattr(holder, name)
            if isinstance(value, str) and value:
                return value[:_MAX_TEXT].replace("\0", "\ufffd")
    return None


def _described(message: Message, tenant_id: UUID, *, with_query: bool, depth: int = 0) -> dict[str, object]:
    described: dict[str, object] = {}
    for field, value in message.ListFields():
        # Of a secret not even how long it is.
        if field.name == "request_id" or field.GetOptions().debug_redact:
            continue
        if field.is_repeated:
            described[field.name] = {"count": len(value)}
        elif field.name in _QUERY_FIELDS and isinstance(value, str):
            described[field.name] = value if with_query else {"hash": _hash(value, tenant_id), "length": len(value)}
        else:
            described[field.name] = _value(field, value, tenant_id, with_query=with_query, depth=depth)
    return described


def _value(field: FieldDescriptor, value: Any, tenant_id: UUID, *, with_query: bool, depth: int) -> object:
    if field.message_type is not None:
        if field.message_type.file.package == "google.protobuf":
            return _said(value) if field.message_type.name in {"Timestamp", "FieldMask"} else {}
        return {} if depth == _MAX_DEPTH else _described(value, tenant_id, with_query=with_query, depth=depth + 1)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name if value in field.enum_type.values_by_number else value
    if isinstance(value, str):
        return value if field.name in _PLAIN and len(value) <= _MAX_TEXT else {"length": len(value)}
    return {"length": len(value)} if isinstance(value, bytes) else value


def _said(value: Timestamp | FieldMask) -> object:
    """Return a time or a mask as text; the request itself is refused for one that cannot be written."""
    try:
        return value.ToJsonString()
    except ValueError:
        return {}


def _hash(text: str, tenant_id: UUID) -> str:
    """Return a hash by which a tenant's equal searches are seen to be equal, and no two tenants' are."""
    return hashlib.blake2b(text.encode(), digest_size=16, key=tenant_id.bytes).hexdigest()


_HOLDERS = frozenset({"memory", "session", "filter", "block", "state"})
# Texts that are ids or names of the service's own, and no words of anybody's.
_PLAIN = frozenset(
    {"memory_id", "link_id", "block_id", "session_id", "agent_id", "message_id", "snapshot_id", "type", "relation"}
)
_SHARED = (
    "operation", "method", "principal", "session_id", "agent_id", "subject_id", "item_count", "request_data", "success",
    "error_reason", "client_address", "request_id", "create_time",
)  # fmt: skip
