"""Short enum names and update masks in request JSON, converted to the spelling of protobuf's parser.

The parser accepts only full enum names, and a mask only as one camelCase text. Callers write "global" and
"profile,display_name". Knows no server.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.field_mask_pb2 import FieldMask

from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.violations import enum_value_names

_MASK = FieldMask.DESCRIPTOR.full_name
_WELL_KNOWN = "google.protobuf."
_PATH = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)*")
_AFTER_UNDERSCORE = re.compile(r"_+([a-z0-9])")


def prefix_of(enum: EnumDescriptor) -> str:
    """Return the common prefix of an enum's names: SCOPE_ for SCOPE_GLOBAL."""
    return str(enum.values_by_number[0].name).removesuffix("UNSPECIFIED")


def normalize(values: Any, kind: Descriptor, path: str = "") -> Any:
    """Return the JSON of a message with full enum names and camelCase masks.

    Changes `values` in place. Leaves anything but an object to the parser, which refuses it. Raises FieldInvalid for an
    unknown enum name and UpdateMaskInvalid for a mask that cannot be read.
    """
    if not isinstance(values, dict):
        return values
    for key in list(values):
        field = _named_fields(kind).get(key)
        if field is not None and values[key] is not None:
            values[key] = _field(field, values[key], f"{path}.{field.name}" if path else field.name)
    return values


def _field(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value_field = field.message_type.fields_by_name["value"]
        if isinstance(value, dict):
            return {key: _value(value_field, item, f"{path}.{key}") for key, item in value.items()}
        return value
    if field.is_repeated and isinstance(value, list):
        return [_value(field, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return value if field.is_repeated else _value(field, value, path)


def _value(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.enum_type is not None:
        return _enum_name(field, value, path)
    if field.message_type is None:
        return value
    return _mask(value, path) if field.message_type.full_name == _MASK else normalize(value, field.message_type, path)


def _enum_name(field: FieldDescriptor, value: Any, path: str) -> Any:
    enum = field.enum_type
    assert enum is not None  # noqa: S101 - _value() calls this for enum fields only.
    if not isinstance(value, str) or value.removeprefix("-").isdecimal():
        return value
    for name in (value, value.upper(), f"{prefix_of(enum)}{value.upper()}"):
        if name in enum.values_by_name:
            return name
    names = enum_value_names(field)
    short = names[0].removeprefix(prefix_of(enum)).lower() if names else "unspecified"
    message = f"must be one of {', '.join(names)}; short names such as {short} are accepted"
    raise FieldInvalid(violations=[(path, message)])


def _mask(value: Any, path: str) -> str:
    paths = value.get("paths") if isinstance(value, dict) and value.keys() <= {"paths"} else value
    texts = [item.strip() for item in paths.split(",")] if isinstance(paths, str) else paths
    texts = [] if texts in (None, [""]) else texts
    if not isinstance(texts, list) or not all(isinstance(item, str) and _PATH.fullmatch(item) for item in texts):
        message = "must be field names, as a list or as one comma-separated text"
        raise UpdateMaskInvalid(violations=[(path, message)])
    return ",".join(_AFTER_UNDERSCORE.sub(lambda letter: letter.group(1).upper(), item) for item in texts)


@functools.cache
def _named_fields(kind: Descriptor) -> dict[str, FieldDescriptor]:
    """Return the fields that are or contain an enum or a mask, by both spellings of their names."""
    return {name: field for field in kind.fields if _holds_names(field) for name in (field.name, field.json_name)}


@functools.cache
def _holds_names(field: FieldDescriptor) -> bool:
    return field.enum_type is not None or (
        field.message_type is not None and _reaches_names(field.message_type, frozenset())
    )


def _reaches_names(kind: Descriptor, visited: frozenset[str]) -> bool:
    if kind.full_name == _MASK:
        return True
    if kind.full_name.startswith(_WELL_KNOWN) or kind.full_name in visited:
        return False
    visited |= {kind.full_name}
    return any(
        field.enum_type is not None or (field.message_type is not None and _reaches_names(field.message_type, visited))
        for field in kind.fields
    )
