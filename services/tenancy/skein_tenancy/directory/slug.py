"""Slugs: the lower-case names of organizations and tenants in addresses. Random suffixes are passed in."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_CHARACTERS = 63
# Attempts after the plain slug is taken: with six random characters the second is free.
_MAX_ATTEMPTS = 5
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def slug_from_name(display_name: str, *, default: str) -> str:
    """Make a slug of a display name; `default` when no character of the name can be used."""
    plain = unicodedata.normalize("NFKD", display_name).encode("ascii", "ignore").decode("ascii").lower()
    return _SEPARATORS.sub("-", plain).strip("-")[:MAX_CHARACTERS].rstrip("-") or default


def candidates(slug: str, *, suffix: Callable[[], str]) -> Iterator[str]:
    """Return the slug, then the slug with suffixes, each within the limit."""
    yield slug
    for _ in range(_MAX_ATTEMPTS):
        end = f"-{suffix()}"
        yield slug[: MAX_CHARACTERS - len(end)].rstrip("-") + end
