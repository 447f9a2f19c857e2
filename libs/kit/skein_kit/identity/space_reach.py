"""The spaces that a call reaches: what a reader sees, and where a write acts. No SQL, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from skein_kit.errors import PermissionMissing, SpaceMissing, SpaceNotFound, SpaceReadOnly, SpacesUnsupported
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import ALL_SPACES, DEFAULT_SPACE, READER
from skein_kit.ids import parse_id

# Who may say who sees a space may let itself see all of them.
MANAGE_SPACES = "spaces.write"


def walled_reach(caller: Caller, named: str, *, is_write: bool) -> tuple[UUID, ...] | None:
    """Return the spaces that a call reaches: those of the caller, or the one that it names.

    A write reaches one, so that its rows lie where it looked. None in a tenant without spaces. Raises SpaceNotFound for
    a space that the caller does not see, SpaceReadOnly for a write of a reader, and SpaceMissing for a write of a
    caller with several spaces and without the default one.
    """
    check_named(caller, named)
    if caller.spaces is None:
        return None
    roles = dict(caller.spaces)
    space_id = parse_id(named)
    if space_id is None:
        if not is_write:
            return tuple(roles)
        if DEFAULT_SPACE not in roles and len(roles) > 1:
            raise SpaceMissing
        space_id = DEFAULT_SPACE if DEFAULT_SPACE in roles else next(iter(roles))
    if is_write and roles[space_id] == READER:
        raise SpaceReadOnly(space_id=str(space_id))
    return (space_id,)


def check_named(caller: Caller, named: str) -> None:
    """Raise SpaceNotFound if a call names a space that its caller does not see, also where the method has no items."""
    visible = {DEFAULT_SPACE} if caller.spaces is None else set(dict(caller.spaces))
    if named and parse_id(named) not in visible:
        raise SpaceNotFound(space_id=named)


def default_reach(caller: Caller, named: str) -> tuple[UUID, ...] | None:
    """Return the default space for a method whose items lie there; None in a tenant without spaces.

    Raises SpacesUnsupported for a call that names another space or does not see this one.
    """
    if named and parse_id(named) != DEFAULT_SPACE:
        raise SpacesUnsupported
    if caller.spaces is None:
        return None
    if DEFAULT_SPACE not in dict(caller.spaces):
        raise SpacesUnsupported
    return (DEFAULT_SPACE,)


def manages_spaces(caller: Caller) -> bool:
    """Return whether a caller manages the spaces of its tenant, and could let itself see them all."""
    is_bound = caller.spaces is not None and DEFAULT_SPACE not in dict(caller.spaces)
    return MANAGE_SPACES in caller.permissions and not is_bound


def whole_reach(caller: Caller, named: str) -> tuple[UUID, ...] | None:
    """Return the reach of a call that goes through every space, and shows no content of them.

    None in a tenant without spaces. Raises SpacesUnsupported for a call that names one space and for a caller that is
    bound to some, and PermissionMissing for one that does not manage the tenant's spaces.
    """
    if default_reach(caller, named) is None:
        return None
    if MANAGE_SPACES not in caller.permissions:
        raise PermissionMissing(permission=MANAGE_SPACES)
    return ALL_SPACES


def narrowed(reach: tuple[UUID, ...] | None, space_ids: Iterable[UUID]) -> tuple[UUID, ...] | None:
    """Return those spaces of a reach that are among some; None in a tenant without spaces."""
    known_ids = set(space_ids)
    return None if reach is None else tuple(space_id for space_id in reach if space_id in known_ids)
