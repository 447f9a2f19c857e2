"""Accounts as protobuf messages, and drafts and changes of requests. Secrets and hashes stay out."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth.accounts.model import Account, AccountChange, AccountDraft, parse_email
from skein_auth.accounts.passwords import is_supported_hash
from skein_auth.errors import PasswordHashUnknown
from skein_kit.errors import FieldInvalid
from skein_kit.identity.identity_token import Caller
from skein_kit.rpc import well_known_types
from skein_kit.rpc.row_times import read_past_time
from skein_kit.rpc.well_known_types import to_message

_STATUSES = {
    "active": accounts_pb2.ACCOUNT_STATUS_ACTIVE,
    "deactivated": accounts_pb2.ACCOUNT_STATUS_DEACTIVATED,
}
_STATUS_NAMES = {number: name for name, number in _STATUSES.items()}
_OWN_FIELDS = ("display_name", "email")
_OPERATOR_FIELDS = ("status", "display_name", "email")


def account(value: Account) -> accounts_pb2.Account:
    return to_message(accounts_pb2.Account, value)


def account_state(value: Account) -> auth_pb2.GetAccountStateResponse:
    return auth_pb2.GetAccountStateResponse(
        account_id=str(value.account_id),
        email=value.email or "",
        email_verified=value.email_verify_time is not None,
        display_name=value.display_name,
        active=value.status == "active",
    )


def get_me_response(caller: Caller, own_account: Account | None) -> auth_pb2.GetMeResponse:
    """`own_account` is the account of a caller with an auth session of its own, None for other callers."""
    return auth_pb2.GetMeResponse(
        principal=caller.principal,
        tenant_id="" if caller.tenant_id is None else str(caller.tenant_id),
        permissions=sorted(caller.permissions),
        agent_id=caller.agent_id,
        client_id=caller.client_id,
        role=caller.role,
        account=None if own_account is None else account(own_account),
    )


def draft(request: accounts_pb2.CreateAccountRequest, *, at: datetime) -> AccountDraft:
    """Read the operator's request at the time `at`. Raises PasswordHashUnknown and FieldInvalid."""
    if request.password_hash and not is_supported_hash(request.password_hash):
        raise PasswordHashUnknown
    return AccountDraft(
        email=parse_email(request.email),
        display_name=request.display_name,
        password_hash=request.password_hash or None,
        email_verified=request.email_verified,
        create_time=read_past_time(request, "create_time", at),
        update_time=read_past_time(request, "update_time", at),
    )


def own_change(account_id: UUID, message: accounts_pb2.Account, mask: FieldMask) -> AccountChange:
    """Read a person's change of their own account; without a mask, the display name alone. Raises FieldInvalid."""
    fields = well_known_types.updated_fields(mask, _OWN_FIELDS) if mask.paths else frozenset({"display_name"})
    return AccountChange(account_id=account_id, revision=message.revision, values=_values(message, fields))


def operator_change(account_id: UUID, message: accounts_pb2.Account, mask: FieldMask) -> AccountChange:
    """Read the operator's change; without a mask, of all fields that can change. Raises FieldInvalid."""
    fields = well_known_types.updated_fields(mask, _OPERATOR_FIELDS)
    return AccountChange(account_id=account_id, revision=message.revision, values=_values(message, fields))


def _values(message: accounts_pb2.Account, fields: frozenset[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    if "display_name" in fields:
        values["display_name"] = message.display_name
    if "email" in fields:
        values["email"] = parse_email(message.email, "account.email")
    if "status" in fields:
        if message.status not in _STATUS_NAMES:
            raise FieldInvalid(violations=[("account.status", "should be active or deactivated")])
        values["status"] = _STATUS_NAMES[message.status]
    return values
