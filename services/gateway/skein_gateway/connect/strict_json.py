"""Checks request JSON before protobuf's parser: no duplicate field, and an object for each message.

The parser accepts an empty list or text as an empty message, and keeps the last of two spellings of a field. Both are
mistakes that would silently change what a call selects or stores. Knows no server.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact
from skein_kit.json_values import fields as json_fields

# Messages with a JSON form of their own, which the parser checks.
_WELL_KNOWN = "google.protobuf."
_NOT_AN_OBJECT = "must be a JSON object"


class JsonObject(dict[str, Any]):
    """A JSON object with one of its duplicate keys, or None."""

    repeated: str | None = None


def read(text: str, kind: type[Message], max_depth: int) -> Any:
    """Parse the JSON text of a message of this type. Raises FieldInvalid.

    Numbers inside Struct fields go unchanged into the text field beside them; the returned values hold floats.
    Levels below `max_depth` stay unchecked: protobuf's parser refuses them.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=exact.integer, parse_float=exact.decimal)
    except (ValueError, RecursionError) as error:
        raise FieldInvalid(violations=[("", f"is not JSON: {error}")]) from None
    _check_message(value, kind.DESCRIPTOR, "", max_depth)
    try:
        return json_fields.prepare_for_parse(value, kind.DESCRIPTOR)
    except RecursionError:
        raise FieldInvalid(violations=[("", "is nested too deeply")]) from None


def _object(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    value = JsonObject(pairs)
    if len(value) < len(pairs):
        value.repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return value


def _check_message(value: Any, kind: Any, path: str, depth: int) -> None:
    if kind.full_name.startswith(_WELL_KNOWN):
        _check_plain(value, path, depth)
        return
    if not isinstance(value, JsonObject):
        raise FieldInvalid(violations=[(path, _NOT_AN_OBJECT)])
    fields = _fields(kind)
    if value.repeated is not None:
        repeated_field = fields.get(value.repeated)
        _refuse_repeated(path, value.repeated if repeated_field is None else repeated_field.name, [value.repeated])
    spelled: dict[int, str] = {}
    for key, item in value.items():
        field = fields.get(key)
        # protobuf's parser reports unknown fields.
        if field is None:
            continue
        if (other := spelled.setdefault(field.number, key)) != key:
            _refuse_repeated(path, field.name, [other, key])
        if item is not None and field.message_type is not None and depth > 0:
            _check_field(item, field, _joined(path, field.name), depth - 1)


def _check_field(value: Any, field: FieldDescriptor, path: str, depth: int) -> None:
    kind: Any = field.message_type
    if kind.GetOptions().map_entry:
        _check_map(value, kind.fields_by_name["value"].message_type, path, depth)
    elif not field.is_repeated:
        _check_message(value, kind, path, depth)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_message(item, kind, f"{path}[{index}]", depth)


def _check_map(value: Any, kind: Any, path: str, depth: int) -> None:
    if not isinstance(value, JsonObject):
        raise FieldInvalid(violations=[(path, _NOT_AN_OBJECT)])
    if value.repeated is not None:
        _refuse_repeated(path, value.repeated, [value.repeated])
    if kind is not None:
        for key, item in value.items():
            _check_message(item, kind, _joined(path, key), depth)


def _check_plain(value: Any, path: str, depth: int) -> None:
    """Check free JSON, whose keys may have any name but must be unique."""
    if depth <= 0:
        return
    if isinstance(value, JsonObject):
        if value.repeated is not None:
            _refuse_repeated(path, value.repeated, [value.repeated])
        for key, item in value.items():
            _check_plain(item, _joined(path, key), depth - 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_plain(item, f"{path}[{index}]", depth - 1)


@functools.cache
def _fields(kind: Any) -> dict[str, FieldDescriptor]:
    """Return the fields by both spellings of their names."""
    return {name: field for field in kind.fields for name in (field.name, field.json_name)}


def _refuse_repeated(path: str, name: str, keys: Sequence[str]) -> None:
    message = " and ".join(keys) if len(keys) > 1 else f"{keys[0]} twice"
    raise FieldInvalid(violations=[(_joined(path, name), f"occurs more than once: {message}")])


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
