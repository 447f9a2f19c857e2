"""Spaces, grants, and what a caller sees by them. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from skein_kit.errors import FieldInvalid, PermissionMissing, SpaceNotFound
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import DEFAULT_SPACE, MANAGER, MAX_SPACES, ROLES, WRITER

# Of a tenant, so that a list of them is read at once.
MAX_SPACES_OF_TENANT = 1000
# Of a principal in one space that an explanation looks at.
MAX_FORMER_GRANTS = 100
PERMISSION = "spaces.write"


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """A part of a tenant, which its grants show."""

    space_id: UUID
    display_name: str
    description: str | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceGrant:
    """That a principal sees a space."""

    grant_id: UUID
    space_id: UUID
    # account:<id>, api_key:<id>, service_account:<id>, agent:<id> or client:<id>.
    principal: str
    role: str
    # None: until it is revoked.
    expire_time: datetime | None
    is_delegable: bool
    create_time: datetime
    created_by: str
    # The delegable grant by which a delegate gave this one, which ends with it; None: a manager gave it.
    delegating_grant_id: UUID | None = None
    # None: it stands, or it has expired.
    revoke_time: datetime | None = None

    def is_within(self, other: SpaceGrant) -> bool:
        """Return whether this grant gives no more than another, which may be delegated once."""
        return (
            other.is_delegable
            and not self.is_delegable
            and ROLES.index(self.role) <= ROLES.index(other.role)
            and (other.expire_time is None or (self.expire_time is not None and self.expire_time <= other.expire_time))
        )


def sees_all(caller: Caller) -> bool:
    """Return whether a caller manages the tenant's spaces: not one that is bound to some of them."""
    is_bound = caller.spaces is not None and DEFAULT_SPACE not in dict(caller.spaces)
    return PERMISSION in caller.permissions and not is_bound


def require_visible(caller: Caller, space_id: UUID) -> None:
    """Raise SpaceNotFound unless the caller sees the space, or manages all of them."""
    if not (sees_all(caller) or space_id in dict(caller.spaces or ())):
        raise SpaceNotFound(space_id=str(space_id))


def is_manager(caller: Caller, space_id: UUID) -> bool:
    """Return whether the caller may say who sees a space. Raises SpaceNotFound for a space that it does not see."""
    require_visible(caller, space_id)
    return sees_all(caller) or dict(caller.spaces or ()).get(space_id) == MANAGER


def with_delegation(caller: Caller, grant: SpaceGrant, own_grants: Iterable[SpaceGrant]) -> SpaceGrant:
    """Return a grant that the caller may give: as a manager, or by a delegable grant of its own.

    An application passes on no more than it sees itself. Raises PermissionMissing for any other.
    """
    if is_manager(caller, grant.space_id):
        return grant
    role = dict(caller.spaces or ())[grant.space_id]
    own = next((own for own in own_grants if grant.is_within(own)), None)
    if own is None or ROLES.index(grant.role) > ROLES.index(role):
        raise PermissionMissing(permission=PERMISSION)
    return replace(grant, delegating_grant_id=own.grant_id)


def require_binding(caller: Caller, principal: str) -> None:
    """Raise PermissionMissing unless the caller may bind others, and FieldInvalid where it would bind itself."""
    if not sees_all(caller):
        raise PermissionMissing(permission=PERMISSION)
    if principal in principals_of(caller):
        raise FieldInvalid(violations=[("principal", "is the caller itself")])


@dataclass(frozen=True, kw_only=True, slots=True)
class VisibleSpace:
    """A space that a caller sees, and the grant by which; None: the default space, for which none is needed."""

    space_id: UUID
    role: str
    grant_id: UUID | None


def visible_spaces(
    grants: Sequence[SpaceGrant], bound_principals: Iterable[str], principals: Sequence[str], client: str
) -> list[VisibleSpace]:
    """Return what a caller sees by the valid grants of its principals, at most MAX_SPACES beside the default space.

    An application sees what both it and the person for whom it acts may see. The default space is everybody's, except
    those who are bound.
    """
    own_grants = highest_grants(grants, principals)
    roles = {space_id: grant.role for space_id, grant in own_grants.items()}
    if client:
        client_grants = highest_grants(grants, (client,))
        roles = {
            space_id: min(role, client_grants[space_id].role, key=ROLES.index)
            for space_id, role in roles.items()
            if space_id in client_grants
        }
    # Ids are ordered by time.
    spaces = [
        VisibleSpace(space_id=space_id, role=role, grant_id=own_grants[space_id].grant_id)
        for space_id, role in sorted(roles.items())[:MAX_SPACES]
    ]
    if {*principals, client}.isdisjoint(bound_principals):
        spaces.insert(0, VisibleSpace(space_id=DEFAULT_SPACE, role=WRITER, grant_id=None))
    return spaces


def highest_grants(grants: Iterable[SpaceGrant], principals: Iterable[str]) -> dict[UUID, SpaceGrant]:
    """Return of each space the grant with the highest role that some principals have."""
    known_principals = set(principals)
    highest: dict[UUID, SpaceGrant] = {}
    for grant in grants:
        if grant.principal in known_principals:
            other = highest.get(grant.space_id, grant)
            highest[grant.space_id] = max(other, grant, key=lambda each: ROLES.index(each.role))
    return highest


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessExplanation:
    """Why a principal sees a space, or does not."""

    # As in the enum AccessReason: "grant".
    reason: str
    space_id: UUID
    # Empty where the principal does not see the space.
    role: str = ""
    # The grants by which, or those that do not suffice.
    grants: tuple[SpaceGrant, ...] = ()
    is_bound: bool = False

    @property
    def expire_time(self) -> datetime | None:
        """When the first of the grants ends; None: when one is revoked."""
        return min((grant.expire_time for grant in self.grants if grant.expire_time is not None), default=None)


def explain(
    space_id: UUID,
    valid_grants: Sequence[SpaceGrant],
    grants_of_space: Sequence[SpaceGrant],
    bound_principals: Sequence[str],
    *,
    principals: Sequence[str],
    client: str,
    at: datetime,
) -> AccessExplanation:
    """Explain what `visible_spaces` shows of one space; `grants_of_space` has former grants too, the newest first."""
    result = AccessExplanation(reason="no_grant", space_id=space_id, is_bound=bool(bound_principals))
    own = highest_grants(valid_grants, principals).get(space_id)
    of_client = highest_grants(valid_grants, (client,)).get(space_id) if client else None
    grants = tuple(grant for grant in (own, of_client) if grant is not None)
    visible = visible_spaces(valid_grants, bound_principals, principals, client)
    role = {space.space_id: space.role for space in visible}.get(space_id, "")
    if space_id == DEFAULT_SPACE:
        return replace(result, reason="default_space" if role else "bound", role=role)
    if role:
        return replace(result, reason="grant", role=role, grants=grants)
    if own is not None:
        return replace(result, reason="client_not_granted" if client and not of_client else "too_many", grants=grants)
    former = next((grant for grant in grants_of_space if grant.principal in principals), None)
    if former is None:
        return result
    has_ended = (
        former.revoke_time is not None
        or (former.expire_time is not None and former.expire_time <= at)
        # A delegate sees the space, which is open therefore: its own grant has ended.
        or former.delegating_grant_id is not None
    )
    return replace(result, reason="grant_ended" if has_ended else "not_open", grants=(former,))


def principals_of(caller: Caller) -> list[str]:
    """Return the principals whose grants a caller has; the agent is that of its credential."""
    return [caller.principal, *([f"agent:{caller.agent_id}"] if caller.agent_id else ())]


def client_of(caller: Caller) -> str:
    """Return the principal of the application that acts for a person; empty for none."""
    # A service account's own client is no application that acts for another.
    return f"client:{caller.client_id}" if caller.client_id and caller.account_id is not None else ""
