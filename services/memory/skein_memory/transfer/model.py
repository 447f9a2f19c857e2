"""Items of exports and imports, each a message of the contract. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from google.protobuf import json_format
from google.protobuf.message import Message

from skein.memory.v1 import curation_pb2, memory_pb2, snapshots_pb2
from skein_kit.errors import FieldInvalid
from skein_kit.ids import parse_id
from skein_kit.json_values import exact, fields
from skein_kit.rpc.plain_names import make_names_plain
from skein_kit.rpc.well_known_types import json_text
from skein_memory.errors import ImportFormatUnknown

FORMAT = "skein_export_v1"
# In the order of an import: items that name a memory come after it.
MESSAGES: Mapping[str, type[Message]] = {
    "memory": memory_pb2.Memory,
    "link": memory_pb2.Link,
    "source_trust": curation_pb2.SourceTrust,
    "alias": curation_pb2.Alias,
    "conflict": curation_pb2.ConflictResolution,
    "block": snapshots_pb2.PortableBlock,
}
KINDS = tuple(MESSAGES)
MAX_ITEMS = 1000
# Beside the kind of a line: the space of an item that does not lie in the default one.
_SPACE = "space_id"
LINE_INVALID = "LINE_INVALID"
REASON_PURGED = "PURGED"
REASON_NOT_IMPORTABLE = "SECRET_NOT_IMPORTED"
# Fields that the service sets: an import neither compares nor sets them.
_SERVICE_FIELDS = frozenset(
    {
        "revision", "create_time", "update_time", "delete_time", "created_by", "updated_by", "content_hash", "scores",
        "access_count", "last_access_time", "record_time", "character_count", "nearly_full", "link_id", "resolution_id",
        "source_trust_id", "writers", "trust",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferItem:
    """One item of a tenant's memory, and the memories that it names, with which it is purged."""

    kind: str
    # As text: of a source trust the key, of a conflict both ids.
    item_id: str
    message: Message
    memory_id: UUID | None = None
    other_memory_id: UUID | None = None
    # None: not known, or the default one.
    space_id: UUID | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportLine:
    """An item of an import, with the number of its line."""

    line_number: int
    kind: str
    message: Any
    # The space that the line names; None for none.
    space_id: UUID | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportProblem:
    """Why an item was not stored."""

    line_number: int
    kind: str
    reason: str
    field: str = ""


def header(as_of: str) -> str:
    return _line({"format": FORMAT, "as_of_time": as_of, "secrets": "masked"})


def format_line(item: TransferItem) -> str:
    values = {item.kind: fields.to_values(item.message, with_texts=False, preserving_proto_field_name=True)}
    return _line(values if item.space_id is None else {**values, _SPACE: str(item.space_id)})


def parse_lines(text: str) -> Iterator[ImportLine | ImportProblem]:
    """Read lines, without the header. Raises ImportFormatUnknown for the header of another format."""
    for line_number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = exact.loads(line)
        except (ValueError, RecursionError):
            values = None
        if isinstance(values, dict) and "format" in values:
            if values["format"] != FORMAT:
                raise ImportFormatUnknown(format=values["format"])
            continue
        yield parse_item(line_number, values)


def parse_item(line_number: int, values: object) -> ImportLine | ImportProblem:
    """Read an object of one name, its kind, and one value; and of the space in which the item lies, if it is named."""
    space_text = values.pop(_SPACE, "") if isinstance(values, dict) else ""
    space_id = parse_id(space_text) if isinstance(space_text, str) else None
    if not isinstance(values, dict) or len(values) != 1 or (space_text and space_id is None):
        return ImportProblem(line_number=line_number, kind="", reason=LINE_INVALID)
    ((kind, value),) = values.items()
    if kind not in MESSAGES:
        return ImportProblem(line_number=line_number, kind="", reason=LINE_INVALID)
    try:
        message = MESSAGES[kind]()
        fields.from_values(value, message)
        make_names_plain(message)
    except FieldInvalid as error:
        return ImportProblem(line_number=line_number, kind=kind, reason=error.reason, field=error.violations[0][0])
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        return ImportProblem(line_number=line_number, kind=kind, reason=LINE_INVALID)
    return ImportLine(line_number=line_number, kind=kind, message=message, space_id=space_id)


def changed_fields(before: Message, after: Message) -> list[str]:
    """Return the fields in which two items of a kind differ, without those that the service sets."""
    if isinstance(before, snapshots_pb2.PortableBlock) and isinstance(after, snapshots_pb2.PortableBlock):
        agents = [] if list(before.agent_ids) == list(after.agent_ids) else ["agent_ids"]
        return [*changed_fields(before.block, after.block), *agents]
    json_names = fields.json_field_names(before.DESCRIPTOR)
    names = [
        field.name
        for field in before.DESCRIPTOR.fields
        if field.name not in _SERVICE_FIELDS and not fields.is_text(field)
    ]
    return [
        name
        for name in names
        if (
            not exact.equal_json(json_text(before, name), json_text(after, name))
            if name in json_names
            else getattr(before, name) != getattr(after, name)
        )
    ]


def count_kinds(kinds: Sequence[str]) -> dict[str, int]:
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _line(values: object) -> str:
    return exact.escape_active(exact.dumps(values)) + "\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class TransferCursor:
    """The cursor of a scan over all kinds: `phase` distinguishes two scans of one call."""

    phase: str
    kind: str
    after: str

    def advance(self, last: str | None) -> TransferCursor | None:
        """Return the cursor after a batch; None after the last item of the last kind."""
        if last is not None:
            return replace(self, after=last)
        index = KINDS.index(self.kind) + 1
        return TransferCursor(phase=self.phase, kind=KINDS[index], after="") if index < len(KINDS) else None
