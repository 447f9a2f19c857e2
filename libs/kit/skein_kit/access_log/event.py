"""Access events: made from a request and its response, without content. Pure.

Of a request an event keeps UUIDs, numbers, booleans and the lengths of texts. Of a query it keeps a hash under the
tenant's key; the words only if the tenant's policy asks for them. Purges do not name the subject.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from skein_kit.calls.call import Call
from skein_kit.ids import parse_id

# Most memories of one event: a call with more has rows for these, and the number of all.
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
    "TraverseLinks",
    "Suggest",
    "SpreadActivation",
    "Stream",
)
_SEARCHES = ("Search", "Recall", "FindSimilar", "ReplayRecall")
_CREATES = ("Create", "BatchCreate", "Append", "Put", "Import", "Upsert")
_DELETES = ("Delete", "Purge", "Forget", "Remove", "Detach")
_QUERY_FIELDS = frozenset({"query"})
# Calls that purge a person or a session: their event must not keep the name.
_PURGES = frozenset({"PurgeSubject", "PurgeSession", "PurgeMemories", "DeleteMemories"})
_CONTEXT = frozenset({"session_id", "subject_id"})
# Fields of responses with the memories that a call deleted or purged.
_CHANGED_IDS = frozenset({"memory_ids", "archived_memory_ids"})
# Responses whose memories count as used: memories that are read by id, and recalled ones.
_USES = frozenset({"GetMemoryResponse", "BatchGetMemoriesResponse", "RecallResponse", "FindSimilarResponse"})


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessEvent:
    """One call in the access log."""

    tenant_id: UUID
    # The method's name: "GetMemory".
    method: str
    operation: str
    principal: str
    # Canonical UUIDs as texts: a call often has ten or more, and they are only written.
    memory_ids: tuple[str, ...]
    # The session and the subject that the request is about. The session of a memory or of a filter is not one.
    session_id: str | None
    subject_id: str | None
    # The agent that the caller's credential is bound to.
    agent_id: str | None
    # Claims of the caller's metadata, not verified.
    claimed_agent_id: str | None
    claimed_session_id: str | None
    item_count: int
    # JSON text.
    request_data: str | None
    # None: the call has not ended.
    success: bool | None
    error_code: str | None
    error_reason: str | None
    client_address: str | None
    request_id: str
    create_time: datetime
    # The calls that the event stands for.
    call_count: int = 1
    # A search that returned no hit at all.
    found_nothing: bool = False
    # The spaces that the call reached, and the grants by which, in the same order; the nil UUID for the default space.
    # None: the tenant has no spaces.
    space_ids: tuple[UUID, ...] | None = None
    space_grant_ids: tuple[UUID, ...] | None = None
    # The memories that the response returned for use, with repeats.
    used_memory_ids: tuple[str, ...] = ()

    @property
    def memory_ids_or_none(self) -> tuple[str | None, ...]:
        """Return the memory id of each row: a call without memories has one row with None."""
        return self.memory_ids or (None,)

    @property
    def row_count(self) -> int:
        """Return the number of rows of the event."""
        return len(self.memory_ids_or_none)

    def with_memory_ids(self, memory_ids: tuple[str, ...]) -> AccessEvent:
        """Return the event with these memories instead."""
        return replace(self, memory_ids=memory_ids)

    def with_details(self, details: Mapping[str, object]) -> AccessEvent:
        """Return the event with more of its request, as it is."""
        return replace(self, request_data=_JSON.encode(json.loads(self.request_data or "{}") | details))

    def rows(self, access_event_ids: Sequence[UUID]) -> list[dict[str, object]]:
        """Return the rows to insert; `access_event_ids` has one id for each row."""
        shared = {name: getattr(self, name) for name in _SHARED}
        return [
            {**shared, "access_event_id": access_event_id, "memory_id": memory_id}
            for access_event_id, memory_id in zip(access_event_ids, self.memory_ids_or_none, strict=True)
        ]


@functools.lru_cache(maxsize=1024)
def method_operation(method: str) -> str:
    """Return the operation of a method: create, read, update, delete or search."""
    for operation, prefixes in (
        ("search", _SEARCHES), ("read", _READS), ("create", _CREATES), ("delete", _DELETES),
    ):  # fmt: skip
        if method.startswith(prefixes):
            return operation
    return "update"


def access_event(
    call: Call,
    tenant_id: UUID,
    request: Message | None,
    response: Message | None,
    *,
    at: datetime,
    error: tuple[str, str] | None = None,
    with_query: bool = False,
    query_key: bytes = b"",
) -> AccessEvent:
    """Return the event of a call. Without a response and an `error`, a code and a reason, the call has not ended.

    Without a request the event names nothing. `at` is the time of its begin. `query_key` is the tenant's secret for the
    hash of a query; without it the event keeps only the length. `with_query` keeps the words.
    """
    caller = call.caller
    reader = _RequestReader(query_key=query_key, with_query=with_query)
    request_data = {} if request is None else reader.read_request(request)
    response_ids = () if response is None else tuple(_ids(_response_ids(response)))
    memory_ids = tuple(dict.fromkeys((*_ids(reader.names), *response_ids)))
    method = call.path.rpartition("/")[2]
    context = {} if method in _PURGES else reader.context
    return AccessEvent(
        tenant_id=tenant_id,
        method=method,
        operation=method_operation(method),
        principal=caller.principal if caller is not None else "",
        memory_ids=memory_ids[:MAX_MEMORIES],
        session_id=context.get("session_id"),
        subject_id=context.get("subject_id"),
        agent_id=(caller.agent_id if caller is not None else "") or None,
        claimed_agent_id=call.claimed_agent_id or None,
        claimed_session_id=call.claimed_session_id or None,
        item_count=len(memory_ids),
        found_nothing=response is not None and _has_no_hits(response),
        # Postgres cannot store NUL: the whole batch would be lost.
        request_data=_JSON.encode(request_data).replace("\\u0000", "\\ufffd"),
        success=None if response is None and error is None else error is None,
        error_code=None if error is None else error[0],
        error_reason=None if error is None else error[1],
        client_address=call.client_address or None,
        request_id=call.request_id,
        create_time=at,
        space_ids=call.space_ids,
        space_grant_ids=None if caller is None or call.space_ids is None else caller.grants_of(call.space_ids),
        used_memory_ids=response_ids if response is not None and response.DESCRIPTOR.name in _USES else (),
    )


def _has_no_hits(response: Any) -> bool:
    """Return whether a response has a list of hits, and it is empty."""
    return "hits" in response.DESCRIPTOR.fields_by_name and not response.hits


@dataclass(kw_only=True, slots=True)
class _RequestReader:
    """Reads one request: its description, the memories that it names, and the session and subject it is about."""

    query_key: bytes
    with_query: bool
    # Ids of the request, which may be external ids; the response has the ids of those memories.
    names: list[str] = field(default_factory=list)
    context: dict[str, str] = field(default_factory=dict)

    def read_request(self, request: Message) -> dict[str, object]:
        """Return the description of a request, and set `names` and `context`."""
        description: dict[str, object] = {}
        inner_context: dict[str, str] = {}
        for descriptor, value in request.ListFields():
            field_ = _field(descriptor)
            if field_.describe is not None:
                description[field_.name] = field_.describe(value, self, 0)
            if field_.request_ids is not None:
                self.names += field_.request_ids(value)
            if field_.name in _CONTEXT:
                _set_context(self.context, field_.name, value)
            elif field_.context_fields:
                _read_inner_context(inner_context, field_, value)
        # Fields of the request take precedence over those of a message inside it.
        self.context = inner_context | self.context
        return description

    def describe(self, message: Message, depth: int) -> dict[str, object]:
        """Return the description of a message inside a request."""
        return {
            field_.name: field_.describe(value, self, depth)
            for field_, value in [(_field(descriptor), value) for descriptor, value in message.ListFields()]
            if field_.describe is not None
        }


def _read_inner_context(context: dict[str, str], field_: _Field, message: Message) -> None:
    """Set the names of a message inside a request that are not set yet."""
    for descriptor, value in message.ListFields():
        if descriptor.name not in field_.context_fields:
            continue
        if descriptor.message_type is not None:
            _read_inner_context(context, _field(descriptor), value)
        elif descriptor.name not in context:
            _set_context(context, descriptor.name, value)


def _set_context(context: dict[str, str], name: str, value: object) -> None:
    if isinstance(value, str) and value:
        context[name] = value[:_MAX_TEXT].replace("\0", "\ufffd")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """The functions that read a field; computed once for each field."""

    name: str
    # Returns the description of a value at a depth; None: the event keeps nothing of it, not even its length.
    describe: Callable[[Any, _RequestReader, int], object] | None
    # Return the ids of memories that a value names, in a request and in a response.
    request_ids: Callable[[Any], Iterable[str]] | None
    response_ids: Callable[[Any], Iterable[str]] | None
    # Fields inside the value that name the session or the subject of the call.
    context_fields: frozenset[str]


@functools.cache
def _field(descriptor: FieldDescriptor) -> _Field:
    return _Field(
        name=descriptor.name,
        describe=_describer(descriptor),
        request_ids=_request_ids_reader(descriptor),
        response_ids=_response_ids_reader(descriptor),
        context_fields=_CONTEXT_FIELDS.get(descriptor.name, frozenset())
        if descriptor.message_type is not None
        else frozenset(),
    )


def _request_ids_reader(descriptor: FieldDescriptor) -> Callable[[Any], Iterable[str]] | None:
    """Return a function that reads the memory ids in a field of a request; None for other fields."""
    if descriptor.name.endswith("memory_id"):
        return lambda value: (value,)
    if descriptor.name.endswith("memory_ids"):
        return lambda values: values
    if descriptor.message_type is None or not _names_memories(descriptor.message_type):
        return None
    return _inner_request_ids if descriptor.is_repeated else lambda value: _inner_request_ids([value])


def _inner_request_ids(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the memory ids that messages inside a request name."""
    for message in messages:
        for descriptor, value in message.ListFields():
            if (read := _field(descriptor).request_ids) is not None:
                yield from read(value)


@functools.cache
def _names_memories(kind: Descriptor, depth: int = _MAX_DEPTH) -> bool:
    """Return whether a message has a field, down to this depth, that names memories. Values of maps have none."""
    if kind.GetOptions().map_entry or kind.file.package == "google.protobuf":
        return False
    return any(
        field.name.endswith(("memory_id", "memory_ids"))
        or (field.message_type is not None and depth > 0 and _names_memories(field.message_type, depth - 1))
        for field in kind.fields
    )


def _response_ids_reader(  # noqa: PLR0911 - a table.
    descriptor: FieldDescriptor,
) -> Callable[[Any], Iterable[str]] | None:
    """Return a function that reads the memory ids in a field of a response; None for other fields."""
    if descriptor.name == "memory":
        return lambda value: (value.memory_id,)
    if descriptor.name in _CHANGED_IDS:
        return lambda values: values
    names = frozenset(descriptor.message_type.fields_by_name if descriptor.message_type is not None else ())
    if descriptor.name == "receipt" and "memory_ids" in names:
        return lambda value: value.memory_ids
    if descriptor.name == "memories" and "memory_id" in names:
        return lambda values: [value.memory_id for value in values]
    if descriptor.name == "response" and "hits" in names:
        return _response_ids
    if descriptor.name == "hits" and "memory" in names:
        return lambda values: [value.memory.memory_id for value in values]
    return None


def _describer(  # noqa: PLR0911 - a table.
    descriptor: FieldDescriptor,
) -> Callable[[Any, _RequestReader, int], object] | None:
    """Return a function that describes the values of a field; None: no event keeps the field."""
    # Not even the length of a secret.
    if descriptor.name == "request_id" or descriptor.GetOptions().debug_redact:
        return None
    if descriptor.is_repeated:
        return lambda value, _reader, _depth: {"count": len(value)}
    if descriptor.message_type is not None:
        if descriptor.message_type.file.package != "google.protobuf":
            return _describe_message
        return _describe_json_string if descriptor.message_type.name in {"Timestamp", "FieldMask"} else lambda *_: {}
    if descriptor.enum_type is not None:
        names = {number: value.name for number, value in descriptor.enum_type.values_by_number.items()}
        return lambda value, _reader, _depth: names.get(value, value)
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        if descriptor.name in _QUERY_FIELDS:
            return _describe_query
        if descriptor.name in _IDS:
            return _identifier
        return _describe_name if descriptor.name in _PLAIN else _length
    return _length if descriptor.type == FieldDescriptor.TYPE_BYTES else lambda value, _reader, _depth: value


def _describe_message(value: Message, reader: _RequestReader, depth: int) -> object:
    return {} if depth == _MAX_DEPTH else reader.describe(value, depth + 1)


def _describe_json_string(value: Any, _reader: _RequestReader, _depth: int) -> object:
    """Return a time or a mask as text; {} for an invalid one, for which the request is refused."""
    try:
        return value.ToJsonString()
    except ValueError:
        return {}


def _describe_query(value: str, reader: _RequestReader, _depth: int) -> object:
    if reader.with_query:
        return value
    length = {"length": len(value)}
    return {"hash": _hash(value, reader.query_key), **length} if reader.query_key else length


def _identifier(value: str, _reader: _RequestReader, _depth: int) -> object:
    """Return a UUID unchanged; of another text the length, because a caller chose it and it may name a person."""
    return value if parse_id(value) is not None else {"length": len(value)}


def _describe_name(value: str, _reader: _RequestReader, _depth: int) -> object:
    return value if len(value) <= _MAX_TEXT else {"length": len(value)}


def _length(value: str | bytes, _reader: _RequestReader, _depth: int) -> object:
    return {"length": len(value)}


def _hash(text: str, key: bytes) -> str:
    """Return a keyed hash: equal queries of a tenant have equal hashes while the key exists."""
    return hashlib.blake2b(text.encode(), digest_size=16, key=key).hexdigest()


@functools.cache
def has_query_field(descriptor: Descriptor, depth: int = _MAX_DEPTH) -> bool:
    """Return whether a request type has a query field, down to the depth that events describe."""
    return any(
        field.name in _QUERY_FIELDS
        or (field.message_type is not None and depth > 0 and has_query_field(field.message_type, depth - 1))
        for field in descriptor.fields
    )


def _response_ids(response: Message) -> Iterator[str]:
    """Yield the memory ids of a response."""
    for descriptor, value in response.ListFields():
        read = _field(descriptor).response_ids
        if read is not None:
            yield from read(value)


def _ids(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that are UUIDs, in canonical form."""
    for name in names:
        if _is_canonical(name):
            yield name
        elif name and (id_ := parse_id(name)) is not None:
            yield str(id_)


_JSON = json.JSONEncoder(separators=(",", ":"))
_is_canonical = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
# Messages inside a request whose fields name the session or the subject of the call. The session of a memory or of a
# filter is not that of the call.
_CONTEXT_FIELDS = {
    "memory": frozenset({"subject_id"}),
    "filter": frozenset({"subject_id", "visible_to"}),
    "visible_to": frozenset({"subject_id"}),
    "block": frozenset({"subject_id"}),
    "session": _CONTEXT,
    "state": _CONTEXT,
}
# Ids: UUIDs of services, or texts that a caller chose.
_IDS = frozenset({"memory_id", "link_id", "block_id", "session_id", "message_id", "snapshot_id"})
# Names of agents and types, which are not about a person.
_PLAIN = frozenset({"agent_id", "type", "relation"})
_SHARED = (
    "operation", "method", "principal", "session_id", "agent_id", "subject_id", "claimed_agent_id",
    "claimed_session_id", "item_count", "request_data", "success", "error_code", "error_reason", "client_address",
    "request_id", "create_time", "call_count", "found_nothing",
    "space_ids", "space_grant_ids",
)  # fmt: skip
