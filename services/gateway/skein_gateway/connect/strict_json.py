"""JSON of requests before protobuf's parser reads it: one value for each field, and an object for each message.

The parser takes an empty list or text for an empty message, and the last of two spellings of a field. Either is a
mistake of the caller's that would change what is selected or stored. Knows no server.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact
from skein_kit.json_values import fields as json_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

# Messages with a JSON form of their own; the parser knows it.
_WELL_KNOWN = "google.protobuf."
_NOT_AN_OBJECT = "is not a JSON object"


class JsonObject(dict[str, Any]):
    """A JSON object, and a key that it has more than once; None for none."""

    repeated: str | None = None


def read(text: str, kind: type[Message], max_depth: int) -> Any:
    """Return the values of a JSON text that is to be a message of this kind. Raises FieldInvalid.

    Numbers inside of free JSON go into the text beside it, exactly as they are written; the values have floats.
    What is nested deeper than `max_depth` levels is not looked at: protobuf's parser refuses it.
    """
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_int=exact.integer, parse_float=exact.decimal)
    except (ValueError, RecursionError) as error:
        raise FieldInvalid(violations=[("", f"is not JSON: {error}")]) from None
    _check_message(found, kind.DESCRIPTOR, "", max_depth)
    try:
        return json_fields.prepare_for_parse(found, kind.DESCRIPTOR)
    except RecursionError:
        raise FieldInvalid(violations=[("", "is nested too deeply")]) from None


def _object(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        found.repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return found


def _check_message(value: Any, kind: Any, path: str, depth: int) -> None:
    if kind.full_name.startswith(_WELL_KNOWN):
        _check_plain(value, path, depth)
        return
    if not isinstance(value, JsonObject):
        raise FieldInvalid(violations=[(path, _NOT_AN_OBJECT)])
    fields = _fields(kind)
    if value.repeated is not None:
        named = fields.get(value.repeated)
        _refuse_repeated(path, value.repeated if named is None else named.name, [value.repeated])
    spelled: dict[int, str] = {}
    for key, each in value.items():
        field = fields.get(key)
        # The parser says which fields there are.
        if field is None:
            continue
        if (other := spelled.setdefault(field.number, key)) != key:
            _refuse_repeated(path, field.name, [other, key])
        if each is not None and field.message_type is not None and depth > 0:
            _check_field(each, field, _joined(path, field.name), depth - 1)


def _check_field(value: Any, field: FieldDescriptor, path: str, depth: int) -> None:
    kind: Any = field.message_type
    if kind.GetOptions().map_entry:
        _check_map(value, kind.fields_by_name["value"].message_type, path, depth)
    elif not field.is_repeated:
        _check_message(value, kind, path, depth)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_message(each, kind, f"{path}[{index}]", depth)


def _check_map(value: Any, kind: Any, path: str, depth: int) -> None:
    if not isinstance(value, JsonObject):
        raise FieldInvalid(violations=[(path, _NOT_AN_OBJECT)])
    if value.repeated is not None:
        _refuse_repeated(path, value.repeated, [value.repeated])
    if kind is not None:
        for key, each in value.items():
            _check_message(each, kind, _joined(path, key), depth)


def _check_plain(value: Any, path: str, depth: int) -> None:
    """Check what has no fields: here a key may stand for anything, but once."""
    if depth <= 0:
        return
    if isinstance(value, JsonObject):
        if value.repeated is not None:
            _refuse_repeated(path, value.repeated, [value.repeated])
        for key, each in value.items():
            _check_plain(each, _joined(path, key), depth - 1)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_plain(each, f"{path}[{index}]", depth - 1)


@functools.cache
def _fields(kind: Any) -> dict[str, FieldDescriptor]:
    """Return the fields by either spelling."""
    return {name: field for field in kind.fields for name in (field.name, field.json_name)}


def _refuse_repeated(path: str, name: str, keys: Sequence[str]) -> None:
    said = " and ".join(keys) if len(keys) > 1 else f"{keys[0]} twice"
    raise FieldInvalid(violations=[(_joined(path, name), f"is there more than once: {said}")])


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
