"""Near-duplicates of new memories: which stored memory says the same, so that a write need not store it again. Pure."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from skein_kit.json_values import exact
from skein_memory.facts.model import REVISION
from skein_memory.memories import memory_type
from skein_memory.memories.model import Draft, draft_audience, normalize_spaces
from skein_memory.memories.near_text import near_text

Value = TypeVar("Value")

# Memories with one text that a new one is compared with.
MAX_COMPARED = 50
# Fields whose difference changes what a memory says, or how long.
_EQUAL_FIELDS = ("type", "expire_time", "archive_time", "valid_to_time")
# Fields that a stored memory may have while the new one has none: nothing is lost.
_CONTAINED_FIELDS = ("external_id", "source", "source_agent")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedDraft:
    """A draft with what its comparisons need, which is computed once."""

    draft: Draft
    fingerprint: UUID
    # SHA-256 of the near texts of title and content, and of the key, whose case does not matter.
    text_hash: bytes
    # Parsed JSON; None for none.
    data: Any
    metadata: Any

    @classmethod
    def of(cls, draft: Draft) -> ComparedDraft:
        # No text holds a NUL character.
        texts = "\0".join((near_text(draft.title or ""), normalize_spaces(draft.key or ""), near_text(draft.content)))
        return cls(
            draft=draft,
            fingerprint=draft.fingerprint,
            text_hash=hashlib.sha256(texts.encode()).digest(),
            data=None if draft.data is None else exact.loads(draft.data),
            metadata=None if draft.metadata is None else _without_revision(exact.loads(draft.metadata)),
        )


class NearDuplicateIndex(Generic[Value]):
    """Values by the drafts of their memories; a comparison looks at the drafts with the same text alone."""

    def __init__(self) -> None:
        self._entries: defaultdict[tuple[UUID, bytes], list[tuple[ComparedDraft, Value]]] = defaultdict(list)

    def add(self, compared: ComparedDraft, value: Value) -> None:
        """Add a value. Beyond MAX_COMPARED drafts with one text, further ones are left out."""
        entries = self._entries[compared.fingerprint, compared.text_hash]
        if len(entries) < MAX_COMPARED:
            entries.append((compared, value))

    def find(self, new: ComparedDraft) -> Value | None:
        """Return the first value whose draft says all that a new one says, to the same readers; None for none."""
        entries = self._entries.get((new.fingerprint, new.text_hash), ())
        return next((value for stored, value in entries if says_all(stored, new)), None)


def compare_all(drafts: Iterable[Draft]) -> list[ComparedDraft]:
    """Return drafts with what their comparisons need."""
    return [ComparedDraft.of(draft) for draft in drafts]


def says_all(stored: ComparedDraft, new: ComparedDraft) -> bool:
    """Return whether a stored memory says all that a new one would: its text is a near-duplicate, and no field is lost.

    What extractors found in two messages is one statement if all but its begin is the same. Sessions, agents and
    subjects count as far as the scope makes them readers or the subject. Secrets are never equal.
    """
    old_draft, new_draft = stored.draft, new.draft
    return (
        new_draft.type != memory_type.VAULT
        and stored.text_hash == new.text_hash
        and all(getattr(old_draft, name) == getattr(new_draft, name) for name in _EQUAL_FIELDS)
        and all(getattr(new_draft, name) in (None, getattr(old_draft, name)) for name in _CONTAINED_FIELDS)
        # The same statement of another message holds since another time.
        and (old_draft.valid_from_time == new_draft.valid_from_time or _is_extracted(new))
        and draft_audience(old_draft) == draft_audience(new_draft)
        and set(new_draft.tags) <= set(old_draft.tags)
        and (old_draft.data is None) == (new_draft.data is None)
        and bool(stored.data == new.data)
        and (new_draft.metadata is None or _is_contained(new.metadata, stored.metadata))
    )


def _is_extracted(compared: ComparedDraft) -> bool:
    """Return whether an extractor found it: its metadata say what is stated, of whom, by whom and of which time."""
    return isinstance(compared.metadata, dict) and isinstance(compared.metadata.get("extracted"), dict)


def _without_revision(metadata: Any) -> Any:
    """Return the metadata of a memory without the revision of the message that an extractor found it in."""
    if not (isinstance(metadata, dict) and "extracted" in metadata):
        return metadata
    return {name: value for name, value in metadata.items() if name != REVISION}


def _is_contained(new: Any, stored: Any) -> bool:
    """Return whether a JSON value holds nothing that another one lacks."""
    if not (isinstance(new, dict) and isinstance(stored, dict)):
        return bool(new == stored)
    return all(name in stored and stored[name] == value for name, value in new.items())
