"""Permissions of new keys and service accounts: never more than their creator's, and never for longer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from skein_kit.errors import AccountRequired, FieldInvalid, PermissionEscalation
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import AGENT_PERMISSIONS, OPERATOR, TENANT_PERMISSIONS
from skein_kit.ids import parse_id


def permissions_to_grant(requested_permissions: Sequence[str], agent_id: str, creator: Caller) -> list[str]:
    """Return the permissions of a new key: the requested ones.

    When none is requested, a key that acts as an agent gets those of its creator's that remembering and recalling need,
    and any other key all of them.

    Raises FieldInvalid for a permission that no tenant's key can have, and PermissionEscalation for one that the
    creator lacks.
    """
    require_known_permissions(requested_permissions)
    missing_permissions = sorted(set(requested_permissions) - creator.permissions)
    if missing_permissions:
        raise PermissionEscalation(permission=" ".join(missing_permissions))
    default = AGENT_PERMISSIONS if agent_id else TENANT_PERMISSIONS
    return sorted(set(requested_permissions) or default & creator.permissions)


def require_known_permissions(requested_permissions: Sequence[str]) -> None:
    """Raises FieldInvalid for a permission that no tenant's key can have."""
    unknown_indexes = [
        index for index, permission in enumerate(requested_permissions) if permission not in TENANT_PERMISSIONS
    ]
    if unknown_indexes:
        names = ", ".join(sorted(TENANT_PERMISSIONS))
        raise FieldInvalid(
            violations=[(f"permissions[{index}]", f"must be one of {names}") for index in unknown_indexes]
        )


def creator_id(creator: Caller) -> UUID | None:
    """Return the key, or the client's grant, of the creator's call; None for people and the cluster's services."""
    kind, _, name = creator.principal.partition(":")
    if kind in {"api_key", "operator"}:
        return parse_id(name)
    return creator.auth_session_id if kind == "service_account" or creator.client_id else None


def agent_to_grant(requested_agent_id: str, creator: Caller) -> str:
    """Return the agent of a new key. Raises PermissionEscalation unless a creator with an agent names that agent."""
    if creator.agent_id and requested_agent_id not in ("", creator.agent_id):
        raise PermissionEscalation(agent_id=creator.agent_id)
    return requested_agent_id or creator.agent_id


def require_person(caller: Caller) -> None:
    """Raises AccountRequired for clients, keys and service accounts; operators count as people."""
    is_person = caller.account_id is not None and not caller.client_id
    if not is_person and OPERATOR not in caller.permissions:
        raise AccountRequired


def require_subset(permissions: Iterable[str], agent_id: str, holder: Caller) -> None:
    """Raises PermissionEscalation when the holder lacks one of the permissions, or the agent."""
    missing_permissions = sorted(TENANT_PERMISSIONS.intersection(permissions) - holder.permissions)
    if missing_permissions:
        raise PermissionEscalation(permission=" ".join(missing_permissions))
    if holder.agent_id and agent_id != holder.agent_id:
        raise PermissionEscalation(agent_id=holder.agent_id)
