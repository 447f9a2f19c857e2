"""Records of an import, and their `jsonl` format with a JSON object per line.

`sample/README.md` describes that format to people; the tables here are the same description for the program.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, pages_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact, fields
from skein_kit.json_values.number_marks import unmark_message

# Longest line: a message has at most 4 MiB, of which JSON may write each byte with six characters.
LINE_BYTES = 32 * 1024 * 1024
# Ids of records without one.
_DERIVED_PREFIX = "jsonl-"
_DERIVED_DIGITS = 32


class Kind(StrEnum):
    """Kinds of records in the order of their references; the comment names the item's message."""

    SUBJECT = "subject"  # Subject
    AGENT = "agent"  # Agent
    TOOL = "tool"  # Tool
    TOOL_ATTACHMENT = "tool_attachment"  # AttachToolRequest
    BLOCK = "block"  # Block
    BLOCK_ATTACHMENT = "block_attachment"  # AttachBlockRequest
    SESSION = "session"  # Session
    MESSAGE = "message"  # Message
    ITEM = "item"  # PutSessionItemRequest
    AGENT_STATE = "agent_state"  # AgentState
    MEMORY = "memory"  # Memory
    EMBEDDING = "embedding"  # PutEmbeddingRequest, by external_id
    LINK = "link"  # Link
    TRUST = "trust"  # SetSourceTrustRequest
    ALIAS = "alias"  # ResolveEntityRequest
    CONFLICT = "conflict"  # ResolveConflictRequest
    PAGE = "page"  # Page
    POLICY = "policy"  # UpdatePolicyRequest
    WEBHOOK = "webhook"  # Webhook


class RecordInvalid(Exception):
    """A record cannot be read. The message names the field and the reason; `hint` shows the fields of such a record."""

    def __init__(self, message: str, hint: str = "") -> None:
        """Say `message`."""
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One record of a file."""

    # "line 12", or the record's id in its source.
    where: str
    kind: Kind
    # The message that Kind names.
    item: Any
    # The source's table; empty for a source without tables.
    table: str = ""

    def __post_init__(self) -> None:
        """Restore the exact numbers that sources marked."""
        if isinstance(self.item, Message):
            unmark_message(self.item)

    @property
    def name(self) -> str:
        """Return the record's id in its file."""
        return " ".join(str(getattr(self.item, name)) for name in _NAMES.get(self.kind, ())).strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableRecord:
    """One record that could not be read."""

    where: str
    reason: str
    table: str = ""
    # Required fields and a valid example; empty for formats without hints.
    hint: str = ""


# The fields that name it; a policy has none.
_NAMES: Mapping[Kind, tuple[str, ...]] = {
    Kind.SUBJECT: ("subject_id",),
    Kind.AGENT: ("agent_id",),
    Kind.TOOL: ("tool_id",),
    Kind.TOOL_ATTACHMENT: ("agent_id", "tool_id"),
    Kind.BLOCK: ("block_id",),
    Kind.BLOCK_ATTACHMENT: ("agent_id", "block_id"),
    Kind.SESSION: ("session_id",),
    Kind.MESSAGE: ("external_id",),
    Kind.ITEM: ("session_id", "key"),
    Kind.AGENT_STATE: ("agent_id", "session_id"),
    Kind.MEMORY: ("external_id",),
    Kind.EMBEDDING: ("external_id", "model"),
    Kind.LINK: ("from_memory_id", "relation", "to_memory_id"),
    Kind.TRUST: ("source",),
    Kind.ALIAS: ("alias_memory_id",),
    Kind.CONFLICT: ("a_memory_id", "b_memory_id"),
    Kind.PAGE: ("page_id",),
    Kind.WEBHOOK: ("display_name",),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: its name in the protobuf message, and how to read and write its value."""

    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    required: bool = False
    # Free JSON, which also fills the field's exact text.
    is_json: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise RecordInvalid("should be a text")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        raise RecordInvalid("should be a number")
    return float(value)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise RecordInvalid("should be a list of texts")
    return value


def parse_time(value: Any) -> Timestamp:
    """Read a time in UTC. Raises RecordInvalid."""
    try:
        moment = datetime.fromisoformat(_text(value))
    except ValueError:
        raise RecordInvalid("should be a time such as 2026-03-02T07:12:00Z") from None
    if moment.tzinfo is None:
        raise RecordInvalid("should be a time in UTC, ending in Z")
    result = Timestamp()
    result.FromDatetime(moment)
    return result


def _same(value: Any) -> Any:
    return value


def _optional(name: str) -> Field:
    return Field(name, _text, _same)


def _required(name: str) -> Field:
    return Field(name, _text, _same, required=True)


def _at(name: str) -> Field:
    return Field(name, parse_time, Timestamp.ToJsonString)


def _ordered(value: Message) -> Any:
    """Return JSON with sorted keys: protobuf keeps no order, and equal items must give equal lines."""
    return _sorted(fields.to_values(value, with_texts=False, preserving_proto_field_name=True))


def _sorted(value: Any) -> Any:
    return exact.loads(exact.canonical(value))


def _json(name: str, kind: type = dict) -> Field:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise RecordInvalid(f"should be a JSON {'object' if kind is dict else 'array'}")
        return value

    return Field(name, read, _sorted, is_json=True)


def _measure(name: str) -> Field:
    return Field(name, _number, _same)


def _enum(name: str, enum: Any, *, required: bool = False) -> Field:
    """Return a field whose values are those of a protobuf enum, in lower case and without the prefix."""
    prefix = enum.Name(0).removesuffix("UNSPECIFIED")
    allowed = [value.removeprefix(prefix).lower() for value in enum.keys()[1:]]

    def read(value: Any) -> int:
        if value not in allowed:
            raise RecordInvalid(f"should be one of {', '.join(allowed)}")
        return int(enum.Value(f"{prefix}{value.upper()}"))

    return Field(name, read, lambda number: enum.Name(number).removeprefix(prefix).lower(), required=required)


FIELDS: Mapping[Kind, Mapping[str, Field]] = {
    Kind.SESSION: {
        "session_id": _required("session_id"),
        "title": _optional("title"),
        "session_type": _optional("session_type"),
        "subject_id": _optional("subject_id"),
        "agent_id": _optional("agent_id"),
        "start_time": _at("create_time"),
        "update_time": _at("update_time"),
        "end_time": _at("end_time"),
        "hide_time": _at("hide_time"),
        "summary": _optional("summary"),
        "state": _enum("state", session_pb2.SessionState),
        "end_reason": _optional("end_reason"),
        "metadata": _json("metadata"),
    },
    Kind.MESSAGE: {
        "external_id": _required("external_id"),
        "session_id": _required("session_id"),
        "role": _enum("role", session_pb2.MessageRole, required=True),
        "content": _optional("content"),
        "name": _optional("name"),
        "subject_id": _optional("subject_id"),
        "agent_id": _optional("agent_id"),
        "create_time": _at("create_time"),
        "update_time": _at("update_time"),
        "parts": _json("parts", list),
        "tool_calls": _json("tool_calls", list),
        "tool_call_id": _optional("tool_call_id"),
        "tool_returns": _json("tool_returns", list),
        "model": _optional("model"),
        "step_id": _optional("step_id"),
        "group_id": _optional("group_id"),
        "sender_id": _optional("sender_id"),
        "offline_thread_id": _optional("offline_thread_id"),
        "metadata": _json("metadata"),
    },
    Kind.MEMORY: {
        # Derived from the line when it is missing.
        "external_id": _optional("external_id"),
        "content": _optional("content"),
        "data": _json("data"),
        "type": _optional("type"),
        "key": _optional("key"),
        "title": _optional("title"),
        "tags": Field("tags", _texts, list),
        "subject_id": _optional("subject_id"),
        "session_id": _optional("session_id"),
        "agent_id": _optional("agent_id"),
        "scope": _enum("scope", memory_pb2.Scope),
        "level": _enum("level", memory_pb2.Level),
        "importance": _measure("importance"),
        "confidence": _measure("confidence"),
        "create_time": _at("create_time"),
        "update_time": _at("update_time"),
        "expire_time": _at("expire_time"),
        "archive_time": _at("archive_time"),
        "valid_from_time": _at("valid_from_time"),
        "valid_to_time": _at("valid_to_time"),
        "source": _optional("source"),
        "source_agent": _optional("source_agent"),
        "metadata": _json("metadata"),
    },
    Kind.LINK: {
        "from": _required("from_memory_id"),
        "to": _required("to_memory_id"),
        "relation": _optional("relation"),
        "label": _optional("label"),
        "create_time": _at("create_time"),
        "update_time": _at("update_time"),
        "weight": _measure("weight"),
        "metadata": _json("metadata"),
    },
}
_MESSAGES: Mapping[Kind, type[Message]] = {
    Kind.SESSION: session_pb2.Session,
    Kind.MESSAGE: session_pb2.Message,
    Kind.MEMORY: memory_pb2.Memory,
    Kind.LINK: memory_pb2.Link,
}
# Kinds whose records are messages of the contract, in protobuf's JSON form, under "item".
ITEMS: Mapping[Kind, type[Message]] = {
    Kind.SUBJECT: subjects_pb2.Subject,
    Kind.AGENT: tenancy_pb2.Agent,
    Kind.TOOL: subjects_pb2.Tool,
    Kind.TOOL_ATTACHMENT: subjects_pb2.AttachToolRequest,
    Kind.BLOCK: blocks_pb2.Block,
    Kind.BLOCK_ATTACHMENT: blocks_pb2.AttachBlockRequest,
    Kind.ITEM: states_pb2.PutSessionItemRequest,
    Kind.AGENT_STATE: states_pb2.AgentState,
    Kind.EMBEDDING: recall_pb2.PutEmbeddingRequest,
    Kind.TRUST: curation_pb2.SetSourceTrustRequest,
    Kind.ALIAS: curation_pb2.ResolveEntityRequest,
    Kind.CONFLICT: curation_pb2.ResolveConflictRequest,
    Kind.PAGE: pages_pb2.Page,
    Kind.POLICY: subjects_pb2.UpdatePolicyRequest,
}
# Fields that may replace the text.
_INSTEAD_OF_CONTENT: Mapping[Kind, tuple[str, ...]] = {
    Kind.MESSAGE: ("parts", "tool_calls", "tool_returns"),
    Kind.MEMORY: ("data",),
}

# Lines that can be imported. A message's session and a link's memories are in lines before them.
_EXAMPLES: Mapping[Kind, str] = {
    Kind.SESSION: '{"record": "session", "session_id": "s1", "title": "Breakfast"}',
    Kind.MESSAGE: (
        '{"record": "message", "external_id": "m1", "session_id": "s1", "role": "user", "content": "Tea, please"}'
    ),
    Kind.MEMORY: '{"content": "Anna prefers tea to coffee", "tags": ["drinks"]}',
    Kind.LINK: '{"record": "link", "from": "memory-1", "to": "memory-2", "relation": "supports"}',
}


def parse(where: str, line: str | bytes) -> Record:
    """Read one line. Raises RecordInvalid."""
    try:
        values = exact.loads(line)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise RecordInvalid(f"is not JSON in UTF-8: {str(error).removeprefix('is not JSON: ')}", _hint(None)) from None
    if not isinstance(values, dict):
        raise RecordInvalid("is no JSON object", _hint(None))
    return parse_values(where, values)


def parse_values(where: str, values: Mapping[str, Any]) -> Record:
    """Read the JSON object of one line. Raises RecordInvalid."""
    present = {name: value for name, value in values.items() if value is not None}
    name = present.pop("record", None)
    if name is None and "content" in present:
        name = Kind.MEMORY
    if name not in [*FIELDS, *ITEMS]:
        reason = f"record: should be one of {', '.join([*FIELDS, *ITEMS])}"
        raise RecordInvalid(reason if name is not None else f"content: is needed for a memory; {reason}", _hint(None))
    kind = Kind(name)
    try:
        item = _whole_item(kind, present) if kind in ITEMS else _checked_item(kind, present)
    except (RecordInvalid, exact.InvalidJson) as error:
        raise RecordInvalid(str(error), _hint(kind)) from None
    return Record(where=where, kind=kind, item=item)


def _checked_item(kind: Kind, values: dict[str, Any]) -> Any:
    unknown = sorted(set(values) - set(FIELDS[kind]))
    if unknown:
        raise RecordInvalid(f"{unknown[0]}: no such field in a {kind}")
    missing = [name for name in _required_fields(kind, values) if name not in values or values[name] == ""]
    if missing:
        raise RecordInvalid(f"{missing[0]}: is needed")
    item = _item(kind, values)
    if kind is Kind.MEMORY and not item.external_id:
        item.external_id = derived_id(values)
    return item


def _required_fields(kind: Kind, values: Mapping[str, Any]) -> list[str]:
    required = [name for name, field in FIELDS[kind].items() if field.required]
    instead = _INSTEAD_OF_CONTENT.get(kind, ())
    return [*required, "content"] if instead and not any(name in values for name in instead) else required


def _hint(kind: Kind | None) -> str:
    """Return the required fields of a kind with a valid example; None for an unknown kind."""
    example = _EXAMPLES.get(kind or Kind.MEMORY, "")
    if kind is None:
        others = ", ".join(name for name in FIELDS if name is not Kind.MEMORY)
        return f"A line is a JSON object: a memory, or with `record` a {others} or more. A line that works:\n{example}"
    article = "an" if kind[0] in "aeiou" else "a"
    if kind in ITEMS:
        names = ", ".join(field.name for field in ITEMS[kind].DESCRIPTOR.fields)
        summary = f"Beside `record`, {article} {kind} has one field, `item`, an object of {names}."
        return f"{summary} `skein export` writes such lines."
    required = _required_fields(kind, {})
    instead = _INSTEAD_OF_CONTENT.get(kind, ())
    optional = ", ".join(name for name in FIELDS[kind] if name not in {*required, *instead})
    alternatives = f" (or {', '.join(instead)})" if instead else ""
    summary = f"{article.capitalize()} {kind} needs {', '.join(required)}{alternatives}; it may have {optional}."
    return f"{summary} A line that works:\n{example}"


def line_of(kind: Kind, item: Message) -> str:
    """Write one line; fields that are empty are left out."""
    return exact.escape_active(exact.dumps(values_of(kind, item), separators=(", ", ": ")))


def values_of(kind: Kind, item: Message) -> dict[str, Any]:
    """Return the JSON object of one line."""
    values: dict[str, Any] = {"record": str(kind)}
    if kind in ITEMS:
        values["item"] = _ordered(item)
        return values
    for name, field in FIELDS[kind].items():
        descriptor = item.DESCRIPTOR.fields_by_name[field.name]
        present = item.HasField(field.name) if descriptor.has_presence else bool(getattr(item, field.name))
        if present:
            read = fields.value_of(item, field.name) if field.is_json else getattr(item, field.name)
            values[name] = field.write(read)
    return values


def read_jsonl(path: Path) -> Iterator[Record | UnreadableRecord]:
    """Read a file line by line; invalid lines become UnreadableRecord."""
    for number, line in enumerate(_bounded_lines(path), start=1):
        if line is None:
            yield UnreadableRecord(where=f"line {number}", reason=f"is longer than {LINE_BYTES} bytes")
        elif line.strip():
            try:
                yield parse(f"line {number}", line)
            except RecordInvalid as error:
                yield UnreadableRecord(where=f"line {number}", reason=str(error), hint=error.hint)


def _whole_item(kind: Kind, values: Mapping[str, Any]) -> Message:
    if set(values) != {"item"} or not isinstance(values["item"], dict):
        raise RecordInvalid(f"item: a {kind} has this field alone, a JSON object")
    try:
        item = ITEMS[kind]()
        fields.from_values(values["item"], item)
    except FieldInvalid as error:
        field, problem = error.violations[0]
        raise RecordInvalid(f"item: {field} {problem}") from None
    except (ValueError, ArithmeticError, RecursionError, json_format.ParseError) as error:
        raise RecordInvalid(f"item: cannot be read ({error})") from None
    return item


def _item(kind: Kind, values: Mapping[str, Any]) -> Any:
    item = _MESSAGES[kind]()
    for name, value in values.items():
        field = FIELDS[kind][name]
        try:
            read = field.read(value)
            if field.is_json:
                fields.set_value(item, field.name, read)
            elif isinstance(read, list):
                getattr(item, field.name).extend(read)
            elif isinstance(read, Timestamp):
                getattr(item, field.name).CopyFrom(read)
            else:
                setattr(item, field.name, read)
        except RecordInvalid as error:
            raise RecordInvalid(f"{name}: {error}") from None
        except FieldInvalid as error:
            raise RecordInvalid(f"{name}: {error.violations[0][1]}") from None
        except (ValueError, ArithmeticError, RecursionError, json_format.ParseError) as error:
            raise RecordInvalid(f"{name}: cannot be read ({error})") from None
    return item


def _bounded_lines(path: Path) -> Iterator[bytes | None]:
    """Yield each line with its end; None for a line of more than LINE_BYTES, which is dropped."""
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES):
            if len(line) < LINE_BYTES or line.endswith(b"\n"):
                yield line
                continue
            while len(line) == LINE_BYTES and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES)
            yield None


def derived_id(values: Mapping[str, Any]) -> str:
    """Return an id that depends on the line alone, so that a repeated import adds nothing.

    Raises InvalidJson for numbers that JSON cannot express.
    """
    try:
        text = exact.dumps(_plain(values), sort_keys=True, ensure_ascii=True, separators=(", ", ": "))
    except (ValueError, ArithmeticError, RecursionError):
        raise exact.InvalidJson(f"is not JSON: {exact.NO_NUMBER}") from None
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{_DERIVED_PREFIX}{digest[:_DERIVED_DIGITS]}"


def _plain(value: Any) -> Any:
    """Return values with floats for Decimals that are doubles: earlier versions derived ids from floats."""
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, Decimal) and exact.is_double(value):
        return float(value)
    return value
