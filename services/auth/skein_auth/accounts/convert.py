"""Conversion of accounts to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg

    from skein_kit.identity.identity_token import Caller

_STATUSES = {
    "active": accounts_pb2.ACCOUNT_STATUS_ACTIVE,
    "deactivated": accounts_pb2.ACCOUNT_STATUS_DEACTIVATED,
}


def standing(account: accounts_pb2.Account) -> pb.GetAccountStandingResponse:
    return pb.GetAccountStandingResponse(
        account_id=account.account_id,
        email=account.email,
        email_verified=account.HasField("email_verify_time"),
        display_name=account.display_name,
        active=account.status == accounts_pb2.ACCOUNT_STATUS_ACTIVE,
    )


def me(caller: Caller, account: accounts_pb2.Account | None) -> pb.GetMeResponse:
    """Say who calls; with the account of a sign-in of its own."""
    return pb.GetMeResponse(
        principal=caller.principal,
        tenant_id="" if caller.tenant_id is None else str(caller.tenant_id),
        permissions=sorted(caller.permissions),
        agent_id=caller.agent_id,
        client_id=caller.client_id,
        role=caller.role,
        account=account,
    )


def account(row: asyncpg.Record) -> accounts_pb2.Account:
    return accounts_pb2.Account(
        account_id=str(row["account_id"]),
        email=row["email"] or "",
        email_verify_time=well_known_types.to_timestamp(row["email_verify_time"]),
        display_name=row["display_name"],
        status=_STATUSES[row["status"]],
        has_password=row["has_password"],
        has_totp=row["has_totp"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
    )
