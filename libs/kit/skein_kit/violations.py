"""Texts of violations: the invalid fields of a request. Knows no transport and no status."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from buf.validate import validate_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import protovalidate
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

MAX_FIELD_CHARACTERS = 255
MAX_DESCRIPTION_CHARACTERS = 1000
# gRPC carries the message percent-encoded beside the details, in headers of 8 KiB together.
_MAX_EXPLANATION_BYTES = 1100
# The stubs' types do not know extensions.
_FIELD: Any = validate_pb2.field
_SUBJECT = re.compile(r"^value (?=is |must |does )")


def truncate_violations(violations: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return violations, each cut to the length that a status can carry."""
    return tuple((field[:MAX_FIELD_CHARACTERS], text[:MAX_DESCRIPTION_CHARACTERS]) for field, text in violations)


def format_violations(violations: Sequence[tuple[str, str]], metadata: Mapping[str, str] | None = None) -> str:
    """Return the text to append to an error's message: each field with its violation, then the metadata.

    It starts with a space, or is empty without violations and metadata. Violations that do not fit are counted.
    """
    parts = [_part(field, text) for field, text in violations]
    parts += [f"{name}: {value}" for name, value in (metadata or {}).items()]
    if not parts:
        return ""
    included = parts[:1]
    for part in parts[1:]:
        if _size("; ".join([*included, part])) > _MAX_EXPLANATION_BYTES:
            break
        included.append(part)
    omitted_count = len(parts) - len(included)
    return f" {'; '.join(included)}{f'; and {omitted_count} more' if omitted_count else ''}."


def unstated_violations(message: str, violations: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the violations that the message does not contain; services of older versions omit them."""
    return [(field, text) for field, text in violations if text.removesuffix(".") not in message]


def strip_violations(message: str, violations: Sequence[tuple[str, str]]) -> str:
    """Return the message without its violations, for a reader who gets them in another form."""
    start = message.find(f" {_part(*violations[0])}") if violations else -1
    return message if start < 0 else message[:start]


def violation_description(violation: protovalidate.Violation, request: Descriptor) -> str:
    """Return the description of a protovalidate violation; for an enum, with the valid names."""
    text = _SUBJECT.sub("", violation.proto.message)
    rule = violation.proto.rule_id
    field = _field_of(violation, request)
    if field is None or field.enum_type is None or not (rule == "required" or rule.startswith("enum.")):
        return text
    return f"must be one of {', '.join(enum_value_names(field))}"


def enum_value_names(field: FieldDescriptor) -> list[str]:
    """Return the valid names of an enum field: without UNSPECIFIED and those that a rule excludes."""
    rules = field.GetOptions().Extensions[_FIELD]
    rule = rules.repeated.items.enum if field.is_repeated else rules.enum
    allowed, excluded = set(getattr(rule, "in")), {0, *rule.not_in}
    enum = field.enum_type
    numbers = (value for value in (enum.values if enum else ()) if value.number not in excluded)
    return [value.name for value in numbers if not allowed or value.number in allowed]


def _field_of(violation: protovalidate.Violation, request: Descriptor) -> FieldDescriptor | None:
    elements = violation.proto.field.elements if violation.proto.field is not None else ()
    kind: Descriptor | None = request
    field: FieldDescriptor | None = None
    for element in elements:
        field = None if kind is None else kind.fields_by_number.get(element.field_number)
        kind = None if field is None else _value_type(field)
    return field


def _value_type(field: FieldDescriptor) -> Descriptor | None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return field.message_type.fields_by_name["value"].message_type
    return field.message_type


def _part(field: str, text: str) -> str:
    violation = f"{field}: {text}" if field else text
    return _cut(violation.removesuffix("."))


def _size(text: str) -> int:
    """Return the bytes of a text as gRPC encodes it: three for each byte that is not ASCII."""
    return sum(1 if letter.isascii() else 3 * len(letter.encode()) for letter in text)


def _cut(text: str) -> str:
    if _size(text) <= _MAX_EXPLANATION_BYTES:
        return text
    return text[: _MAX_EXPLANATION_BYTES if text.isascii() else _MAX_EXPLANATION_BYTES // 12]
