"""Who may give which role to whom, and that a tenant with owners keeps one. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import FieldInvalid, PermissionEscalation
from skein_kit.identity.permissions import OPERATOR, ROLE_PERMISSIONS
from skein_tenancy.errors import LastOwner, RoleTooLow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from skein_kit.identity.identity_token import Caller

OWNER = "owner"
ADMIN = "admin"
# The lowest first.
_RANKS: Mapping[str, int] = {role: rank for rank, role in enumerate(ROLE_PERMISSIONS, start=1)}
# What makes somebody count as a role: a permission that no lower one has.
_MARKS: Mapping[str, str] = {
    "viewer": "tenant.read",
    "member": "members.read",
    "admin": "members.write",
    "owner": "tenant.own",
}
_NOBODY = 0
_ABOVE_ALL = len(_RANKS) + 1


@dataclass(frozen=True, slots=True)
class Authority:
    """How high the roles are that a caller may take and change, and what it may pass on."""

    rank: int
    # None: all that there is, as an operator does.
    permissions: frozenset[str] | None = None
    # The agent that the caller is bound to. People are bound to none.
    agent_id: str = ""

    @classmethod
    def of(cls, caller: Caller) -> Authority:
        """Judge by what the caller may do: a key that may pass the tenant on counts as an owner.

        An application counts as no more than its own permissions, whatever the account is that it acts for.
        """
        if OPERATOR in caller.permissions:
            return cls(_ABOVE_ALL)
        held = max((_RANKS[role] for role, mark in _MARKS.items() if mark in caller.permissions), default=_NOBODY)
        rank = held if caller.account_id is None else min(held, _RANKS.get(caller.role, _NOBODY))
        return cls(rank, caller.permissions, caller.agent_id)

    def must_reach(self, *roles: str) -> None:
        """Refuse with RoleTooLow when one of the roles is above the caller's own."""
        if any(_RANKS[role] > self.rank for role in roles):
            raise RoleTooLow

    def must_cover(self, role: str, *, instead_of: str = "") -> None:
        """Refuse to give a role, `instead_of` the one that a member has, above the caller's own or its permissions.

        Raises RoleTooLow, or PermissionEscalation for what the new role may do and neither the caller nor the old one
        may.
        """
        self.must_reach(role)
        if self.permissions is None:
            return
        added = ROLE_PERMISSIONS[role] - ROLE_PERMISSIONS.get(instead_of, frozenset())
        lacking = sorted(added - self.permissions)
        if lacking:
            raise PermissionEscalation(permission=" ".join(lacking))
        if added and self.agent_id:
            raise PermissionEscalation(agent_id=self.agent_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleChange:
    """A new role for a member."""

    account_id: UUID
    role: str
    # 0: whatever it is now.
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnershipTransfer:
    """An owner's place, taken by another member."""

    to: UUID
    # The owner that becomes an admin; None for nobody.
    by: UUID | None

    @classmethod
    def of(cls, caller: Caller, account_id: UUID, from_account_id: UUID | None) -> OwnershipTransfer:
        """An account steps down itself; operators and keys name who does, if anybody."""
        steps_down = from_account_id if caller.account_id is None else caller.account_id
        if from_account_id not in (None, steps_down):
            raise FieldInvalid(violations=[("from_account_id", "an account gives nothing away but its own")])
        if steps_down == account_id:
            raise FieldInvalid(violations=[("account_id", "names the owner that steps down")])
        return cls(to=account_id, by=steps_down)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMember:
    """An account that becomes a member, as the others will see it."""

    account_id: UUID
    role: str
    # Verified, or empty.
    email: str
    display_name: str
    created_by: str

    @classmethod
    def itself(cls, caller: Caller, role: str) -> NewMember:
        """Let the calling account in, as its sign-in describes it."""
        return cls(
            account_id=caller.account(),
            role=role,
            email=caller.email.lower(),
            display_name="",
            created_by=caller.principal,
        )


def invitable_roles(role: str) -> list[str]:
    """Return the roles that a role can invite to, the lowest first: none, or itself and those below it."""
    if "members.write" not in ROLE_PERMISSIONS[role]:
        return []
    return [name for name, rank in _RANKS.items() if rank <= _RANKS[role]]


def require_remaining_owner(tenant_id: UUID, owners: Iterable[UUID], *, without: UUID) -> None:
    """Refuse with LastOwner when nobody else owns the tenant."""
    if not set(owners) - {without}:
        raise LastOwner(tenant_id=tenant_id)
