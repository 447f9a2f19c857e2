"""Organizations and tenants on their way in, and who sees how much of the directory. No SQL, no clock."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.errors import FieldInvalid, TenantMissing
from skein_kit.identity.permissions import ACCOUNT, OPERATOR, SYSTEM
from skein_kit.ids import parse_id
from skein_kit.rpc import well_known_types
from skein_tenancy.errors import TenantNotFound
from skein_tenancy.tenants import slug as slugs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from google.protobuf.field_mask_pb2 import FieldMask

    from skein.tenancy.v1 import tenancy_pb2 as pb
    from skein_kit.errors import RpcError
    from skein_kit.identity.identity_token import Caller

UPDATABLE = ("display_name", "slug", "metadata")
# What a tenant changes of itself. Slugs are unique among tenants that do not know of each other, so whoever tried some
# would learn of its neighbours.
OWN_UPDATABLE = ("display_name", "metadata")
_SUFFIX_BYTES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryDraft:
    """An organization or a tenant on its way in."""

    display_name: str
    slug: str
    # The caller chose the slug, so nothing else will do.
    is_chosen: bool
    # JSON text.
    metadata: str | None

    @classmethod
    def of(cls, message: pb.Organization | pb.Tenant, *, noun: str) -> DirectoryDraft:
        """Read a message; a missing slug is made from the name for people, a missing name is the slug."""
        display_name = message.display_name.strip()
        if not display_name and not message.slug:
            raise FieldInvalid(violations=[(f"{noun}.display_name", "is needed where there is no slug")])
        return cls(
            display_name=display_name or message.slug,
            slug=message.slug or slugs.slug_from_name(display_name, otherwise=noun),
            is_chosen=bool(message.slug),
            metadata=well_known_types.json_text(message, "metadata"),
        )

    def slugs(self) -> Iterator[str]:
        """Return the slugs that will do, best first."""
        if self.is_chosen:
            return iter((self.slug,))
        return slugs.candidates(self.slug, suffix=lambda: secrets.token_hex(_SUFFIX_BYTES))


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryChange:
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
        missing: RpcError,
        updatable: Collection[str] = UPDATABLE,
    ) -> DirectoryChange:
        """Read the fields that the mask names, all when it names none; refuse with `missing` what cannot be an id."""
        row_id = parse_id(getattr(message, f"{noun}_id"))
        if row_id is None:
            raise missing
        values: dict[str, object] = {}
        for field in sorted(well_known_types.updated_fields(mask, updatable)):
            value = (
                well_known_types.json_text(message, field) if field == "metadata" else getattr(message, field).strip()
            )
            if value == "":
                violation = "cannot be empty; name the fields to change in update_mask"
                raise FieldInvalid(violations=[(f"{noun}.{field}", violation)])
            values[field] = value
        return cls(row_id=row_id, revision=message.revision, values=values)


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantDraft(DirectoryDraft):
    """A tenant on its way in, and whose it shall be."""

    # None: the one with `organization_slug`, or the oldest when that is empty as well.
    organization_id: UUID | None
    organization_slug: str
    # For operators; empty: nobody owns it.
    owner_account_id: str
    # The calling account makes it for itself.
    is_own: bool

    def slugs(self) -> Iterator[str]:
        """Return the slugs that will do; an account's never tell which ones are taken."""
        slugs = DirectoryDraft.slugs(self)
        if self.is_own:
            next(slugs)
        return slugs

    @classmethod
    def made_by(cls, caller: Caller, request: pb.CreateTenantRequest, *, organization: str) -> TenantDraft:
        """Read a request; an account gets a tenant of its own, in the `organization` of that slug.

        Raises FieldInvalid when an account chooses what is the operator's business: slugs are unique among tenants that
        do not know of each other.
        """
        draft = DirectoryDraft.of(request.tenant, noun="tenant")
        chosen = UUID(request.tenant.organization_id) if request.tenant.organization_id else None
        if OPERATOR in caller.permissions:
            return cls(
                **asdict(draft),
                organization_id=chosen,
                organization_slug="",
                owner_account_id=request.owner_account_id,
                is_own=False,
            )
        own = str(caller.account())
        given = {
            "tenant.slug": request.tenant.slug,
            "tenant.organization_id": request.tenant.organization_id,
            "owner_account_id": request.owner_account_id.replace(own, ""),
        }
        if violations := [(field, "is for operators to choose") for field, value in given.items() if value]:
            raise FieldInvalid(violations=violations)
        return cls(
            **asdict(draft), organization_id=None, organization_slug=organization, owner_account_id="", is_own=True
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryScope:
    """How much of the directory somebody sees."""

    # The one tenant; None: every tenant or, for an account, every one that it is a member of.
    tenant_id: UUID | None
    # The account whose roles are told; None for whoever is none.
    account_id: UUID | None
    # The cluster's own services see what is there for their sake as well.
    is_system: bool = False

    @property
    def lists_for_people(self) -> bool:
        """Say whether tenants that no person made have no place in a list."""
        return self.tenant_id is None and not self.is_system

    @classmethod
    def of(cls, caller: Caller, *, writes: bool = False) -> DirectoryScope:
        """Operators see and change all. The cluster's own services see all and change only where they act.

        An account sees its tenants while it acts in none, and changes only the one where it acts. An application sees
        the tenant that it was let into.
        """
        if OPERATOR in caller.permissions or (SYSTEM in caller.permissions and not writes):
            return cls(tenant_id=None, account_id=None, is_system=SYSTEM in caller.permissions)
        if ACCOUNT in caller.permissions and not writes:
            return cls(tenant_id=caller.tenant_id, account_id=caller.account_id)
        return cls(tenant_id=require_tenant(caller), account_id=caller.account_id)

    def must_see(self, tenant_id: UUID) -> None:
        """Refuse with TenantNotFound what is out of sight, before the database is asked."""
        if self.tenant_id not in (None, tenant_id):
            raise TenantNotFound


def require_tenant(caller: Caller) -> UUID:
    """Return the tenant that the caller acts in; refuse a caller that acts in none."""
    if caller.tenant_id is None:
        raise TenantMissing
    return caller.tenant_id
