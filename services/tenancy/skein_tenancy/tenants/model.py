"""Tenants, and which of them a caller may read or change. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.errors import FieldInvalid
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCOUNT, OPERATOR, SYSTEM
from skein_tenancy.directory.model import UPDATABLE, DirectoryDraft
from skein_tenancy.errors import TenantNotFound
from skein_tenancy.validation import require_tenant

# A tenant cannot change its own slug: slugs are unique within an organization, so attempts would reveal its neighbours.
_SELF_UPDATABLE = ("display_name", "metadata")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant:
    """A unit of isolation, as one caller sees it."""

    tenant_id: UUID
    organization_id: UUID
    display_name: str
    slug: str
    # JSON text.
    metadata: str | None
    revision: int
    create_time: datetime
    update_time: datetime
    # The role of the account that reads it; None for callers that are no account.
    role: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantDraft(DirectoryDraft):
    """The validated content of a tenant to be created, and its owner."""

    # None: the organization with `organization_slug`, or the oldest one when that is empty too.
    organization_id: UUID | None
    organization_slug: str
    # Set by operators; empty: no owner.
    owner_account_id: str
    # An account creates the tenant for itself.
    is_self_service: bool

    def slugs(self) -> Iterator[str]:
        """Return the acceptable slugs; the suffixed ones of an account do not reveal which slugs are taken."""
        slugs = DirectoryDraft.slugs(self)
        if self.is_self_service:
            next(slugs)
        return slugs

    @classmethod
    def for_caller(
        cls,
        caller: Caller,
        draft: DirectoryDraft,
        *,
        organization_id: UUID | None,
        owner_account_id: str,
        accounts_organization: str,
    ) -> TenantDraft:
        """Let operators choose organization and owner; an account owns its tenant, in `accounts_organization` (a slug).

        Raises FieldInvalid when an account chooses these or a slug, which would reveal the slugs of others.
        """
        if OPERATOR in caller.permissions:
            return cls(
                **asdict(draft),
                organization_id=organization_id,
                organization_slug="",
                owner_account_id=owner_account_id,
                is_self_service=False,
            )
        operator_fields = {
            "tenant.slug": draft.has_explicit_slug,
            "tenant.organization_id": organization_id is not None,
            "owner_account_id": owner_account_id not in ("", str(caller.require_account())),
        }
        if violations := [(field, "is for operators to choose") for field, is_set in operator_fields.items() if is_set]:
            raise FieldInvalid(violations=violations)
        return cls(
            **asdict(draft),
            organization_id=None,
            organization_slug=accounts_organization,
            owner_account_id="",
            is_self_service=True,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectoryScope:
    """The tenants that a caller may read or change."""

    # The only visible tenant; None: every tenant or, for an account, each of its memberships.
    tenant_id: UUID | None
    # The account whose roles are shown; None for callers that are no account.
    account_id: UUID | None
    # The cluster's own services also see the canary's tenants.
    is_system: bool = False

    @property
    def hides_canary(self) -> bool:
        """Return whether lists leave out the canary's tenants."""
        return self.tenant_id is None and not self.is_system

    @classmethod
    def of(cls, caller: Caller, *, for_write: bool = False) -> DirectoryScope:
        """Return the scope of a caller. Raises TenantMissing for a caller that needs a tenant and has none.

        Operators read and change all tenants. The cluster's own services read all and change their call's tenant.
        An account without a tenant reads its memberships; every other caller reads and changes its call's tenant.
        """
        if OPERATOR in caller.permissions or (SYSTEM in caller.permissions and not for_write):
            return cls(tenant_id=None, account_id=None, is_system=SYSTEM in caller.permissions)
        if ACCOUNT in caller.permissions and not for_write:
            return cls(tenant_id=caller.tenant_id, account_id=caller.account_id)
        return cls(tenant_id=require_tenant(caller), account_id=caller.account_id)

    @property
    def updatable(self) -> Collection[str]:
        """Return the fields of a tenant that the caller may change."""
        return UPDATABLE if self.tenant_id is None else _SELF_UPDATABLE

    def require_visible(self, tenant_id: UUID) -> None:
        """Raise TenantNotFound for a tenant outside the scope, without a query."""
        if self.tenant_id not in (None, tenant_id):
            raise TenantNotFound
