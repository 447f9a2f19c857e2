"""JSON fields of messages: a Struct, ListValue or Value `x`, and its exact JSON text in the field `x_json`.

The text is authoritative, and every reply has it; the numbers of `x` are rounded to doubles. A request sets one of the
two, or both with equal values.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from skein_kit.admission.processor_time import with_pauses
from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact as exact_json
from skein_kit.json_values import structs
from skein_kit.json_values.exact import InvalidJson

TEXT = "_json"
_WELL_KNOWN = "google.protobuf."
_KINDS: dict[str, tuple[type, str]] = {
    Struct.DESCRIPTOR.full_name: (dict, "an object"),
    ListValue.DESCRIPTOR.full_name: (list, "an array"),
    Value.DESCRIPTOR.full_name: (object, "any value"),
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """The JSON fields of one message type."""

    # Names of the fields `x`.
    pairs: tuple[str, ...]
    # Fields with messages that have JSON fields at any depth.
    parts: tuple[Any, ...]


def complete_json_fields(request: Message) -> None:
    """Validate every JSON text of a request, and set its `x` from it. In a mask `x_json` becomes `x`.

    Raises FieldInvalid for text that no field accepts, and when `x` and `x_json` differ.
    """
    layout = _layout(request.DESCRIPTOR)
    if not (layout.pairs or layout.parts):
        return
    _complete(request, layout, "")
    _name_fields(request)


def fields(**texts: str | None) -> dict[str, Any]:
    """Return the fields of a reply for the JSON objects of a row: each as a Struct and as text; None is unset."""
    return _json_fields(structs.struct, texts)


def list_fields(**texts: str | None) -> dict[str, Any]:
    """Return the fields of a reply for the JSON arrays of a row."""
    return _json_fields(structs.list_value, texts)


def value_fields(**texts: str | None) -> dict[str, Any]:
    """Return the fields of a reply for any JSON of a row."""
    return _json_fields(structs.any_value, texts)


def write(message: Message, field: str, text: str) -> None:
    """Set `x` and `x_json` of a reply from the JSON text of a row."""
    value = exact_json.loads(text)
    _fill(message, field, value)
    setattr(message, field + TEXT, exact_json.canonical(value))


def value_of(message: Message, field: str) -> Any:
    """Return the exact value of a field; None when unset."""
    text: str = getattr(message, field + TEXT, "")
    if text:
        return exact_json.loads(text)
    return structs.value_of(getattr(message, field)) if message.HasField(field) else None


def set_value(message: Message, field: str, value: Any) -> None:
    """Set `x` and `x_json` to a value. Raises FieldInvalid for a value that no field accepts."""
    try:
        text = exact_json.serialize(value)
    except InvalidJson as error:
        raise FieldInvalid(violations=[(field, str(error))]) from None
    setattr(message, field + TEXT, text)
    _fill(message, field, value)


def clear(message: Message, field: str) -> None:
    """Clear `x` and `x_json`."""
    message.ClearField(field)
    message.ClearField(field + TEXT)


def drop_duplicates_to_fit(message: Message, max_bytes: int) -> None:
    """Clear `x` of every field with `x_json` if the message is larger than `max_bytes`."""
    if message.ByteSize() <= max_bytes:
        return
    for part, name in json_fields_in(message):
        if getattr(part, name + TEXT):
            part.ClearField(name)


def canonicalize(message: Message) -> None:
    """Keep one form of each JSON field, so that equal messages have equal bytes: `x` if it is exact, else `x_json`."""
    layout = _layout(message.DESCRIPTOR)
    for name in layout.pairs:
        text: str = getattr(message, name + TEXT)
        if not text:
            continue
        exact = exact_json.dumps(exact_json.loads(text), sort_keys=True)
        rounded = exact_json.dumps(structs.value_of(getattr(message, name)), sort_keys=True)
        if exact == rounded:
            message.ClearField(name + TEXT)
        else:
            setattr(message, name + TEXT, exact)
            message.ClearField(name)
    for _, part in _parts(message, layout):
        canonicalize(part)


def to_values(message: Message, *, with_texts: bool = True, **options: Any) -> dict[str, Any]:
    """Return a message as JSON values: `json_format.MessageToDict` with these options, but with exact numbers.

    `with_texts` keeps the fields `x_json` beside the values of `x`.
    """
    keeps_names = bool(options.get("preserving_proto_field_name"))
    stripped = type(message)()
    stripped.CopyFrom(message)
    # One by one, because large responses are lists of messages, and a thread may pause between them.
    lists: dict[str, Any] = {}
    for field, items in message.ListFields():
        if field.is_repeated and (kind := field.message_type) is not None and not kind.GetOptions().map_entry:
            if kind.full_name.startswith(_WELL_KNOWN):
                continue
            stripped.ClearField(field.name)
            name = field.name if keeps_names else field.json_name
            lists[name] = [to_values(item, with_texts=with_texts, **options) for item in with_pauses(items)]
    # Converting a Struct takes longer than parsing its text.
    for part, name in json_fields_in(stripped):
        if getattr(part, name + TEXT):
            part.ClearField(name)
    values: dict[str, Any] = json_format.MessageToDict(stripped, **options)
    _restore(stripped, values, with_texts=with_texts, keeps_names=keeps_names)
    if not lists:
        return values
    fields = _spellings(message.DESCRIPTOR)
    return dict(sorted({**values, **lists}.items(), key=lambda member: fields[member[0]].number))


def from_values(values: Any, message: Message, **options: Any) -> None:
    """Parse JSON values with exact numbers (from `exact_json.loads`) into a message, as `json_format.ParseDict` does.

    Raises its errors, FieldInvalid as `complete_json_fields` does, and InvalidJson for half of a surrogate pair in a
    name.
    """
    json_format.ParseDict(prepare_for_parse(values, message.DESCRIPTOR), message, **options)
    complete_json_fields(message)


def prepare_for_parse(values: Any, kind: Any, path: str = "") -> Any:
    """Return JSON values for protobuf's parser: rounded numbers in `x`, and the exact text in `x_json`.

    `path` is the path of the values in the request. Raises FieldInvalid for a value that no field accepts.
    """
    is_well_known = kind.full_name.startswith(_WELL_KNOWN)
    if not is_well_known and isinstance(values, str | list):
        # The parser would take its items for names of fields.
        message = f"{path.removesuffix('.') or 'A message'} should be a JSON object"
        raise json_format.ParseError(message)
    if is_well_known or not isinstance(values, dict):
        return exact_json.to_floats(values)
    names, pairs = _spellings(kind), set(_layout(kind).pairs)
    # A text that is null or empty is unset.
    values = {
        key: value
        for key, value in values.items()
        if value not in ("", None) or (field := names.get(key)) is None or not is_text(field)
    }
    present_names = {field.name for key in values if (field := names.get(key)) is not None}
    prepared: dict[str, Any] = {}
    for key, value in values.items():
        field = names.get(key)
        if field is None:
            # The parser ends with a SystemError at such a name.
            exact_json.check_characters(key)
        if field is None or field.message_type is None:
            prepared[key] = exact_json.to_floats(value)
        elif field.name in pairs:
            text = _text(field, value, f"{path}{field.name}")
            prepared[key] = exact_json.to_floats(value)
            if text and field.name + TEXT not in present_names:
                prepared[field.name + TEXT] = text
        else:
            prepared[key] = _prepare_part(value, field, f"{path}{field.name}")
    return prepared


def json_fields_in(message: Message) -> Iterator[tuple[Message, str]]:
    """Yield the message and the name of every JSON field in a message, at any depth."""
    layout = _layout(message.DESCRIPTOR)
    for name in layout.pairs:
        yield message, name
    for _, part in _parts(message, layout):
        yield from json_fields_in(part)


def json_field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the JSON fields of a message type."""
    return _layout(kind).pairs


def is_text(field: Any) -> bool:
    """Return whether a field is the text `x_json` of a JSON field."""
    return field.name.removesuffix(TEXT) in json_field_names(field.containing_type) and field.name.endswith(TEXT)


def _json_fields(read: Any, texts: dict[str, str | None]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, text in texts.items():
        if text is not None:
            value = exact_json.loads(text)
            result[name] = read(value)
            result[name + TEXT] = exact_json.canonical(value)
    return result


def _complete(message: Message, layout: _Layout, path: str) -> None:
    for name in layout.pairs:
        text: str = getattr(message, name + TEXT)
        if text:
            _complete_pair(message, name, text, path)
    for part_path, part in _parts(message, layout):
        _complete(part, _layout(part.DESCRIPTOR), f"{path}{part_path}.")


def _complete_pair(message: Message, name: str, text: str, path: str) -> None:
    try:
        value = exact_json.parse(text)
    except InvalidJson as error:
        raise FieldInvalid(violations=[(f"{path}{name}{TEXT}", str(error))]) from None
    kind, expected = _KINDS[_kind_of(message, name)]
    if not isinstance(value, kind):
        raise FieldInvalid(violations=[(f"{path}{name}{TEXT}", f"is not the JSON of {expected}")])
    if not message.HasField(name):
        _fill(message, name, value)
        return
    try:
        is_same = structs.equal_as_doubles(getattr(message, name), value)
    except InvalidJson as error:
        raise FieldInvalid(violations=[(f"{path}{name}", str(error))]) from None
    if not is_same:
        raise FieldInvalid(
            violations=[
                (f"{path}{name}", f"differs from {name}{TEXT}; send one of them, or the same in both"),
                (f"{path}{name}{TEXT}", f"differs from {name}; send one of them, or the same in both"),
            ]
        )


def _kind_of(message: Message, name: str) -> str:
    field: Any = message.DESCRIPTOR.fields_by_name[name]
    return str(field.message_type.full_name)


def _fill(message: Message, name: str, value: Any) -> None:
    structs.write(getattr(message, name), value)


def _name_fields(request: Message) -> None:
    """Turn `data_json` in the masks of a request into `data`."""
    for field in request.DESCRIPTOR.fields:
        kind = field.message_type
        if kind is None or kind.full_name != FieldMask.DESCRIPTOR.full_name or field.is_repeated:
            continue
        mask = getattr(request, field.name)
        texts = {name + TEXT for name in _names(request.DESCRIPTOR)}
        if not texts.isdisjoint(mask.paths):
            paths = dict.fromkeys(path.removesuffix(TEXT) if path in texts else path for path in mask.paths)
            mask.paths[:] = list(paths)


@functools.lru_cache(maxsize=1024)
def _names(kind: Any) -> frozenset[str]:
    """Return the names of the JSON fields of a request type and of the messages in its fields."""
    inner = (part.message_type for part in _layout(kind).parts)
    return frozenset(_layout(kind).pairs).union(*(_layout(inner_kind).pairs for inner_kind in inner))


def _text(field: Any, value: Any, path: str) -> str:
    """Return the JSON text of a value for a field; empty for a wrong type, which protobuf's parser refuses."""
    kind, _ = _KINDS[field.message_type.full_name]
    if not isinstance(value, kind):
        return ""
    try:
        return exact_json.serialize(value)
    except InvalidJson as error:
        raise FieldInvalid(violations=[(path, str(error))]) from None


def _prepare_part(value: Any, field: Any, path: str) -> Any:
    kind: Any = field.message_type
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"].message_type
        if inner is None or not isinstance(value, dict):
            return exact_json.to_floats(value)
        return {key: prepare_for_parse(item, inner, f"{path}.{key}.") for key, item in value.items()}
    if field.is_repeated and isinstance(value, list):
        return [prepare_for_parse(item, kind, f"{path}[{index}].") for index, item in enumerate(value)]
    return prepare_for_parse(value, kind, f"{path}.")


def _restore(message: Message, values: dict[str, Any], *, with_texts: bool, keeps_names: bool) -> None:
    layout = _layout(message.DESCRIPTOR)
    by_name: Any = message.DESCRIPTOR.fields_by_name
    for name in layout.pairs:
        field, text = by_name[name], by_name[name + TEXT]
        if message.HasField(name) or getattr(message, text.name):
            values[name if keeps_names else field.json_name] = value_of(message, name)
        if not with_texts:
            values.pop(text.name, None)
            values.pop(text.json_name, None)
    for field in layout.parts:
        inner = values.get(field.name, values.get(field.json_name))
        if not inner:
            continue
        part = getattr(message, field.name)
        if field.message_type.GetOptions().map_entry:
            for key, inner_part in part.items():
                _restore(inner_part, inner[str(key)], with_texts=with_texts, keeps_names=keeps_names)
        elif field.is_repeated:
            for inner_part, item in zip(part, inner, strict=True):
                _restore(inner_part, item, with_texts=with_texts, keeps_names=keeps_names)
        else:
            _restore(part, inner, with_texts=with_texts, keeps_names=keeps_names)


def _parts(message: Message, layout: _Layout) -> Iterator[tuple[str, Message]]:
    """Yield the messages in a message that may have JSON fields, each with its path."""
    for field in layout.parts:
        if field.message_type.GetOptions().map_entry:
            for key, part in getattr(message, field.name).items():
                yield f"{field.name}[{key}]", part
        elif field.is_repeated:
            for index, part in enumerate(getattr(message, field.name)):
                yield f"{field.name}[{index}]", part
        elif message.HasField(field.name):
            yield field.name, getattr(message, field.name)


@functools.lru_cache(maxsize=1024)
def _layout(kind: Any) -> _Layout:
    return _Layout(
        pairs=_pairs(kind),
        parts=tuple(field for field in kind.fields if (inner := _inner(field)) is not None and _has_json(inner)),
    )


def _pairs(kind: Any) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in kind.fields
        if field.message_type is not None
        and field.message_type.full_name in _KINDS
        and not field.is_repeated
        and field.name + TEXT in kind.fields_by_name
    )


def _inner(field: Any) -> Any:
    kind: Any = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        kind = kind.fields_by_name["value"].message_type
    return None if kind is None or kind.full_name.startswith(_WELL_KNOWN) else kind


@functools.lru_cache(maxsize=1024)
def _has_json(kind: Any) -> bool:
    """Return whether a message type has JSON fields at any depth."""
    visited: set[str] = set()
    pending: list[Any] = [kind]
    while pending:
        descriptor = pending.pop()
        if descriptor.full_name in visited:
            continue
        visited.add(descriptor.full_name)
        if _pairs(descriptor):
            return True
        pending += [inner for field in descriptor.fields if (inner := _inner(field)) is not None]
    return False


@functools.lru_cache(maxsize=1024)
def _spellings(kind: Any) -> dict[str, FieldDescriptor]:
    return {name: field for field in kind.fields for name in (field.name, field.json_name)}
