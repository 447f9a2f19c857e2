"""protovalidate's rules of one field as keywords of JSON Schema, and what no keyword can say in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buf.validate.validate_pb2 import FieldRules
    from google.protobuf.message import Message

# What protovalidate calls a form, and what JSON Schema calls it.
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
# The types of the stubs do not know what an extension is.
_FIELD: Any = validate_pb2.field
NONE = validate_pb2.FieldRules()
LONG_KINDS = frozenset({"int64", "uint64", "sint64", "fixed64", "sfixed64"})


def rules_of(field: FieldDescriptor) -> FieldRules:
    """Return what the contract demands of a field: nothing but its being ignored, where it is."""
    rules: FieldRules = field.GetOptions().Extensions[_FIELD]
    ignored = rules.ignore == validate_pb2.IGNORE_ALWAYS
    return validate_pb2.FieldRules(ignore=rules.ignore) if ignored else rules


def keywords(rules: FieldRules) -> dict[str, Any]:
    """Return the limits of one value: of a field that is not repeated, of an item, of a key."""
    kind = rules.WhichOneof("type")
    if kind is None:
        return {}
    rule = getattr(rules, kind)
    if kind == "string":
        found = _text(rule)
    elif kind == "bytes":
        found = _bytes(rule)
    elif kind in LONG_KINDS:
        # These travel as strings, of which a number's bounds say nothing.
        found = {"pattern": "^[0-9]{1,20}$"} if _unsigned(rule) else {}
    elif kind in {"enum", "bool", "any", "duration", "field_mask", "timestamp", "repeated", "map"}:
        found = {}
    else:
        found = {keyword: getattr(rule, name) for name, keyword in _NUMBERS.items() if rule.HasField(name)}
        if getattr(rule, "in"):
            found["enum"] = list(getattr(rule, "in"))
    return _or_nothing(found, kind) if rules.ignore == validate_pb2.IGNORE_IF_ZERO_VALUE else found


def sizes(rules: FieldRules) -> dict[str, Any]:
    """Return how many items or pairs there may be."""
    found: dict[str, Any] = {}
    for rule, name, keyword in (
        (rules.repeated, "min_items", "minItems"),
        (rules.repeated, "max_items", "maxItems"),
        (rules.map, "min_pairs", "minProperties"),
        (rules.map, "max_pairs", "maxProperties"),
    ):
        if rule.HasField(name):
            found[keyword] = getattr(rule, name)
    if rules.repeated.unique:
        found["uniqueItems"] = True
    return found


def constraint_sentences(rules: FieldRules) -> list[str]:
    """Return what no keyword says, a sentence each."""
    found = [_sentence(rule.message) for rule in rules.cel if rule.message]
    kind = rules.WhichOneof("type")
    if kind == "duration":
        bounds = [
            f"{word} {getattr(rules.duration, name).ToJsonString()}"
            for name, word in _BOUNDS.items()
            if rules.duration.HasField(name)
        ]
        found.extend([_sentence(", ".join(bounds))] if bounds else [])
    elif kind in LONG_KINDS:
        rule = getattr(rules, kind)
        bounds = [f"{word} {getattr(rule, name)}" for name, word in _BOUNDS.items() if rule.HasField(name)]
        found.extend([_sentence(", ".join(bounds))] if bounds and not _unsigned(rule) else [])
    elif kind == "string" and rules.string.HasField("max_bytes"):
        found.append(f"At most {rules.string.max_bytes} bytes.")
    return found


def is_required(field: FieldDescriptor, rules: FieldRules) -> bool:
    """Say whether a message without the field is refused: absent and zero are one where a field has no presence."""
    if rules.required:
        return True
    if rules.ignore == validate_pb2.IGNORE_IF_ZERO_VALUE:
        return False
    if field.is_repeated:
        return rules.repeated.min_items > 0 or rules.map.min_pairs > 0
    kind = rules.WhichOneof("type")
    return kind is not None and not field.has_presence and _refuses_zero(kind, getattr(rules, kind))


def enum_numbers(rules: FieldRules, numbers: list[int]) -> list[int]:
    """Return the values that an enum field may have."""
    allowed, refused = list(getattr(rules.enum, "in")), set(rules.enum.not_in)
    return [number for number in numbers if number not in refused and (not allowed or number in allowed)]


def _refuses_zero(kind: str, rule: Any) -> bool:
    allowed, refused = list(getattr(rule, "in", ())), list(getattr(rule, "not_in", ()))
    zero: Any = {"string": "", "bytes": b""}.get(kind, 0)
    if zero in refused or (allowed and zero not in allowed):
        return True
    if kind == "string":
        form = rule.WhichOneof("well_known")
        return bool(rule.min_len or rule.len or form or (rule.pattern and not re.search(rule.pattern, "")))
    if kind == "bytes":
        return bool(rule.min_len or rule.len)
    if kind in {"enum", "bool"}:
        return False
    return bool((rule.HasField("gte") and rule.gte > 0) or (rule.HasField("gt") and rule.gt >= 0))


def _text(rule: validate_pb2.StringRules) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rule.HasField("len"):
        found |= {"minLength": rule.len, "maxLength": rule.len}
    if rule.min_len:
        found["minLength"] = rule.min_len
    if rule.HasField("max_len"):
        found["maxLength"] = rule.max_len
    if rule.pattern:
        found["pattern"] = rule.pattern
    if getattr(rule, "in"):
        found["enum"] = list(getattr(rule, "in"))
    form = rule.WhichOneof("well_known")
    if form in _FORMATS:
        found["format"] = _FORMATS[form]
    return found


def _bytes(rule: validate_pb2.BytesRules) -> dict[str, Any]:
    # Four characters stand for three bytes.
    found: dict[str, Any] = {}
    if rule.min_len:
        found["minLength"] = -(-rule.min_len * 4 // 3)
    if rule.HasField("max_len"):
        found["maxLength"] = -(-rule.max_len // 3) * 4
    return found


def _or_nothing(found: dict[str, Any], kind: str) -> dict[str, Any]:
    """Let the value be zero as well, which stands for none; a longest length holds for it anyway."""
    kept: dict[str, Any] = {}
    kept.update((name, found[name]) for name in ("maxLength", "maximum", "exclusiveMaximum") if name in found)
    rest = {name: value for name, value in found.items() if name not in kept}
    zero = {"const": "" if kind in {"string", "bytes"} else 0}
    return {**kept, "anyOf": [zero, rest]} if rest else kept


def _unsigned(rule: Message) -> bool:
    return any(rule.HasField(name) and getattr(rule, name) == 0 for name in ("gte", "gt")) and not any(
        rule.HasField(name) for name in ("lt", "lte")
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
