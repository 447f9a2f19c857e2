"""Service accounts: their values, what a new one holds, and the rules of a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_auth import permissions
from skein_kit.identity.identity_token import Caller

UPDATABLE = ("display_name", "permissions", "agent_id", "disabled")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAccount:
    """A service account of a tenant."""

    service_account_id: UUID
    display_name: str
    permissions: Sequence[str]
    # None: its keys may act as any agent.
    agent_id: str | None
    disabled: bool
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    # The applications' grants that created it.
    grant_ids: Sequence[UUID]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAccountDraft:
    """The validated content of a service account to be created."""

    display_name: str
    permissions: list[str]
    agent_id: str
    disabled: bool
    created_by: str
    grant_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAccountChange:
    """New values for some fields of one service account."""

    service_account_id: UUID
    # 0: any revision.
    revision: int
    values: Mapping[str, object]
    caller: Caller

    def apply(self, current: ServiceAccount) -> dict[str, object]:
        """Return the new values of all fields that can change. Raises PermissionEscalation.

        The caller needs each permission, and the agent, that it adds. To enable a disabled service account it needs
        all that the account has.
        """
        new: dict[str, object] = {name: getattr(current, name) for name in UPDATABLE} | dict(self.values)
        new["agent_id"] = new["agent_id"] or None
        before, after = frozenset(current.permissions), frozenset(_texts(new["permissions"]))
        is_enabled = current.disabled and not new["disabled"]
        added_permissions = after if is_enabled else after - before
        is_agent_checked = bool(added_permissions) or is_enabled or new["agent_id"] != current.agent_id
        permissions.require_subset(
            added_permissions, str(new["agent_id"] or "") if is_agent_checked else self.caller.agent_id, self.caller
        )
        return new


def _texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else []
