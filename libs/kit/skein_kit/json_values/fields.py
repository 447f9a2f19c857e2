"""The fields of messages that hold free JSON: a Struct, ListValue or Value `x`, and its exact text `x_json` beside it.

The text is authoritative and stands in every reply; the message beside it has the same numbers as doubles. In a request
either is enough, and both must agree.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact as exact_json
from skein_kit.json_values import structs
from skein_kit.json_values.exact import InvalidJson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import FieldDescriptor

TEXT = "_json"
_WELL_KNOWN = "google.protobuf."
_KINDS: dict[str, tuple[type, str]] = {
    Struct.DESCRIPTOR.full_name: (dict, "an object"),
    ListValue.DESCRIPTOR.full_name: (list, "an array"),
    Value.DESCRIPTOR.full_name: (object, "any value"),
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where free JSON lies in messages of one kind."""

    # Names of the fields `x`.
    pairs: tuple[str, ...]
    # Fields with messages that have such fields somewhere inside.
    parts: tuple[Any, ...]


def complete_json_fields(request: Message) -> None:
    """Check every JSON text of a request, and set the message beside it; names of texts in a mask mean both.

    Raises FieldInvalid for text that no field takes, and for a message that says something else than its text.
    """
    layout = _layout(request.DESCRIPTOR)
    if not (layout.pairs or layout.parts):
        return
    _complete(request, layout, "")
    _name_fields(request)


def fields(**texts: str | None) -> dict[str, Any]:
    """Return, of the JSON texts of a row's objects, what a reply has: each as a Struct and as text; None is unset."""
    return _both(structs.struct, texts)


def list_fields(**texts: str | None) -> dict[str, Any]:
    """Return the same of arrays."""
    return _both(structs.list_value, texts)


def value_fields(**texts: str | None) -> dict[str, Any]:
    """Return the same of any JSON."""
    return _both(structs.any_value, texts)


def write(message: Message, field: str, text: str) -> None:
    """Set a field of a reply and its text to the JSON text of a row."""
    value = exact_json.loads(text)
    _fill(message, field, value)
    setattr(message, field + TEXT, exact_json.canonical(value))


def value_of(message: Message, field: str) -> Any:
    """Return the exact values of a field; None when unset."""
    text: str = getattr(message, field + TEXT, "")
    if text:
        return exact_json.loads(text)
    return structs.value_of(getattr(message, field)) if message.HasField(field) else None


def set_value(message: Message, field: str, value: Any) -> None:
    """Set a field and its text to values. Raises FieldInvalid for what no field takes."""
    try:
        text = exact_json.serialize(value)
    except InvalidJson as invalid:
        raise FieldInvalid(violations=[(field, str(invalid))]) from None
    setattr(message, field + TEXT, text)
    _fill(message, field, value)


def clear(message: Message, field: str) -> None:
    """Clear a field and its text."""
    message.ClearField(field)
    message.ClearField(field + TEXT)


def drop_duplicates_to_fit(message: Message, most_bytes: int) -> None:
    """Leave the text alone of free JSON that has one, where a message with both forms is too large."""
    if message.ByteSize() <= most_bytes:
        return
    for part, name in json_fields_in(message):
        if getattr(part, name + TEXT):
            part.ClearField(name)


def canonical(message: Message) -> None:
    """Leave one of the two forms of each field: the message where it says all, else the text in one spelling."""
    layout = _layout(message.DESCRIPTOR)
    for name in layout.pairs:
        text: str = getattr(message, name + TEXT)
        if not text:
            continue
        exact = exact_json.dumps(exact_json.loads(text), sort_keys=True)
        rough = exact_json.dumps(structs.value_of(getattr(message, name)), sort_keys=True)
        if exact == rough:
            message.ClearField(name + TEXT)
        else:
            setattr(message, name + TEXT, exact)
            message.ClearField(name)
    for _, part in _parts(message, layout):
        canonical(part)


def to_values(message: Message, *, with_texts: bool = True, **options: Any) -> dict[str, Any]:
    """Return a message as JSON, as `json_format.MessageToDict` does with the options, but with exact numbers.

    `with_texts` keeps the fields with JSON text, which say the same once more.
    """
    bare = type(message)()
    bare.CopyFrom(message)
    # Writing a Struct takes longer than reading its text.
    for part, name in json_fields_in(bare):
        if getattr(part, name + TEXT):
            part.ClearField(name)
    values: dict[str, Any] = json_format.MessageToDict(bare, **options)
    keeps_names = bool(options.get("preserving_proto_field_name"))
    _restore(message, values, with_texts=with_texts, keeps_names=keeps_names)
    return values


def from_values(values: Any, message: Message, **options: Any) -> None:
    """Read JSON with exact numbers (`exact_json.loads`) into a message, as `json_format.ParseDict` does.

    Raises its errors, FieldInvalid as `complete_json_fields` does, and InvalidJson for a name that holds half a
    character.
    """
    json_format.ParseDict(prepare_for_parse(values, message.DESCRIPTOR), message, **options)
    complete_json_fields(message)


def prepare_for_parse(values: Any, kind: Any, path: str = "") -> Any:
    """Return JSON with exact numbers as protobuf's parser takes it: rounded, with the exact text beside.

    Raises FieldInvalid for what no field takes; `path` is where the values lie in the request.
    """
    is_well_known = kind.full_name.startswith(_WELL_KNOWN)
    if not is_well_known and isinstance(values, str | list):
        # The parser would take what is in it for names of fields.
        message = f"{path.removesuffix('.') or 'What stands for a message'} should be a JSON object"
        raise json_format.ParseError(message)
    if is_well_known or not isinstance(values, dict):
        return exact_json.to_floats(values)
    names, pairs = _spellings(kind), set(_layout(kind).pairs)
    # A text that is null or empty says nothing.
    values = {
        key: value
        for key, value in values.items()
        if value not in ("", None) or (field := names.get(key)) is None or not is_text(field)
    }
    said = {field.name for key in values if (field := names.get(key)) is not None}
    made: dict[str, Any] = {}
    for key, value in values.items():
        field = names.get(key)
        if field is None:
            # The parser ends with a SystemError at such a name.
            exact_json.check_characters(key)
        if field is None or field.message_type is None:
            made[key] = exact_json.to_floats(value)
        elif field.name in pairs:
            text = _text(field, value, f"{path}{field.name}")
            made[key] = exact_json.to_floats(value)
            if text and field.name + TEXT not in said:
                made[field.name + TEXT] = text
        else:
            made[key] = _prepared_part(value, field, f"{path}{field.name}")
    return made


def json_fields_in(message: Message) -> Iterator[tuple[Message, str]]:
    """Yield every field of free JSON of a message and of those inside, with the message that has it."""
    layout = _layout(message.DESCRIPTOR)
    for name in layout.pairs:
        yield message, name
    for _, part in _parts(message, layout):
        yield from json_fields_in(part)


def json_field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of free JSON that messages of a kind have."""
    return _layout(kind).pairs


def is_text(field: Any) -> bool:
    """Say whether a field is the text beside a field of free JSON."""
    return field.name.removesuffix(TEXT) in json_field_names(field.containing_type) and field.name.endswith(TEXT)


def _both(read: Any, texts: dict[str, str | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in texts.items():
        if text is not None:
            value = exact_json.loads(text)
            found[name] = read(value)
            found[name + TEXT] = exact_json.canonical(value)
    return found


def _complete(message: Message, layout: _Layout, path: str) -> None:
    for name in layout.pairs:
        text: str = getattr(message, name + TEXT)
        if text:
            _complete_pair(message, name, text, path)
    for place, part in _parts(message, layout):
        _complete(part, _layout(part.DESCRIPTOR), f"{path}{place}.")


def _complete_pair(message: Message, name: str, text: str, path: str) -> None:
    try:
        value = exact_json.parse(text)
    except InvalidJson as invalid:
        raise FieldInvalid(violations=[(f"{path}{name}{TEXT}", str(invalid))]) from None
    kind, wanted = _KINDS[_kind_of(message, name)]
    if not isinstance(value, kind):
        raise FieldInvalid(violations=[(f"{path}{name}{TEXT}", f"is not the JSON of {wanted}")])
    if not message.HasField(name):
        _fill(message, name, value)
        return
    try:
        is_same = structs.equal_as_doubles(getattr(message, name), value)
    except InvalidJson as invalid:
        raise FieldInvalid(violations=[(f"{path}{name}", str(invalid))]) from None
    if not is_same:
        raise FieldInvalid(
            violations=[
                (f"{path}{name}", f"says something else than {name}{TEXT}; send one of them, or the same in both"),
                (f"{path}{name}{TEXT}", f"says something else than {name}; send one of them, or the same in both"),
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
            named = dict.fromkeys(path.removesuffix(TEXT) if path in texts else path for path in mask.paths)
            mask.paths[:] = list(named)


@functools.lru_cache(maxsize=1024)
def _names(kind: Any) -> frozenset[str]:
    """Return the names of the fields of free JSON in a request and in the messages that it has."""
    inner = (part.message_type for part in _layout(kind).parts)
    return frozenset(_layout(kind).pairs).union(*(_layout(each).pairs for each in inner))


def _text(field: Any, value: Any, path: str) -> str:
    """Return the text of a JSON value for a field; empty where protobuf's parser is to speak."""
    kind, _ = _KINDS[field.message_type.full_name]
    if not isinstance(value, kind):
        return ""
    try:
        return exact_json.serialize(value)
    except InvalidJson as invalid:
        raise FieldInvalid(violations=[(path, str(invalid))]) from None


def _prepared_part(value: Any, field: Any, path: str) -> Any:
    kind: Any = field.message_type
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"].message_type
        if inner is None or not isinstance(value, dict):
            return exact_json.to_floats(value)
        return {key: prepare_for_parse(each, inner, f"{path}.{key}.") for key, each in value.items()}
    if field.is_repeated and isinstance(value, list):
        return [prepare_for_parse(each, kind, f"{path}[{index}].") for index, each in enumerate(value)]
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
        found = values.get(field.name, values.get(field.json_name))
        if not found:
            continue
        held = getattr(message, field.name)
        if field.message_type.GetOptions().map_entry:
            for key, each in held.items():
                _restore(each, found[str(key)], with_texts=with_texts, keeps_names=keeps_names)
        elif field.is_repeated:
            for each, inner in zip(held, found, strict=True):
                _restore(each, inner, with_texts=with_texts, keeps_names=keeps_names)
        else:
            _restore(held, found, with_texts=with_texts, keeps_names=keeps_names)


def _parts(message: Message, layout: _Layout) -> Iterator[tuple[str, Message]]:
    """Yield the messages inside of one that may have free JSON, each with its place."""
    for field in layout.parts:
        if field.message_type.GetOptions().map_entry:
            for key, each in getattr(message, field.name).items():
                yield f"{field.name}[{key}]", each
        elif field.is_repeated:
            for index, each in enumerate(getattr(message, field.name)):
                yield f"{field.name}[{index}]", each
        elif message.HasField(field.name):
            yield field.name, getattr(message, field.name)


@functools.lru_cache(maxsize=1024)
def _layout(kind: Any) -> _Layout:
    return _Layout(
        pairs=_pairs(kind),
        parts=tuple(field for field in kind.fields if (inner := _inner(field)) is not None and _holds_json(inner)),
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
def _holds_json(kind: Any) -> bool:
    """Say whether messages of a kind have free JSON anywhere inside."""
    looked_at: set[str] = set()
    left: list[Any] = [kind]
    while left:
        found = left.pop()
        if found.full_name in looked_at:
            continue
        looked_at.add(found.full_name)
        if _pairs(found):
            return True
        left += [inner for field in found.fields if (inner := _inner(field)) is not None]
    return False


@functools.lru_cache(maxsize=1024)
def _spellings(kind: Any) -> dict[str, FieldDescriptor]:
    return {name: field for field in kind.fields for name in (field.name, field.json_name)}
