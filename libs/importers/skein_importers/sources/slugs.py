"""Slugs of the tenants of a source's realms."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_MAX_LENGTH = 63
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def slug_of(name: str, key: str, slug: str = "") -> str:
    """Return the realm's valid slug, or one of its name and a hash of its key."""
    if slug and len(slug) <= _MAX_LENGTH and _SLUG.fullmatch(slug):
        return slug
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    words = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")
    end = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{words[: _MAX_LENGTH - len(end) - 1].strip('-')}-{end}" if words else end
