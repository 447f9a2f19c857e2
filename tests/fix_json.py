"""Free JSON as replies have it: as a message, and as text beside it."""

from __future__ import annotations

from google.protobuf.message import Message

from skein_kit.json_values import exact, fields


def with_texts(message: Message) -> None:
    """Write beside each field of free JSON in a message what it says, as text."""
    for part, name in fields.json_fields_in(message):
        if (value := fields.value_of(part, name)) is not None:
            setattr(part, name + fields.TEXT, exact.canonical(value))
