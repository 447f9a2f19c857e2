"""Names of a request in one form of Unicode, so that one name is not two: ids, keys, tags, labels.

The proto says which texts are names. Content stays as it was written; searches compare it in one form. Settings and
tokens stay too: they are secrets, or the texts of other systems.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from skein.options.v1.options_pb2 import TEXT_KIND_NAME
from skein_kit.rpc.declarations import text_kind
from skein_kit.text.unicode_form import plain_form

# A longer text is no name, and validation refuses it: its form would take seconds of the event loop.
_MAX_CHARACTERS: Final = 4096
_TOKEN: Final = "token"  # noqa: S105 - the end of a field's name.


class _Fields(NamedTuple):
    """The fields of a kind of message that are names, or messages with names."""

    names: tuple[str, ...]
    lists_of_names: tuple[str, ...]
    messages: tuple[str, ...]
    lists_of_messages: tuple[str, ...]


def make_names_plain(message: Message) -> None:
    """Put the names of a message, and of the messages in it, into their plain form.

    A name of which nothing would be left stays, because an empty one means another thing.
    """
    fields = _fields(message.DESCRIPTOR)
    for field in fields.names:
        text: str = getattr(message, field)
        if not text.isascii():
            setattr(message, field, _plain_name(text))
    for field in fields.lists_of_names:
        texts: Any = getattr(message, field)
        for index, text in enumerate(texts):
            if not text.isascii():
                texts[index] = _plain_name(text)
    for field in fields.messages:
        if message.HasField(field):
            make_names_plain(getattr(message, field))
    for field in fields.lists_of_messages:
        for part in getattr(message, field):
            make_names_plain(part)


def _plain_name(text: str) -> str:
    if len(text) > _MAX_CHARACTERS:
        return text
    plain = plain_form(text)
    return plain if plain.strip() else text


@functools.cache
def _fields(kind: Descriptor) -> _Fields:
    names = [field for field in kind.fields if field.type == FieldDescriptor.TYPE_STRING and is_plain_name(field)]
    messages = [
        field
        for field in kind.fields
        if field.message_type is not None
        and not field.message_type.GetOptions().map_entry
        and _has_names(field.message_type, frozenset())
    ]
    return _Fields(
        names=tuple(field.name for field in names if not field.is_repeated),
        lists_of_names=tuple(field.name for field in names if field.is_repeated),
        messages=tuple(field.name for field in messages if not field.is_repeated),
        lists_of_messages=tuple(field.name for field in messages if field.is_repeated),
    )


def is_plain_name(field: FieldDescriptor) -> bool:
    """Return whether a text of a request is a name, and no token."""
    return text_kind(field) == TEXT_KIND_NAME and not field.name.endswith(_TOKEN)


def _has_names(kind: Descriptor, outer: frozenset[str]) -> bool:
    if kind.full_name in outer or not kind.full_name.startswith("skein."):
        return False
    return any(
        _has_names(field.message_type, outer | {kind.full_name})
        if field.message_type is not None
        else field.type == FieldDescriptor.TYPE_STRING and is_plain_name(field)
        for field in kind.fields
    )
