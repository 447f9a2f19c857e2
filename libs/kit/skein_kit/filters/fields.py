"""The fields that a condition can name, of memories and of messages, and the properties in metadata and data."""

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
    """The type of a field's values, which decides how it can be compared."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    BOOLEAN = "boolean"
    # A SHA-256 of the content, in hexadecimal digits.
    DIGEST = "digest"
    TAGS = "tags"
    # JSON; a path names a property in it.
    PROPERTIES = "properties"


@dataclass(frozen=True, slots=True)
class Field:
    """A field; `column` is its name in the database and in the mapping that `matches` takes."""

    name: str
    kind: Kind
    column: str
    # The allowed values; empty: any value.
    values: tuple[str, ...] = ()
    # Texts that differ in case are equal, as they are where the field must be unique.
    ignores_case: bool = False


def _fields() -> dict[str, Field]:
    texts = (
        "memory_id", "external_id", "type", "title", "content", "source", "source_agent", "agent_id",
        "subject_id", "session_id", "created_by", "updated_by",
    )  # fmt: skip
    times = (
        "create_time", "update_time", "delete_time", "expire_time", "archive_time", "valid_from_time", "valid_to_time",
    )  # fmt: skip
    result = [Field(name, Kind.TEXT, name) for name in texts]
    result += [Field(name, Kind.TIME, name) for name in times]
    result += [Field(name, Kind.NUMBER, name) for name in ("confidence", "importance", "revision")]
    result += [
        Field("key", Kind.TEXT, "key", ignores_case=True),
        # Other names for the subject, and for the importance on a scale of 1 to 10.
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
    return {field.name: field for field in result}


FIELDS: Mapping[str, Field] = _fields()

# Texts as they were written; the other texts are names, which are stored in their plain form.
CONTENT_FIELDS = frozenset({"title", "content"})

# Fields that messages have in common with memories.
_COMMON_NAMES = (
    "external_id", "content", "agent_id", "subject_id", "user_id", "session_id", "created_by", "updated_by",
    "create_time", "update_time", "revision", "is_active", "metadata",
)  # fmt: skip


def _message_fields() -> dict[str, Field]:
    names = ("message_id", "name", "tool_call_id", "model", "step_id", "group_id", "sender_id", "offline_thread_id")
    result = [FIELDS[name] for name in _COMMON_NAMES]
    result += [Field(name, Kind.TEXT, name) for name in names]
    result += [
        Field("role", Kind.TEXT, "role", ("user", "assistant", "system", "tool")),
        Field("sequence", Kind.NUMBER, "sequence"),
    ]
    return {field.name: field for field in result}


MESSAGE_FIELDS: Mapping[str, Field] = _message_fields()
ITEM_KINDS = ("memory", "message")
# The fields of both kinds of items that recall finds. Those of the other kind are unset in an item.
ITEM_FIELDS: Mapping[str, Field] = {
    **FIELDS,
    **MESSAGE_FIELDS,
    "kind": Field("kind", Kind.TEXT, "kind", ITEM_KINDS),
}

# Most properties of one memory in the table of properties. A memory with more has the single row OVERFLOW: it is a
# candidate for every condition on properties, and the evaluator decides.
MAX_PROPERTIES = 100
MAX_PROPERTY_CHARACTERS = 255
OVERFLOW = ("", "")
# Priority of a memory without an importance.
DEFAULT_PRIORITY = 5


def priority_of(importance: float) -> int:
    """Return the priority, 1 to 10, of an importance, 0 to 1: ceil(0.5 + 9 * importance), so 0.5 gives 5."""
    return math.ceil(0.5 + 9 * importance)


def importance_of(priority: float) -> float:
    """Return the importance, 0 to 1, of a priority, 1 to 10: (priority - 1) / 9, except 0.5, the default, for 5."""
    return 0.5 if priority == DEFAULT_PRIORITY else (priority - 1) / 9


def property_text(value: Value) -> str:
    """Return a value as the table of properties stores it: a long text as its SHA-256."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else number_text(value)  # type: ignore[arg-type]  # No times in JSON.
    if len(text) <= MAX_PROPERTY_CHARACTERS:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def number_text(value: float | Decimal) -> str:
    """Return a number with all of its decimal digits, and without trailing zeros."""
    text = format(Decimal(str(value)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def fold_case(text: str) -> str:
    """Return a text in lower case, letter by letter, as the database's lower() does."""
    # Python has special rules for a final sigma and for İ, which becomes two characters. No text holds a NUL.
    return text.replace("Σ", "\u03c3").replace("İ", "\0").lower().replace("\0", "İ")


def properties_of(metadata: str | None, data: str | None, *, key: str | None = None) -> list[tuple[str, str]]:
    """Return the sorted names and values of a memory's scalar properties, from its JSON texts, and its key's.

    Items of a list have the list's name. Nulls are left out. Keys that differ in case alone are one property.
    """
    properties: set[tuple[str, str]] = {("key", property_text(fold_case(key)))} if key else set()
    for root, text in (("metadata", metadata), ("data", data)):
        if text is None:
            continue
        for name, value in _leaves(root, exact.loads(text)):
            properties.add((name, property_text(value)))
            if len(properties) > MAX_PROPERTIES or len(name) > MAX_PROPERTY_CHARACTERS:
                return [OVERFLOW]
    return sorted(properties)


def _leaves(name: str, value: object) -> Iterator[tuple[str, Value]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}", inner)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)
    elif isinstance(value, str | int | float | Decimal):
        yield name, value
