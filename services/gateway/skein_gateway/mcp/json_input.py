"""Converts tool arguments to the contract's JSON: short enum names, and errors in terms of the arguments.

Clients send lists and objects as JSON text, truth values as words, and "" for what they leave out. Where the field has
no texts, these can mean nothing else, and are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from skein_gateway.connect.json_names import prefix_of
from skein_gateway.json_schema import constraints
from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact

_WELL_KNOWN = "google.protobuf."
_TRUTH_VALUES = {"true": True, "false": False}
_TIMES: Mapping[str, tuple[Any, str]] = {
    "google.protobuf.Timestamp": (Timestamp, 'a time such as "2030-01-31T12:00:00Z"'),
    "google.protobuf.Duration": (Duration, 'a span of time in seconds such as "3600s"'),
}


def short_name(enum: EnumDescriptor, name: str) -> str:
    """Return the short name of an enum value: "user" for MESSAGE_ROLE_USER."""
    return name.removeprefix(prefix_of(enum)).lower()


def to_contract_json(field: FieldDescriptor, value: Any, path: str) -> Any:
    """Return the value of a field in the contract's JSON. Raises FieldInvalid, which names `path`."""
    if value is None or is_left_out(field, value):
        return None
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _object(value, path)
    if field.is_repeated:
        value = _parsed(value)
        if not isinstance(value, list):
            raise _schema_violation(path, "a list")
        return [_value(field, item, f"{path}[{index}]") for index, item in enumerate(value)]
    return _value(field, value, path)


def _value(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.message_type is not None:
        return _message(field.message_type, value, path)
    if field.enum_type is not None:
        rules = constraints.rules_of(field)
        numbers = [item.number for item in field.enum_type.values if item.number]
        allowed = constraints.enum_numbers(rules.repeated.items if field.is_repeated else rules, numbers)
        return _enum_name(field.enum_type, allowed, value, path)
    if field.type == FieldDescriptor.TYPE_STRING and not isinstance(value, str):
        raise _schema_violation(path, "a text")
    if field.type == FieldDescriptor.TYPE_BOOL and isinstance(value, str):
        value = _TRUTH_VALUES.get(value.lower())
    if field.type == FieldDescriptor.TYPE_BOOL and not isinstance(value, bool):
        raise _schema_violation(path, "true or false")
    return value


def _message(descriptor: Descriptor, value: Any, path: str) -> Any:
    if descriptor.full_name in _TIMES:
        return _time(descriptor.full_name, value, path)
    if descriptor.full_name == "google.protobuf.Struct":
        return _object(value, path)
    if descriptor.full_name.startswith(_WELL_KNOWN):
        return value
    result: dict[str, Any] = {}
    for name, item in _object(value, path).items():
        field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
        if field is None:
            raise FieldInvalid(
                violations=[(f"{path}.{name[:100]}", "does not match the schema: the field does not exist")]
            )
        result[field.name] = to_contract_json(field, item, f"{path}.{name}")
    return result


def _enum_name(enum: EnumDescriptor, allowed: Iterable[int], value: Any, path: str) -> str:
    names = [enum.values_by_number[number].name for number in allowed]
    if isinstance(value, str):
        for name in (value, prefix_of(enum) + value.upper()):
            if name in names:
                return name
    raise _schema_violation(path, f"one of {', '.join(short_name(enum, name) for name in names)}")


def _time(name: str, value: Any, path: str) -> str:
    kind, expected = _TIMES[name]
    if not isinstance(value, str):
        raise _schema_violation(path, expected)
    try:
        kind().FromJsonString(value)
    except ValueError:
        raise _schema_violation(path, expected) from None
    return value


def is_left_out(field: FieldDescriptor, value: Any) -> bool:
    """Return whether a value is the empty text for a field without texts, which a client sends for none."""
    return value == "" and isinstance(value, str) and (field.is_repeated or not _may_be_text(field))


def _may_be_text(field: FieldDescriptor) -> bool:
    if field.message_type is not None:
        return field.message_type.full_name in {"google.protobuf.Value", "google.protobuf.FieldMask"}
    return field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}


def _parsed(value: Any) -> Any:
    """Return the list or object that a text is the JSON of; other values as they are."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"[", "{"}:
        return value
    try:
        parsed = exact.loads_mixed(value)
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, list | dict) else value


def _object(value: Any, path: str) -> dict[str, Any]:
    value = _parsed(value)
    if not isinstance(value, dict):
        raise _schema_violation(path, "an object")
    return value


def _schema_violation(path: str, expected: str) -> FieldInvalid:
    return FieldInvalid(violations=[(path, f"does not match the schema: must be {expected}")])
