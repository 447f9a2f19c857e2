"""Members, the rules for giving roles, and the rule of the last owner. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.errors import FieldInvalid, PermissionEscalation
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import OPERATOR, ROLE_PERMISSIONS
from skein_tenancy.errors import LastOwner, RoleTooLow

OWNER = "owner"
ADMIN = "admin"
# By role, the lowest first.
_RANKS: Mapping[str, int] = {role: rank for rank, role in enumerate(ROLE_PERMISSIONS, start=1)}
# A caller ranks as a role when it has this permission, which no lower role has.
_RANKING_PERMISSIONS: Mapping[str, str] = {
    "viewer": "tenant.read",
    "member": "members.read",
    "admin": "members.write",
    "owner": "tenant.own",
}
_NO_RANK = 0
_OPERATOR_RANK = len(_RANKS) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """An account's membership in a tenant."""

    account_id: UUID
    role: str
    # Verified, or empty.
    email: str
    display_name: str
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """Whether a tenant is open, and an account's role in it."""

    is_active: bool
    # None: the account is no member.
    role: str | None
    # Something may lie in other spaces of the tenant than the default one.
    has_spaces: bool


@dataclass(frozen=True, slots=True)
class Authority:
    """The highest role that a caller may give or change, and the permissions that it may pass on."""

    rank: int
    # None: every permission, for operators.
    permissions: frozenset[str] | None = None
    # The agent that the caller is bound to; empty for people.
    agent_id: str = ""

    @classmethod
    def of(cls, caller: Caller) -> Authority:
        """Rank a caller by its permissions: a key that may transfer the tenant ranks as an owner.

        An application of an account ranks by the lower of its own permissions and the account's role.
        """
        if OPERATOR in caller.permissions:
            return cls(_OPERATOR_RANK)
        rank = max(
            (_RANKS[role] for role, permission in _RANKING_PERMISSIONS.items() if permission in caller.permissions),
            default=_NO_RANK,
        )
        if caller.account_id is not None:
            rank = min(rank, _RANKS.get(caller.role, _NO_RANK))
        return cls(rank, caller.permissions, caller.agent_id)

    def require_rank(self, *roles: str) -> None:
        """Raise RoleTooLow when one of the roles is above the caller's own."""
        if any(_RANKS[role] > self.rank for role in roles):
            raise RoleTooLow

    def require_permissions_for(self, role: str, *, former_role: str = "") -> None:
        """Check that the caller may give a role to a member that has `former_role`; empty: to a new member.

        Raises RoleTooLow for a role above the caller's own.
        Raises PermissionEscalation for permissions that neither the caller nor the former role has.
        """
        self.require_rank(role)
        if self.permissions is None:
            return
        added_permissions = ROLE_PERMISSIONS[role] - ROLE_PERMISSIONS.get(former_role, frozenset())
        missing_permissions = sorted(added_permissions - self.permissions)
        if missing_permissions:
            raise PermissionEscalation(permission=" ".join(missing_permissions))
        if added_permissions and self.agent_id:
            raise PermissionEscalation(agent_id=self.agent_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleChange:
    """A new role for a member."""

    account_id: UUID
    role: str
    # 0: any revision.
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnershipTransfer:
    """A member that becomes an owner, and the owner that becomes an admin."""

    new_owner_id: UUID
    # None: every owner stays one.
    former_owner_id: UUID | None

    @classmethod
    def of(cls, caller: Caller, account_id: UUID, from_account_id: UUID | None) -> OwnershipTransfer:
        """Let an account give away its own ownership only; operators and keys may name a former owner.

        Raises FieldInvalid.
        """
        former_owner_id = from_account_id if caller.account_id is None else caller.account_id
        if from_account_id not in (None, former_owner_id):
            raise FieldInvalid(violations=[("from_account_id", "an account gives nothing away but its own")])
        if former_owner_id == account_id:
            raise FieldInvalid(violations=[("account_id", "names the owner that steps down")])
        return cls(new_owner_id=account_id, former_owner_id=former_owner_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMember:
    """An account to be added as a member, as other members will see it."""

    account_id: UUID
    role: str
    # Verified, or empty.
    email: str
    display_name: str
    created_by: str

    @classmethod
    def from_caller(cls, caller: Caller, role: str) -> NewMember:
        """Return the calling account as a new member."""
        return cls(
            account_id=caller.require_account(),
            role=role,
            email=caller.email.lower(),
            display_name="",
            created_by=caller.principal,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountAddress:
    """The e-mail address of an account."""

    email: str
    is_verified: bool


def invitable_roles(role: str) -> list[str]:
    """Return the roles that a role may invite to, the lowest first: none, or itself and those below it."""
    if "members.write" not in ROLE_PERMISSIONS[role]:
        return []
    return [name for name, rank in _RANKS.items() if rank <= _RANKS[role]]


def require_remaining_owner(tenant_id: UUID, owners: Iterable[UUID], *, leaving_account_id: UUID) -> None:
    """Raise LastOwner when `leaving_account_id` is the only owner."""
    if not set(owners) - {leaving_account_id}:
        raise LastOwner(tenant_id=tenant_id)
