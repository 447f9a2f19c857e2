"""Rows of the auth schema and identities as protobuf messages. Secrets and their hashes never pass here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg

    from skein_auth.exchange.authenticator import AuthenticatedIdentity
    from skein_auth.signing.keyring import NewKey, Purpose
    from skein_kit.identity.identity_token import Caller

_STATUSES = {
    "active": accounts_pb2.ACCOUNT_STATUS_ACTIVE,
    "deactivated": accounts_pb2.ACCOUNT_STATUS_DEACTIVATED,
}
_OUTCOMES = {
    "success": accounts_pb2.AUDIT_OUTCOME_SUCCESS,
    "refused": accounts_pb2.AUDIT_OUTCOME_REFUSED,
}


def api_key(row: asyncpg.Record) -> pb.ApiKey:
    return pb.ApiKey(
        api_key_id=str(row["api_key_id"]),
        display_name=row["display_name"],
        permissions=row["permissions"],
        agent_id=row["agent_id"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        expire_time=well_known_types.to_timestamp(row["expire_time"]),
        revoke_time=well_known_types.to_timestamp(row["revoke_time"]),
        created_by=row["created_by"],
        service_account_id=_text(row["service_account_id"]),
        use_time=well_known_types.to_timestamp(row["use_time"]),
        replaced_by=_text(row["replaced_by"]),
        grant_ids=[str(grant_id) for grant_id in row["grant_ids"]],
    )


def service_account(row: asyncpg.Record) -> accounts_pb2.ServiceAccount:
    return accounts_pb2.ServiceAccount(
        service_account_id=str(row["service_account_id"]),
        display_name=row["display_name"],
        permissions=row["permissions"],
        agent_id=row["agent_id"],
        disabled=row["disabled"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        created_by=row["created_by"],
        grant_ids=[str(grant_id) for grant_id in row["grant_ids"]],
    )


def signing_key(row: asyncpg.Record) -> pb.SigningKey:
    return pb.SigningKey(
        key_id=row["key_id"],
        jwk=row["public_jwk"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        expire_time=well_known_types.to_timestamp(row["expire_time"]),
    )


def new_signing_key(key: NewKey) -> pb.SigningKey:
    return pb.SigningKey(
        key_id=key.key_id, jwk=key.public_jwk, create_time=well_known_types.to_timestamp(key.create_time)
    )


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


def introspection(identity: AuthenticatedIdentity | None) -> pb.IntrospectResponse:
    """Say who it is; of None nothing but that it is not active."""
    if identity is None:
        return pb.IntrospectResponse(active=False)
    return pb.IntrospectResponse(
        active=True,
        principal=identity.caller.principal,
        tenant_id=str(identity.caller.tenant_id),
        permissions=sorted(identity.caller.permissions),
        expire_time=well_known_types.to_timestamp(identity.expire_time),
    )


def audit_event(row: asyncpg.Record) -> accounts_pb2.AuditEvent:
    return accounts_pb2.AuditEvent(
        audit_event_id=str(row["audit_event_id"]),
        event=row["event"],
        outcome=_OUTCOMES[row["outcome"]],
        reason=row["reason"],
        principal=row["principal"],
        target=row["target"],
        client_id=row["client_id"],
        address=row["address"],
        user_agent=row["user_agent"],
        request_id=row["request_id"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
    )


def purpose(value: int) -> Purpose:
    return "access" if value == pb.SIGNING_KEY_PURPOSE_ACCESS else "identity"


def exchanged(token: str, ends: float) -> pb.ExchangeResponse:
    """`ends` is in Unix seconds."""
    return pb.ExchangeResponse(
        token=token, expire_time=well_known_types.to_timestamp(datetime.fromtimestamp(ends, UTC))
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def identity(row: asyncpg.Record) -> accounts_pb2.Identity:
    return accounts_pb2.Identity(
        identity_id=str(row["identity_id"]),
        provider=row["provider"],
        subject=row["subject"],
        login=row["login"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
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
