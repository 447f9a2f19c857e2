"""Rows of the auth schema and identities as protobuf messages. Secrets and their hashes never pass here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit import wire

if TYPE_CHECKING:
    import asyncpg

    from skein_auth.identities import Identity
    from skein_auth.signing import NewKey
    from skein_kit.identity import Caller


def api_key(row: asyncpg.Record) -> pb.ApiKey:
    return pb.ApiKey(
        api_key_id=str(row["api_key_id"]),
        display_name=row["display_name"],
        permissions=row["permissions"],
        agent_id=row["agent_id"],
        create_time=wire.time(row["create_time"]),
        expire_time=wire.time(row["expire_time"]),
        revoke_time=wire.time(row["revoke_time"]),
        created_by=row["created_by"],
    )


def signing_key(row: asyncpg.Record) -> pb.SigningKey:
    return pb.SigningKey(
        key_id=row["key_id"],
        jwk=row["public_jwk"],
        create_time=wire.time(row["create_time"]),
        expire_time=wire.time(row["expire_time"]),
    )


def new_signing_key(key: NewKey) -> pb.SigningKey:
    return pb.SigningKey(key_id=key.key_id, jwk=key.public_jwk, create_time=wire.time(key.create_time))


def me(caller: Caller) -> pb.GetMeResponse:
    return pb.GetMeResponse(
        principal=caller.principal,
        tenant_id="" if caller.tenant_id is None else str(caller.tenant_id),
        permissions=sorted(caller.permissions),
        agent_id=caller.agent_id,
    )


def introspection(identity: Identity | None) -> pb.IntrospectResponse:
    """Say who it is; of None nothing but that it is not active."""
    if identity is None:
        return pb.IntrospectResponse(active=False)
    return pb.IntrospectResponse(
        active=True,
        principal=identity.caller.principal,
        tenant_id=str(identity.caller.tenant_id),
        permissions=sorted(identity.caller.permissions),
        expire_time=wire.time(identity.expire_time),
    )


def exchanged(token: str, ends: float) -> pb.ExchangeResponse:
    """`ends` is in Unix seconds."""
    return pb.ExchangeResponse(token=token, expire_time=wire.time(datetime.fromtimestamp(ends, UTC)))
