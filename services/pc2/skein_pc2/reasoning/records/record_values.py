"""Readers and writers of port 5596's values: texts, objects, types, priorities. No calls, no clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.struct_pb2 import Struct, Value

from skein_kit.json_values import exact as exact_json
from skein_kit.json_values.number_marks import number_in
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError

MISSING_FIELDS = "Missing required fields"
# The agent under `pc2` in the metadata of memories from this port.
AGENT = "UnifiedMemoryReasoningAgent"
DEFAULT_USER = "default"
DEFAULT_TYPE = "note"

# Each JSON level is up to three protobuf levels, of which protobuf parses a hundred.
_MAX_LEVELS = 24
# Doubles cannot hold larger whole numbers exactly.
_MAX_EXACT_INTEGER = 2**53
_NON_NAME_CHARACTERS = re.compile(r"[^a-z0-9]+")
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")
# Characters that PostgreSQL cannot store.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_MAX_NAME_CHARACTERS = 100
_LOW_IMPORTANCE, _DEFAULT_IMPORTANCE, _HIGH_IMPORTANCE = 0.2, 0.5, 0.8
_PRIORITIES = {
    "LOW": _LOW_IMPORTANCE,
    "MEDIUM": _DEFAULT_IMPORTANCE,
    "NORMAL": _DEFAULT_IMPORTANCE,
    "HIGH": _HIGH_IMPORTANCE,
}


def text(values: Mapping[str, Any], *names: str) -> str:
    """Read the first present text; "" for none."""
    for name in names:
        result = fields.text(values, name)
        if "\0" in result:
            raise fields.invalid(name, "holds a NUL character, which cannot be stored")
        if result:
            return result
    return ""


def required_text(values: Mapping[str, Any], *names: str, missing: str = MISSING_FIELDS) -> str:
    """Read the first present text that is not blank; `missing` is the error message without one."""
    result = text(values, *names)
    if not result.strip():
        raise RequestError(VALIDATION_ERROR, missing)
    return result


def user_id(values: Mapping[str, Any]) -> str:
    """Read a message's user_id."""
    return text(values, "user_id").strip() or DEFAULT_USER


def struct(value: Mapping[str, Any], field: str) -> Struct:
    """Read an object of bounded depth."""
    if json_depth(value, max_depth=_MAX_LEVELS) > _MAX_LEVELS:
        raise fields.invalid(field, f"is nested deeper than {_MAX_LEVELS} levels")
    return fields.struct(dict(value), field)


def json_depth(value: Any, *, max_depth: int) -> int:
    """Return a JSON value's depth, 0 for a scalar; depths beyond `max_depth` count as `max_depth` + 1."""
    depth, containers = 0, [value]
    while depth <= max_depth:
        containers = [item for item in containers if isinstance(item, dict | list)]
        if not containers:
            break
        depth += 1
        containers = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def is_storable(value: Any) -> bool:
    """Say whether a Struct returns a JSON value unchanged."""
    if json_depth(value, max_depth=_MAX_LEVELS) > _MAX_LEVELS:
        return False
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += [*item, *item.values()]
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str):
            if _UNSTORABLE.search(item):
                return False
        elif isinstance(item, int) and abs(item) > _MAX_EXACT_INTEGER:
            return False
    return True


def struct_to_json(value: Struct) -> dict[str, Any]:
    """Return a Struct as JSON values; whole numbers become int."""
    return {name: value_to_json(inner) for name, inner in value.fields.items()}


def value_to_json(value: Value) -> Any:
    """Return any value of a Struct as a JSON value."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return struct_to_json(value.struct_value)
    if kind == "list_value":
        return [value_to_json(inner) for inner in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _MAX_EXACT_INTEGER else number
    if kind == "string_value" and (exact := number_in(value.string_value)) is not None:
        return exact
    return None if kind in (None, "null_value") else getattr(value, str(kind))


def type_name(value: object) -> str:
    """Read a memory's type: "User-Preference" is user_preference, none is a note."""
    if value is None or value == "":
        return DEFAULT_TYPE
    if isinstance(value, str):
        name = _NON_NAME_CHARACTERS.sub("_", value.strip().lower()).strip("_")
        if _TYPE.fullmatch(name):
            return name
    raise fields.invalid("type", "is a name of letters, digits and underscores, such as web_data")


def parse_importance(value: object, *, default: float = _DEFAULT_IMPORTANCE) -> float:
    """Read a priority: HIGH, MEDIUM (or normal), LOW."""
    if value is None or value == "":
        return default
    result = _PRIORITIES.get(value.strip().upper()) if isinstance(value, str) else None
    if result is None:
        raise fields.invalid("priority", "is HIGH, MEDIUM (or normal) or LOW")
    return result


def to_priority(value: float) -> str:
    """Return the priority nearest to an importance."""
    names = ("LOW", "MEDIUM", "HIGH")
    return min(names, key=lambda name: abs(_PRIORITIES[name] - value))


def replace_unstorable(value: str) -> str:
    """Return a text with unstorable characters replaced."""
    return _UNSTORABLE.sub("�", value)


def to_compact_json(value: Any) -> str:
    """Return a JSON value as compact text with sorted keys."""
    return exact_json.dumps(exact_json.to_decimals(value), sort_keys=True)


def truncate_name(value: object) -> str:
    """Return a sender's name, cut to 100 characters."""
    return str(value)[:_MAX_NAME_CHARACTERS]
