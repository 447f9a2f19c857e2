"""Fingerprints of memories: numbers that memories share when they count as the same. No I/O."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from skein_memory.memories.model import Draft

_PREFIX = 160

# Fingerprints of memories with a key lie in the lower half of all numbers, so that they can be walked alone.
_UPPER_HALF = 1 << 127

FIRST_WITHOUT_KEY = UUID(int=_UPPER_HALF)


def normalize_spaces(text: str) -> str:
    """Return a text in lower case, its spaces reduced to single ones between words."""
    return " ".join(text.lower().split())


def fingerprint(draft: Draft) -> UUID:
    """Return a number that memories of one type share when they have the same key, or title, or beginning.

    The title counts where there is no key, the first 160 characters where there is no title either. Case and spaces do
    not matter.
    """
    if draft.key and normalize_spaces(draft.key):
        kind, text = "key", normalize_spaces(draft.key)
    elif draft.title and normalize_spaces(draft.title):
        kind, text = "title", normalize_spaces(draft.title)
    else:
        kind, text = "text", normalize_spaces(draft.content)[:_PREFIX]
        if not text:
            # Only structured content: the same when all of it is the same.
            kind, text = "data", draft.content_hash.hex()
    digest = hashlib.sha256(f"{draft.type}\n{kind}\n{text}".encode()).digest()[:16]
    number = int.from_bytes(digest, "big") & (_UPPER_HALF - 1)
    return UUID(int=number if kind == "key" else number | _UPPER_HALF)


def has_key(number: UUID) -> bool:
    """Return whether a fingerprint is that of memories with a key."""
    return number < FIRST_WITHOUT_KEY
