"""Tools on their way in. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import FieldInvalid
from skein_kit.rpc import well_known_types
from skein_tenancy.tools import json_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.field_mask_pb2 import FieldMask

    from skein.tenancy.v1 import subjects_pb2 as pb

_TEXTS = ("description", "source_type", "source_code")
_OBJECTS = ("json_schema", "metadata")
UPDATABLE = ("name", *_TEXTS, *_OBJECTS, "tags")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A tool on its way in."""

    # Empty: the service makes one.
    tool_id: str
    values: Mapping[str, object]

    @classmethod
    async def of(cls, tool: pb.Tool) -> Draft:
        return cls(tool_id=tool.tool_id, values=await _values(tool, UPDATABLE))


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """New values for some fields of one tool."""

    tool_id: str
    # 0: whatever it is now.
    revision: int
    values: Mapping[str, object]

    @classmethod
    async def of(cls, tool: pb.Tool, mask: FieldMask) -> Change:
        """Read the fields that the mask names; all when it names none."""
        fields = well_known_types.updated_fields(mask, UPDATABLE)
        return cls(tool_id=tool.tool_id, revision=tool.revision, values=await _values(tool, fields))


async def _values(tool: pb.Tool, fields: Iterable[str]) -> dict[str, object]:
    """Return the fields by column: texts, JSON as text, None for what is unset, and the list of tags."""
    values: dict[str, object] = {}
    for field in fields:
        if field in _OBJECTS:
            values[field] = text = well_known_types.json_text(tool, field)
            if field == "json_schema" and text is not None:
                await json_schema.check_json_schema(text)
        elif field == "tags":
            values[field] = list(tool.tags)
        else:
            values[field] = getattr(tool, field)
    if "name" in values and not tool.name.strip():
        raise FieldInvalid(violations=[("tool.name", "cannot be empty")])
    return values
