"""What a condition can speak of: the fields of a memory, and the properties in its metadata and data."""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from skein_kit.filters.expression import Value
from skein_kit.json_values import exact


class Kind(enum.Enum):
    """What values a field has, and so how it can be compared."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    BOOLEAN = "boolean"
    # The SHA-256 of what a memory says, in hexadecimal digits.
    DIGEST = "digest"
    TAGS = "tags"
    # JSON: what lies in it is named by a path.
    PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of memories; `column` is its name in the database and in what `holds` is given."""

    name: str
    kind: Kind
    column: str
    # The only values that there are; empty when it may be anything.
    values: tuple[str, ...] = ()


def _fields() -> dict[str, Field]:
    texts = (
        "memory_id", "external_id", "type", "title", "key", "content", "source", "source_agent", "agent_id",
        "subject_id", "session_id", "created_by", "updated_by",
    )  # fmt: skip
    times = (
        "create_time", "update_time", "delete_time", "expire_time", "archive_time", "valid_from_time", "valid_to_time",
    )  # fmt: skip
    made = [Field(name, Kind.TEXT, name) for name in texts]
    made += [Field(name, Kind.TIME, name) for name in times]
    made += [Field(name, Kind.NUMBER, name) for name in ("confidence", "importance", "revision")]
    made += [
        # The subject is the user that older systems speak of, and priority the importance, from 1 to 10.
        Field("user_id", Kind.TEXT, "subject_id"),
        Field("priority", Kind.NUMBER, "priority"),
        Field("scope", Kind.TEXT, "scope", ("global", "agent", "user", "session")),
        Field("level", Kind.TEXT, "level", ("strategic", "tactical", "operational", "contextual")),
        Field("is_active", Kind.BOOLEAN, "is_active"),
        Field("content_hash", Kind.DIGEST, "content_hash"),
        Field("tags", Kind.TAGS, "tags"),
        Field("metadata", Kind.PROPERTIES, "metadata"),
        Field("data", Kind.PROPERTIES, "data"),
    ]
    return {field.name: field for field in made}


FIELDS: Mapping[str, Field] = _fields()

# What the table of properties takes of one memory. Beyond it the memory has the one row OVERFLOW instead, and is held
# against every condition on properties.
MAX_PROPERTIES = 100
MAX_PROPERTY_CHARACTERS = 255
OVERFLOW = ("", "")
# What a memory has that names no importance.
DEFAULT_PRIORITY = 5


def priority_of(importance: float) -> int:
    """Return the priority, 1 to 10, that an importance of 0 to 1 is: ceil(0.5 + 9 * importance), so that 0.5 is 5."""
    return math.ceil(0.5 + 9 * importance)


def importance_of(priority: float) -> float:
    """Return the importance, 0 to 1, of a priority of 1 to 10: (priority - 1) / 9, but 0.5, the default, for 5."""
    return 0.5 if priority == DEFAULT_PRIORITY else (priority - 1) / 9


def property_text(value: Value) -> str:
    """Return a value as the table of properties has it; a long one as its digest."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else number_text(value)  # type: ignore[arg-type]  # No times in JSON.
    if len(text) <= MAX_PROPERTY_CHARACTERS:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def number_text(value: float | Decimal) -> str:
    """Return a number in decimal digits, all of them, without a needless zero."""
    text = format(Decimal(str(value)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def properties_of(metadata: str | None, data: str | None) -> list[tuple[str, str]]:
    """Return the names and values of a memory's scalar properties, of JSON text, in order.

    A list's items have the list's name. Nulls are left out.
    """
    found: set[tuple[str, str]] = set()
    for root, text in (("metadata", metadata), ("data", data)):
        if text is None:
            continue
        for name, value in _leaves(root, exact.loads(text)):
            found.add((name, property_text(value)))
            if len(found) > MAX_PROPERTIES or len(name) > MAX_PROPERTY_CHARACTERS:
                return [OVERFLOW]
    return sorted(found)


def _leaves(name: str, value: object) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}", below)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)
    elif isinstance(value, str | int | float | Decimal):
        yield name, value
