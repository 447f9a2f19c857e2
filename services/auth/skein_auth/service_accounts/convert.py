"""Service accounts as protobuf messages, and drafts and changes of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth import permissions
from skein_auth.service_accounts.model import UPDATABLE, ServiceAccountChange, ServiceAccountDraft
from skein_kit.errors import FieldInvalid
from skein_kit.ids import parse_id
from skein_kit.rpc import well_known_types
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from google.protobuf.field_mask_pb2 import FieldMask

    from skein_auth.service_accounts.model import ServiceAccount
    from skein_kit.identity.identity_token import Caller


def service_account(value: ServiceAccount) -> pb.ServiceAccount:
    return pb.ServiceAccount(
        service_account_id=str(value.service_account_id),
        display_name=value.display_name,
        permissions=value.permissions,
        agent_id=value.agent_id,
        disabled=value.disabled,
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        grant_ids=map(str, value.grant_ids),
    )


def draft(message: pb.ServiceAccount, creator: Caller) -> ServiceAccountDraft:
    """Without permissions it gets all that its creator has. Raises PermissionEscalation and FieldInvalid."""
    _require_name(message)
    return ServiceAccountDraft(
        display_name=message.display_name,
        permissions=permissions.permissions_to_grant(message.permissions, creator),
        agent_id=permissions.agent_to_grant(message.agent_id, creator),
        disabled=message.disabled,
        created_by=creator.principal,
        grant_ids=creator.grant_ids,
    )


def change(message: pb.ServiceAccount, mask: FieldMask, by: Caller) -> ServiceAccountChange:
    """Read the fields that the mask names, or all when it is empty. Raises FieldInvalid."""
    account_id = parse_id(message.service_account_id)
    if account_id is None:
        raise FieldInvalid(violations=[("service_account.service_account_id", "is not a UUID")])
    fields = well_known_types.updated_fields(mask, UPDATABLE)
    if "display_name" in fields:
        _require_name(message)
    values: dict[str, object] = {field: getattr(message, field) for field in fields - {"permissions"}}
    if "permissions" in fields:
        permissions.require_known_permissions(message.permissions)
        values["permissions"] = sorted(message.permissions)
    return ServiceAccountChange(service_account_id=account_id, revision=message.revision, values=values, by=by)


def _require_name(message: pb.ServiceAccount) -> None:
    if not message.display_name.strip():
        raise FieldInvalid(violations=[("service_account.display_name", "must not be empty")])
