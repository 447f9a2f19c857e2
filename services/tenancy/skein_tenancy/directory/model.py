"""Drafts and changes of organizations and tenants. No gRPC, no SQL, no clock."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import FieldInvalid
from skein_tenancy.directory import slug as slugs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

UPDATABLE = ("display_name", "slug", "metadata")
_SUFFIX_BYTES = 3


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
            slug=slug or slugs.slug_from_name(display_name, default=noun),
            has_explicit_slug=bool(slug),
            metadata=metadata,
        )

    def slugs(self) -> Iterator[str]:
        """Return the acceptable slugs, best first."""
        if self.has_explicit_slug:
            return iter((self.slug,))
        return slugs.candidates(self.slug, suffix=lambda: secrets.token_hex(_SUFFIX_BYTES))


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
