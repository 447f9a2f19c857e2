"""Spaces, grants, and what a caller sees by them. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import FieldInvalid, PermissionMissing, SpaceNotFound
from skein_kit.identity.spaces import DEFAULT_SPACE, MANAGER, MAX_SPACES, ROLES, WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.identity.identity_token import Caller
    from skein_kit.identity.spaces import Spaces

# Of a tenant, so that a list of them is read at once.
MAX_SPACES_OF_TENANT = 1000
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

    space_id: UUID
    # account:<id>, api_key:<id>, service_account:<id>, agent:<id> or client:<id>.
    principal: str
    role: str
    # None: until it is revoked.
    expire_time: datetime | None
    is_delegable: bool
    create_time: datetime
    created_by: str

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


def require_grant(caller: Caller, grant: SpaceGrant, own_grants: Iterable[SpaceGrant]) -> None:
    """Raise PermissionMissing unless the caller may give a grant: a manager, or within a delegable one of its own."""
    if not (is_manager(caller, grant.space_id) or any(grant.is_within(own) for own in own_grants)):
        raise PermissionMissing(permission=PERMISSION)


def require_binding(caller: Caller, principal: str) -> None:
    """Raise PermissionMissing unless the caller may bind others, and FieldInvalid where it would bind itself."""
    if not sees_all(caller):
        raise PermissionMissing(permission=PERMISSION)
    if principal in principals_of(caller):
        raise FieldInvalid(violations=[("principal", "is the caller itself")])


def visible_spaces(
    grants: Sequence[SpaceGrant], bound_principals: Iterable[str], principals: Sequence[str], client: str
) -> Spaces:
    """Return what a caller sees by the valid grants of its principals, at most MAX_SPACES beside the default space.

    An application sees what both it and the person for whom it acts may see. The default space is everybody's, except
    those who are bound.
    """
    roles = _roles(grants, principals)
    if client:
        client_roles = _roles(grants, (client,))
        roles = {
            space_id: min(role, client_roles[space_id], key=ROLES.index)
            for space_id, role in roles.items()
            if space_id in client_roles
        }
    # Ids are ordered by time.
    spaces = tuple(sorted(roles.items()))[:MAX_SPACES]
    is_bound = not {*principals, client}.isdisjoint(bound_principals)
    return spaces if is_bound else ((DEFAULT_SPACE, WRITER), *spaces)


def _roles(grants: Iterable[SpaceGrant], principals: Iterable[str]) -> Mapping[UUID, str]:
    """Return the highest role of some principals in each space."""
    roles: dict[UUID, str] = {}
    known_principals = set(principals)
    for grant in grants:
        if grant.principal in known_principals:
            roles[grant.space_id] = max(grant.role, roles.get(grant.space_id, grant.role), key=ROLES.index)
    return roles


def principals_of(caller: Caller) -> list[str]:
    """Return the principals whose grants a caller has; the agent is that of its credential."""
    return [caller.principal, *([f"agent:{caller.agent_id}"] if caller.agent_id else ())]
