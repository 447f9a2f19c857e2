"""Service accounts on their way in. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_auth import permissions
from skein_kit.errors import FieldInvalid
from skein_kit.ids import parse_id
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from google.protobuf.field_mask_pb2 import FieldMask

    from skein.auth.v1 import accounts_pb2 as pb
    from skein_kit.identity.identity_token import Caller

UPDATABLE = ("display_name", "permissions", "agent_id", "disabled")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A service account on its way in."""

    display_name: str
    permissions: list[str]
    agent_id: str
    disabled: bool
    created_by: str
    # The applications' grants that make it.
    grant_ids: tuple[UUID, ...] = ()

    @classmethod
    def of(cls, account: pb.ServiceAccount, creator: Caller) -> Draft:
        """Read it; without permissions it gets all that its creator has. Raises PermissionWidened and FieldInvalid."""
        _must_be_named(account)
        return cls(
            display_name=account.display_name,
            permissions=permissions.permissions_to_grant(account.permissions, creator),
            agent_id=permissions.agent_to_grant(account.agent_id, creator),
            disabled=account.disabled,
            created_by=creator.principal,
            grant_ids=creator.grant_ids,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """New values for some fields of one service account."""

    service_account_id: UUID
    # 0: whatever it is now.
    revision: int
    values: Mapping[str, object]
    by: Caller

    @classmethod
    def of(cls, account: pb.ServiceAccount, mask: FieldMask, by: Caller) -> Change:
        """Read the fields that the mask names; all when it names none. Raises FieldInvalid."""
        account_id = parse_id(account.service_account_id)
        if account_id is None:
            raise FieldInvalid(violations=[("service_account.service_account_id", "is not a UUID")])
        fields = well_known_types.updated_fields(mask, UPDATABLE)
        if "display_name" in fields:
            _must_be_named(account)
        if "permissions" in fields:
            permissions.require_known_permissions(account.permissions)
        values: dict[str, object] = {field: getattr(account, field) for field in fields - {"permissions"}}
        if "permissions" in fields:
            values["permissions"] = sorted(account.permissions)
        return cls(service_account_id=account_id, revision=account.revision, values=values, by=by)

    def applied(self, current: Mapping[str, object]) -> dict[str, object]:
        """Return all fields as they shall be. Raises PermissionWidened.

        Nobody adds a permission, or an agent, that they do not have themselves, nor lets loose again a service account
        that has more.
        """
        new = {name: current[name] for name in UPDATABLE} | dict(self.values)
        new["agent_id"] = new["agent_id"] or None
        before, after = frozenset(_texts(current["permissions"])), frozenset(_texts(new["permissions"]))
        let_loose = bool(current["disabled"]) and not new["disabled"]
        added = after if let_loose else after - before
        is_agent_concerned = bool(added) or let_loose or new["agent_id"] != current["agent_id"]
        permissions.require_subset(
            added, str(new["agent_id"] or "") if is_agent_concerned else self.by.agent_id, self.by
        )
        return new


def _texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else []


def _must_be_named(account: pb.ServiceAccount) -> None:
    if not account.display_name.strip():
        raise FieldInvalid(violations=[("service_account.display_name", "must not be empty")])
