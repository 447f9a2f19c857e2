"""What a new API key may carry: never more than its creator, and never for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_auth.errors import PermissionWidened
from skein_kit.access import TENANT_PERMISSIONS
from skein_kit.errors import FieldInvalid
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from skein_kit.identity import Caller


def granted(asked: Sequence[str], creator: Caller) -> list[str]:
    """Return the permissions of a new key: those asked for, or all that its creator has when none is.

    Raises FieldInvalid for a permission that no tenant's key can carry, and PermissionWidened for one that the creator
    lacks.
    """
    unknown = [index for index, permission in enumerate(asked) if permission not in TENANT_PERMISSIONS]
    if unknown:
        known = ", ".join(sorted(TENANT_PERMISSIONS))
        raise FieldInvalid(violations=[(f"permissions[{index}]", f"must be one of {known}") for index in unknown])
    lacking = sorted(set(asked) - creator.permissions)
    if lacking:
        raise PermissionWidened(permission=" ".join(lacking))
    return sorted(set(asked) or TENANT_PERMISSIONS & creator.permissions)


def creator_id(creator: Caller) -> UUID | None:
    """Return the id of the key that the creator calls with; None for the cluster's own services."""
    kind, _, name = creator.principal.partition(":")
    return parse_id(name) if kind in {"api_key", "operator"} else None


def agent(asked: str, creator: Caller) -> str:
    """Return the agent that a new key acts as; whoever acts as an agent makes keys for that agent alone."""
    if creator.agent_id and asked not in ("", creator.agent_id):
        raise PermissionWidened(agent_id=creator.agent_id)
    return asked or creator.agent_id
