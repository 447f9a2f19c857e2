"""What an access to a tenant's memory is, for the record: read from a request and its answer. Pure; never content.

Of a request the record keeps UUIDs, numbers, switches and the lengths of texts; of a search a hash of its words under
the tenant's key, unless the tenant wants the words. Calls that erase do not name whom they erase.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from skein_kit.calls.call import Call

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
    "TraverseLinks",
    "Suggest",
    "SpreadActivation",
    "Stream",
    "Watch",
)
_SEARCHES = ("Search", "Recall", "FindSimilar")
_CREATES = ("Create", "BatchCreate", "Append", "Put", "Import", "Upsert")
_DELETES = ("Delete", "Purge", "Forget", "Remove", "Detach")
_QUERY_FIELDS = frozenset({"query"})
# Calls that erase a person or a session: their record must not keep the name.
_PURGES = frozenset({"PurgeSubject", "PurgeSession", "PurgeMemories", "ForgetMemories"})
_CONTEXT = frozenset({"session_id", "subject_id"})
# Whose memories are handed out to be used: those read by id, and those recalled.
_USES = frozenset({"GetMemoryResponse", "BatchGetMemoriesResponse", "RecallResponse", "FindSimilarResponse"})


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessEvent:
    """One call, as it is recorded."""

    tenant_id: UUID
    # The method's name: "GetMemory".
    method: str
    operation: str
    principal: str
    # Canonical UUIDs, as texts: there are ten or more for each call, and nothing is done with them but writing them.
    memory_ids: tuple[str, ...]
    # The session and the person that the request names as its object; a memory's or a filter's session is none.
    session_id: str | None
    subject_id: str | None
    # The agent that the caller's credential is bound to, verified.
    agent_id: str | None
    # What the caller says of itself in metadata; nothing verifies it.
    claimed_agent_id: str | None
    claimed_session_id: str | None
    item_count: int
    # JSON text.
    request_data: str | None
    # None: it is still at work.
    success: bool | None
    error_reason: str | None
    client_address: str | None
    request_id: str
    create_time: datetime
    # Of the memories, those that were handed out to be used, each as often as it was.
    used_memory_ids: tuple[str, ...] = ()

    @property
    def memory_ids_or_none(self) -> tuple[str | None, ...]:
        """Return the memories that its rows name: one row each, or one of none for a call that touched none."""
        return self.memory_ids or (None,)

    @property
    def row_count(self) -> int:
        """Return how many rows it takes."""
        return len(self.memory_ids_or_none)

    def with_memory_ids(self, memory_ids: tuple[str, ...]) -> AccessEvent:
        """Return the same access of these memories only."""
        return replace(self, memory_ids=memory_ids)

    def rows(self, access_ids: Sequence[UUID]) -> list[dict[str, object]]:
        """Return the rows to store, under these ids, of which there must be one for each."""
        shared = {name: getattr(self, name) for name in _SHARED}
        return [
            {**shared, "access_id": access_id, "memory_id": memory_id}
            for access_id, memory_id in zip(access_ids, self.memory_ids_or_none, strict=True)
        ]


@functools.lru_cache(maxsize=1024)
def method_operation(method: str) -> str:
    """Return what a method does: create, read, update, delete or search."""
    for operation, prefixes in (
        ("search", _SEARCHES), ("read", _READS), ("create", _CREATES), ("delete", _DELETES),
    ):  # fmt: skip
        if method.startswith(prefixes):
            return operation
    return "update"


def access_event(
    call: Call,
    tenant_id: UUID,
    request: Message,
    response: Message | None,
    *,
    at: datetime,
    error_reason: str | None = None,
    with_query: bool = False,
    query_key: bytes = b"",
) -> AccessEvent:
    """Read what is recorded of a call. Neither a response nor a reason: it is still at work.

    `query_key` is the secret of the tenant that words are hashed with; without one only their length is kept.
    """
    caller = call.caller
    reading = _RequestReader(query_key=query_key, with_query=with_query)
    described = reading.read_request(request)
    answered = () if response is None else tuple(_ids(_response_ids(response)))
    touched = tuple(dict.fromkeys((*_ids(reading.names), *answered)))
    method = call.path.rpartition("/")[2]
    context = {} if method in _PURGES else reading.context
    return AccessEvent(
        tenant_id=tenant_id,
        method=method,
        operation=method_operation(method),
        principal=caller.principal if caller is not None else "",
        memory_ids=touched[:MAX_MEMORIES],
        session_id=context.get("session_id"),
        subject_id=context.get("subject_id"),
        agent_id=(caller.agent_id if caller is not None else "") or None,
        claimed_agent_id=call.claimed_agent_id or None,
        claimed_session_id=call.claimed_session_id or None,
        item_count=len(touched),
        # What the database cannot store would cost every record that is written with it.
        request_data=_JSON.encode(described).replace("\\u0000", "\\ufffd"),
        success=None if response is None and error_reason is None else error_reason is None,
        error_reason=error_reason,
        client_address=call.client_address or None,
        request_id=call.request_id,
        create_time=at,
        used_memory_ids=answered if response is not None and response.DESCRIPTOR.name in _USES else (),
    )


@dataclass(kw_only=True, slots=True)
class _RequestReader:
    """One reading of a request: what it says, and on the way which memories it names and what it is about."""

    query_key: bytes
    with_query: bool
    # Ids as they were given; external ones are found in the answer.
    names: list[str] = field(default_factory=list)
    context: dict[str, str] = field(default_factory=dict)

    def read_request(self, request: Message) -> dict[str, object]:
        """Describe a request."""
        described: dict[str, object] = {}
        held: dict[str, str] = {}
        for descriptor, value in request.ListFields():
            known = _field(descriptor)
            if known.describe is not None:
                described[known.name] = known.describe(value, self, 0)
            if known.names is not None:
                self.names += known.names(value)
            if known.name in _CONTEXT:
                self._about(self.context, known, value)
            elif known.holds:
                for inner, inner_value in value.ListFields():
                    if inner.name in known.holds and inner.name not in held:
                        self._about(held, _field(inner), inner_value)
        # What a request says itself goes before what the one thing that it carries says.
        self.context = held | self.context
        return described

    def describe(self, message: Message, depth: int) -> dict[str, object]:
        """Describe a message inside of a request."""
        return {
            known.name: known.describe(value, self, depth)
            for known, value in [(_field(descriptor), value) for descriptor, value in message.ListFields()]
            if known.describe is not None
        }

    @staticmethod
    def _about(context: dict[str, str], known: _Field, value: object) -> None:
        if isinstance(value, str) and value:
            context[known.name] = value[:_MAX_TEXT].replace("\0", "\ufffd")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """How a field is read, found out once for each that there is."""

    name: str
    # Returns what is kept of a value, at a depth; None: nothing is, not even how long it is.
    describe: Callable[[Any, _RequestReader, int], object] | None
    # Return the ids of memories that a value names, in a request and in an answer.
    names: Callable[[Any], Iterable[str]] | None
    answers: Callable[[Any], Iterable[str]] | None
    # Fields inside of the value that say what a call is about.
    holds: frozenset[str]


@functools.cache
def _field(descriptor: FieldDescriptor) -> _Field:
    return _Field(
        name=descriptor.name,
        describe=_describer(descriptor),
        names=_request_ids_reader(descriptor),
        answers=_response_ids_reader(descriptor),
        holds=_HOLDERS.get(descriptor.name, frozenset()) if descriptor.message_type is not None else frozenset(),
    )


def _request_ids_reader(descriptor: FieldDescriptor) -> Callable[[Any], Iterable[str]] | None:
    """Return what reads the memories that a field of a request names by their own ids."""
    if descriptor.name.endswith("memory_id"):
        return lambda value: (value,)
    if descriptor.name.endswith("memory_ids"):
        return lambda values: values
    if descriptor.name in {"memory", "link"}:
        return lambda value: [text for inner, text in value.ListFields() if inner.name.endswith("memory_id")]
    return None


def _response_ids_reader(descriptor: FieldDescriptor) -> Callable[[Any], Iterable[str]] | None:
    """Return what reads the memories that a field of an answer holds."""
    if descriptor.name == "memory":
        return lambda value: (value.memory_id,)
    of_each = frozenset(descriptor.message_type.fields_by_name if descriptor.message_type is not None else ())
    if descriptor.name == "memories" and "memory_id" in of_each:
        return lambda values: [value.memory_id for value in values]
    if descriptor.name == "hits" and "memory" in of_each:
        return lambda values: [value.memory.memory_id for value in values]
    return None


def _describer(descriptor: FieldDescriptor) -> Callable[[Any, _RequestReader, int], object] | None:  # noqa: PLR0911 - a table.
    """Return what describes the values of a field."""
    # Of a secret not even how long it is.
    if descriptor.name == "request_id" or descriptor.GetOptions().debug_redact:
        return None
    if descriptor.is_repeated:
        return lambda value, _reading, _depth: {"count": len(value)}
    if descriptor.message_type is not None:
        if descriptor.message_type.file.package != "google.protobuf":
            return _describe_message
        return _describe_json_string if descriptor.message_type.name in {"Timestamp", "FieldMask"} else lambda *_: {}
    if descriptor.enum_type is not None:
        names = {number: value.name for number, value in descriptor.enum_type.values_by_number.items()}
        return lambda value, _reading, _depth: names.get(value, value)
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        if descriptor.name in _QUERY_FIELDS:
            return _describe_query
        if descriptor.name in _IDS:
            return _identifier
        return _describe_name if descriptor.name in _PLAIN else _length
    return _length if descriptor.type == FieldDescriptor.TYPE_BYTES else lambda value, _reading, _depth: value


def _describe_message(value: Message, reading: _RequestReader, depth: int) -> object:
    return {} if depth == _MAX_DEPTH else reading.describe(value, depth + 1)


def _describe_json_string(value: Any, _reading: _RequestReader, _depth: int) -> object:
    """Return a time or a mask as text; the request itself is refused for one that cannot be written."""
    try:
        return value.ToJsonString()
    except ValueError:
        return {}


def _describe_query(value: str, reading: _RequestReader, _depth: int) -> object:
    if reading.with_query:
        return value
    length = {"length": len(value)}
    return {"hash": _hash(value, reading.query_key), **length} if reading.query_key else length


def _identifier(value: str, _reading: _RequestReader, _depth: int) -> object:
    """Return a UUID as it is; another name was chosen by a caller, and may be a person's."""
    return value if parse_id(value) is not None else {"length": len(value)}


def _describe_name(value: str, _reading: _RequestReader, _depth: int) -> object:
    return value if len(value) <= _MAX_TEXT else {"length": len(value)}


def _length(value: str | bytes, _reading: _RequestReader, _depth: int) -> object:
    return {"length": len(value)}


def _hash(text: str, key: bytes) -> str:
    """Return a hash by which a tenant's equal searches are seen to be equal, for as long as its key lives."""
    return hashlib.blake2b(text.encode(), digest_size=16, key=key).hexdigest()


@functools.cache
def has_query_field(descriptor: Descriptor, depth: int = _MAX_DEPTH) -> bool:
    """Say whether requests of a kind have words that are looked for, down to the depth that is described."""
    return any(
        field.name in _QUERY_FIELDS
        or (field.message_type is not None and depth > 0 and has_query_field(field.message_type, depth - 1))
        for field in descriptor.fields
    )


def _response_ids(response: Message) -> Iterator[str]:
    """Yield the memories that an answer holds."""
    for descriptor, value in response.ListFields():
        read = _field(descriptor).answers
        if read is not None:
            yield from read(value)


def _ids(names: Iterable[str]) -> Iterator[str]:
    """Yield those that are ids, as they are written canonically."""
    for name in names:
        if _is_canonical(name):
            yield name
        elif name and (id_ := parse_id(name)) is not None:
            yield str(id_)


_JSON = json.JSONEncoder(separators=(",", ":"))
_is_canonical = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
# The session that a memory belongs to, or that a filter asks for, is not the object of the call.
_HOLDERS = {
    "memory": frozenset({"subject_id"}),
    "filter": frozenset({"subject_id"}),
    "block": frozenset({"subject_id"}),
    "session": _CONTEXT,
    "state": _CONTEXT,
}
# Names of things: UUIDs that services made, or whatever a caller chose.
_IDS = frozenset({"memory_id", "link_id", "block_id", "session_id", "message_id", "snapshot_id"})
# Names of kinds and agents, and no words of a person.
_PLAIN = frozenset({"agent_id", "type", "relation"})
_SHARED = (
    "operation", "method", "principal", "session_id", "agent_id", "subject_id", "claimed_agent_id",
    "claimed_session_id", "item_count", "request_data", "success", "error_reason", "client_address", "request_id",
    "create_time",
)  # fmt: skip
