"""Tools as protobuf messages, and drafts and changes of requests."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.rpc import well_known_types
from skein_tenancy.rows import RowChange, RowDraft
from skein_tenancy.tools.json_schema import check_json_schema
from skein_tenancy.tools.model import Tool

_TEXTS = ("name", "description", "source_type", "source_code")
_OBJECTS = ("json_schema", "metadata")
_UPDATABLE = (*_TEXTS, *_OBJECTS, "tags")


def tool(value: Tool) -> pb.Tool:
    return well_known_types.to_message(pb.Tool, value)


async def draft(message: pb.Tool) -> RowDraft:
    """Raises JsonSchemaInvalid and FieldInvalid."""
    return RowDraft(row_id=message.tool_id, values=await _values(message, _UPDATABLE))


async def change(message: pb.Tool, mask: FieldMask) -> RowChange:
    """Read the fields that the mask names, or all when it is empty. Raises JsonSchemaInvalid and FieldInvalid."""
    updated_names = well_known_types.updated_fields(mask, _UPDATABLE)
    return RowChange(row_id=message.tool_id, revision=message.revision, values=await _values(message, updated_names))


async def _values(message: pb.Tool, names: Iterable[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        if name in _OBJECTS:
            values[name] = text = well_known_types.json_text(message, name)
            if name == "json_schema" and text is not None:
                await check_json_schema(text)
        elif name == "tags":
            values[name] = list(message.tags)
        else:
            values[name] = getattr(message, name)
    if "name" in values and not message.name.strip():
        raise FieldInvalid(violations=[("tool.name", "cannot be empty")])
    return values
