"""Near-duplicates of new memories: which stored memory says the same, so that a write need not store it again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.json_values import exact
from skein_memory.memories import memory_type
from skein_memory.memories.model import draft_audience
from skein_memory.memories.near_text import near_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from skein_memory.memories.model import Draft, Memory

# Fields whose difference changes what a memory says, or how long.
_EQUAL_FIELDS = ("type", "expire_time", "archive_time", "valid_from_time", "valid_to_time")
# Fields that a stored memory may have while the new one has none: nothing is lost.
_CONTAINED_FIELDS = ("external_id", "source", "source_agent")
_TEXT_FIELDS = ("title", "key", "content")


def find_near_duplicate(draft: Draft, stored: Iterable[Memory], *, at: datetime) -> Memory | None:
    """Return the first stored memory that says all that a draft says, to the same readers; None for none."""
    return next((memory for memory in stored if memory.is_visible(at) and says_all(memory.draft, draft)), None)


def says_all(stored: Draft, new: Draft) -> bool:
    """Return whether a stored memory says all that a new one would: its text is a near-duplicate, and no field is lost.

    Sessions, agents and subjects count as far as the scope makes them readers or the subject. Secrets are never equal.
    """
    return (
        new.type != memory_type.VAULT
        and all(getattr(stored, name) == getattr(new, name) for name in _EQUAL_FIELDS)
        and all(getattr(new, name) in (None, getattr(stored, name)) for name in _CONTAINED_FIELDS)
        and draft_audience(stored) == draft_audience(new)
        and set(new.tags) <= set(stored.tags)
        and all(near_text(getattr(stored, name) or "") == near_text(getattr(new, name) or "") for name in _TEXT_FIELDS)
        and _is_contained(new.data, stored.data, exactly=True)
        and _is_contained(new.metadata, stored.metadata)
    )


def _is_contained(new: str | None, stored: str | None, *, exactly: bool = False) -> bool:
    """Return whether a JSON text holds nothing that another one lacks; `exactly`: whether both are equal."""
    if new == stored or (new is None and not exactly):
        return True
    if new is None or stored is None:
        return False
    new_value, stored_value = exact.loads(new), exact.loads(stored)
    if exactly or not (isinstance(new_value, dict) and isinstance(stored_value, dict)):
        return bool(new_value == stored_value)
    return all(name in stored_value and stored_value[name] == value for name, value in new_value.items())
