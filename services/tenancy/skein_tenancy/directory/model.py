"""Drafts and changes of organizations and tenants, and the slugs that name them in addresses. No gRPC, no SQL."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from skein_kit.errors import FieldInvalid

UPDATABLE = ("display_name", "slug", "metadata")
_SUFFIX_BYTES = 3
MAX_SLUG_CHARACTERS = 63
# Attempts after the plain slug is taken: with six random characters the second is free.
_MAX_ATTEMPTS = 5
_SEPARATORS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryDraft:
    """The validated content of an organization or a tenant to be created."""

    display_name: str
    slug: str
    # The caller chose the slug, so no other one will do.
    has_explicit_slug: bool
    # JSON text.
    metadata: str | None

    @classmethod
    def create(cls, noun: str, *, display_name: str, slug: str, metadata: str | None) -> DirectoryDraft:
        """Derive a missing slug from the display name, and a missing display name from the slug.

        `noun` names the field in errors. Raises FieldInvalid when both are empty.
        """
        display_name = display_name.strip()
        if not display_name and not slug:
            raise FieldInvalid(violations=[(f"{noun}.display_name", "is needed where there is no slug")])
        return cls(
            display_name=display_name or slug,
            slug=slug or slug_from_name(display_name, default=noun),
            has_explicit_slug=bool(slug),
            metadata=metadata,
        )

    def slugs(self) -> Iterator[str]:
        """Return the acceptable slugs, best first."""
        if self.has_explicit_slug:
            return iter((self.slug,))
        return slug_candidates(self.slug, suffix=lambda: secrets.token_hex(_SUFFIX_BYTES))


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryChange:
    """New values for some columns of one organization or tenant."""

    row_id: UUID
    # 0: any revision.
    revision: int
    # By column; JSON as text.
    values: Mapping[str, object]

    @classmethod
    def create(cls, noun: str, row_id: UUID, revision: int, values: Mapping[str, object]) -> DirectoryChange:
        """Refuse empty texts with FieldInvalid; `noun` names the field in errors."""
        for field, value in values.items():
            if value == "":
                violation = "cannot be empty; name the fields to change in update_mask"
                raise FieldInvalid(violations=[(f"{noun}.{field}", violation)])
        return cls(row_id=row_id, revision=revision, values=values)


def slug_from_name(display_name: str, *, default: str) -> str:
    """Make a slug of a display name; `default` when no character of the name can be used."""
    ascii_name = unicodedata.normalize("NFKD", display_name).encode("ascii", "ignore").decode("ascii").lower()
    return _SEPARATORS.sub("-", ascii_name).strip("-")[:MAX_SLUG_CHARACTERS].rstrip("-") or default


def slug_candidates(slug: str, *, suffix: Callable[[], str]) -> Iterator[str]:
    """Return the slug, then the slug with suffixes, each within the limit."""
    yield slug
    for _ in range(_MAX_ATTEMPTS):
        end = f"-{suffix()}"
        yield slug[: MAX_SLUG_CHARACTERS - len(end)].rstrip("-") + end
