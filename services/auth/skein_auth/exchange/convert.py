"""Identities as protobuf messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from skein_auth.exchange.model import AuthenticatedIdentity


def introspection(identity: AuthenticatedIdentity | None) -> pb.IntrospectResponse:
    """None is a credential that is not active; the response contains nothing else."""
    if identity is None:
        return pb.IntrospectResponse(active=False)
    return pb.IntrospectResponse(
        active=True,
        principal=identity.caller.principal,
        tenant_id=str(identity.caller.tenant_id),
        permissions=sorted(identity.caller.permissions),
        expire_time=well_known_types.to_timestamp(identity.expire_time),
    )


def exchange_response(token: str, expire_time: float) -> pb.ExchangeResponse:
    """`expire_time` is in Unix seconds."""
    return pb.ExchangeResponse(
        token=token, expire_time=well_known_types.to_timestamp(datetime.fromtimestamp(expire_time, UTC))
    )
