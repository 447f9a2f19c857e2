"""protovalidate's rules of one field as keywords of JSON Schema, and as sentences where no keyword fits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from buf.validate import validate_pb2
from buf.validate.validate_pb2 import FieldRules
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

# String formats of protovalidate and their names in JSON Schema.
_FORMATS: Mapping[str, str] = {
    "uuid": "uuid",
    "email": "email",
    "uri": "uri",
    "uri_ref": "uri-reference",
    "hostname": "hostname",
    "ipv4": "ipv4",
    "ipv6": "ipv6",
}
_NUMBERS: Mapping[str, str] = {
    "gte": "minimum",
    "gt": "exclusiveMinimum",
    "lte": "maximum",
    "lt": "exclusiveMaximum",
}
_BOUNDS: Mapping[str, str] = {"gte": "at least", "gt": "more than", "lte": "at most", "lt": "less than"}
# The type stubs do not know extensions.
_FIELD: Any = validate_pb2.field
NONE = validate_pb2.FieldRules()
LONG_KINDS = frozenset({"int64", "uint64", "sint64", "fixed64", "sfixed64"})


def rules_of(field: FieldDescriptor) -> FieldRules:
    """Return the rules of a field; of an ignored field only that it is ignored."""
    rules: FieldRules = field.GetOptions().Extensions[_FIELD]
    ignored = rules.ignore == validate_pb2.IGNORE_ALWAYS
    return validate_pb2.FieldRules(ignore=rules.ignore) if ignored else rules


def keywords(rules: FieldRules) -> dict[str, Any]:
    """Return the limits of one value: a singular field, an item or a map key."""
    kind = rules.WhichOneof("type")
    if kind is None:
        return {}
    rule = getattr(rules, kind)
    if kind == "string":
        schema_part = _text(rule)
    elif kind == "bytes":
        schema_part = _bytes(rule)
    elif kind in LONG_KINDS:
        # JSON carries these as strings, to which numeric bounds do not apply.
        schema_part = {"pattern": "^[0-9]{1,20}$"} if _unsigned(rule) else {}
    elif kind in {"enum", "bool", "any", "duration", "field_mask", "timestamp", "repeated", "map"}:
        schema_part = {}
    else:
        schema_part = {keyword: getattr(rule, name) for name, keyword in _NUMBERS.items() if rule.HasField(name)}
        if getattr(rule, "in"):
            schema_part["enum"] = list(getattr(rule, "in"))
    return _or_nothing(schema_part, kind) if rules.ignore == validate_pb2.IGNORE_IF_ZERO_VALUE else schema_part


def sizes(rules: FieldRules) -> dict[str, Any]:
    """Return the limits of the number of items or pairs."""
    schema_part: dict[str, Any] = {}
    for rule, name, keyword in (
        (rules.repeated, "min_items", "minItems"),
        (rules.repeated, "max_items", "maxItems"),
        (rules.map, "min_pairs", "minProperties"),
        (rules.map, "max_pairs", "maxProperties"),
    ):
        if rule.HasField(name):
            schema_part[keyword] = getattr(rule, name)
    if rules.repeated.unique:
        schema_part["uniqueItems"] = True
    return schema_part


def constraint_sentences(rules: FieldRules) -> list[str]:
    """Return the rules without a keyword, one sentence each."""
    schema_part = [_sentence(rule.message) for rule in rules.cel if rule.message]
    kind = rules.WhichOneof("type")
    if kind == "duration":
        bounds = [
            f"{word} {getattr(rules.duration, name).ToJsonString()}"
            for name, word in _BOUNDS.items()
            if rules.duration.HasField(name)
        ]
        schema_part.extend([_sentence(", ".join(bounds))] if bounds else [])
    elif kind in LONG_KINDS:
        rule = getattr(rules, kind)
        bounds = [f"{word} {getattr(rule, name)}" for name, word in _BOUNDS.items() if rule.HasField(name)]
        schema_part.extend([_sentence(", ".join(bounds))] if bounds and not _unsigned(rule) else [])
    elif kind == "string" and rules.string.HasField("max_bytes"):
        schema_part.append(f"At most {rules.string.max_bytes} bytes.")
    return schema_part


def is_required(field: FieldDescriptor, rules: FieldRules) -> bool:
    """Tell whether the field is required. Without presence, absent equals zero, so rules against zero count."""
    if rules.required:
        return True
    if rules.ignore == validate_pb2.IGNORE_IF_ZERO_VALUE:
        return False
    if field.is_repeated:
        return rules.repeated.min_items > 0 or rules.map.min_pairs > 0
    kind = rules.WhichOneof("type")
    return kind is not None and not field.has_presence and _refuses_zero(kind, getattr(rules, kind))


def enum_numbers(rules: FieldRules, numbers: list[int]) -> list[int]:
    """Return the allowed numbers of an enum field."""
    allowed, excluded = list(getattr(rules.enum, "in")), set(rules.enum.not_in)
    return [number for number in numbers if number not in excluded and (not allowed or number in allowed)]


def _refuses_zero(kind: str, rule: Any) -> bool:
    allowed, excluded = list(getattr(rule, "in", ())), list(getattr(rule, "not_in", ()))
    zero: Any = {"string": "", "bytes": b""}.get(kind, 0)
    if zero in excluded or (allowed and zero not in allowed):
        return True
    if kind == "string":
        format_name = rule.WhichOneof("well_known")
        return bool(rule.min_len or rule.len or format_name or (rule.pattern and not re.search(rule.pattern, "")))
    if kind == "bytes":
        return bool(rule.min_len or rule.len)
    if kind in {"enum", "bool"}:
        return False
    return bool((rule.HasField("gte") and rule.gte > 0) or (rule.HasField("gt") and rule.gt >= 0))


def _text(rule: validate_pb2.StringRules) -> dict[str, Any]:
    schema_part: dict[str, Any] = {}
    if rule.HasField("len"):
        schema_part |= {"minLength": rule.len, "maxLength": rule.len}
    if rule.min_len:
        schema_part["minLength"] = rule.min_len
    if rule.HasField("max_len"):
        schema_part["maxLength"] = rule.max_len
    if rule.pattern:
        schema_part["pattern"] = rule.pattern
    if getattr(rule, "in"):
        schema_part["enum"] = list(getattr(rule, "in"))
    format_name = rule.WhichOneof("well_known")
    if format_name in _FORMATS:
        schema_part["format"] = _FORMATS[format_name]
    return schema_part


def _bytes(rule: validate_pb2.BytesRules) -> dict[str, Any]:
    # Base64: four characters for three bytes.
    schema_part: dict[str, Any] = {}
    if rule.min_len:
        schema_part["minLength"] = -(-rule.min_len * 4 // 3)
    if rule.HasField("max_len"):
        schema_part["maxLength"] = -(-rule.max_len // 3) * 4
    return schema_part


def _or_nothing(schema_part: dict[str, Any], kind: str) -> dict[str, Any]:
    """Allow the zero value as well. Upper bounds stay outside, because zero satisfies them."""
    upper_bounds: dict[str, Any] = {}
    upper_bounds.update(
        (name, schema_part[name]) for name in ("maxLength", "maximum", "exclusiveMaximum") if name in schema_part
    )
    other_keywords = {name: value for name, value in schema_part.items() if name not in upper_bounds}
    zero = {"const": "" if kind in {"string", "bytes"} else 0}
    return {**upper_bounds, "anyOf": [zero, other_keywords]} if other_keywords else upper_bounds


def _unsigned(rule: Message) -> bool:
    return any(rule.HasField(name) and getattr(rule, name) == 0 for name in ("gte", "gt")) and not any(
        rule.HasField(name) for name in ("lt", "lte")
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
