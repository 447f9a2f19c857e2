"""What new keys and service accounts may carry: never more than their creator, and never for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import AccountRequired, FieldInvalid, PermissionEscalation
from skein_kit.identity.permissions import OPERATOR, TENANT_PERMISSIONS
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from skein_kit.identity.identity_token import Caller


def permissions_to_grant(asked: Sequence[str], creator: Caller) -> list[str]:
    """Return the permissions of a new key: those asked for, or all that its creator has when none is.

    Raises FieldInvalid for a permission that no tenant's key can carry, and PermissionEscalation for one that the
    creator lacks.
    """
    require_known_permissions(asked)
    lacking = sorted(set(asked) - creator.permissions)
    if lacking:
        raise PermissionEscalation(permission=" ".join(lacking))
    return sorted(set(asked) or TENANT_PERMISSIONS & creator.permissions)


def require_known_permissions(asked: Sequence[str]) -> None:
    """Refuse, with FieldInvalid, a permission that no tenant's key can carry."""
    unknown = [index for index, permission in enumerate(asked) if permission not in TENANT_PERMISSIONS]
    if unknown:
        names = ", ".join(sorted(TENANT_PERMISSIONS))
        raise FieldInvalid(violations=[(f"permissions[{index}]", f"must be one of {names}") for index in unknown])


def creator_id(creator: Caller) -> UUID | None:
    """Return the key or the application's grant that the creator calls with; None for people and our own services."""
    kind, _, name = creator.principal.partition(":")
    if kind in {"api_key", "operator"}:
        return parse_id(name)
    return creator.sign_in_id if kind == "service_account" or creator.client_id else None


def agent_to_grant(asked: str, creator: Caller) -> str:
    """Return the agent that a new key acts as; whoever acts as an agent makes keys for that agent alone."""
    if creator.agent_id and asked not in ("", creator.agent_id):
        raise PermissionEscalation(agent_id=creator.agent_id)
    return asked or creator.agent_id


def require_person(caller: Caller) -> None:
    """Refuse applications, keys and service accounts with AccountRequired; operators count as people."""
    is_own_sign_in = caller.account_id is not None and not caller.client_id
    if not is_own_sign_in and OPERATOR not in caller.permissions:
        raise AccountRequired


def require_subset(permissions: Iterable[str], agent_id: str, holder: Caller) -> None:
    """Refuse to hand somebody what they do not have themselves. Raises PermissionEscalation."""
    lacking = sorted(TENANT_PERMISSIONS.intersection(permissions) - holder.permissions)
    if lacking:
        raise PermissionEscalation(permission=" ".join(lacking))
    if holder.agent_id and agent_id != holder.agent_id:
        raise PermissionEscalation(agent_id=holder.agent_id)
