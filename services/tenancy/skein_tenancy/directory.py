"""Organizations and tenants on their way in, and who sees how much of the directory. No SQL, no clock."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit import wire
from skein_kit.access import OPERATOR, SYSTEM
from skein_kit.errors import FieldInvalid, TenantMissing
from skein_kit.ids import parse_id
from skein_tenancy import slugs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from google.protobuf.field_mask_pb2 import FieldMask

    from skein.tenancy.v1 import tenancy_pb2 as pb
    from skein_kit.errors import Refusal
    from skein_kit.identity import Caller

UPDATABLE = ("display_name", "slug", "metadata")
# What a tenant changes of itself. Slugs are unique among tenants that do not know of each other, so whoever tried some
# would learn of its neighbours.
OWN_UPDATABLE = ("display_name", "metadata")
_SUFFIX_BYTES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An organization or a tenant on its way in."""

    display_name: str
    slug: str
    # The caller chose the slug, so nothing else will do.
    is_chosen: bool
    # JSON text.
    metadata: str | None

    @classmethod
    def of(cls, message: pb.Organization | pb.Tenant, *, noun: str) -> Draft:
        """Read a message; a missing slug is made from the name for people, a missing name is the slug."""
        display_name = message.display_name.strip()
        if not display_name and not message.slug:
            raise FieldInvalid(violations=[(f"{noun}.display_name", "is needed where there is no slug")])
        return cls(
            display_name=display_name or message.slug,
            slug=message.slug or slugs.derived(display_name, otherwise=noun),
            is_chosen=bool(message.slug),
            metadata=wire.json_of(message, "metadata"),
        )

    def slugs(self) -> Iterator[str]:
        """Return the slugs that will do, best first."""
        if self.is_chosen:
            return iter((self.slug,))
        return slugs.candidates(self.slug, suffix=lambda: secrets.token_hex(_SUFFIX_BYTES))


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """New values for some fields of one organization or tenant."""

    row_id: UUID
    # 0: whatever it is now.
    revision: int
    # By column; JSON as text.
    values: Mapping[str, object]

    @classmethod
    def of(
        cls,
        message: pb.Organization | pb.Tenant,
        mask: FieldMask,
        *,
        noun: str,
        missing: Refusal,
        updatable: Collection[str] = UPDATABLE,
    ) -> Change:
        """Read the fields that the mask names, all when it names none; refuse with `missing` what cannot be an id."""
        row_id = parse_id(getattr(message, f"{noun}_id"))
        if row_id is None:
            raise missing
        values: dict[str, object] = {}
        for field in sorted(wire.masked(mask, updatable)):
            value = wire.json_of(message, field) if field == "metadata" else getattr(message, field).strip()
            if value == "":
                violation = "cannot be empty; name the fields to change in update_mask"
                raise FieldInvalid(violations=[(f"{noun}.{field}", violation)])
            values[field] = value
        return cls(row_id=row_id, revision=message.revision, values=values)


def sight(caller: Caller, *, writes: bool = False) -> UUID | None:
    """Return the one tenant that the caller sees; None: every tenant.

    Operators see and change all. The cluster's own services see all and change only the tenant that they act in.
    """
    sees_all = OPERATOR in caller.permissions or (SYSTEM in caller.permissions and not writes)
    return None if sees_all else acting_in(caller)


def acting_in(caller: Caller) -> UUID:
    """Return the tenant that the caller acts in; refuse a caller that acts in none."""
    if caller.tenant_id is None:
        raise TenantMissing
    return caller.tenant_id
