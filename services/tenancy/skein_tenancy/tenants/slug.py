"""Slugs: the lower-case names that organizations and tenants have in addresses. Chance is passed in."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_CHARACTERS = 63
# How many names to try when the obvious one is taken: with six random characters the second one is free.
_TRIES = 5
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def slug_from_name(display_name: str, *, otherwise: str) -> str:
    """Make a slug of a name for people, or `otherwise` when nothing of the name can be used."""
    plain = unicodedata.normalize("NFKD", display_name).encode("ascii", "ignore").decode("ascii").lower()
    return _SEPARATORS.sub("-", plain).strip("-")[:MAX_CHARACTERS].rstrip("-") or otherwise


def candidates(slug: str, *, suffix: Callable[[], str]) -> Iterator[str]:
    """Return the slug, then the slug with suffixes, each within the limit."""
    yield slug
    for _ in range(_TRIES):
        end = f"-{suffix()}"
        yield slug[: MAX_CHARACTERS - len(end)].rstrip("-") + end
