"""Conversion of exchange to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from skein_auth.exchange.model import AuthenticatedIdentity


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


def exchanged(token: str, ends: float) -> pb.ExchangeResponse:
    """`ends` is in Unix seconds."""
    return pb.ExchangeResponse(
        token=token, expire_time=well_known_types.to_timestamp(datetime.fromtimestamp(ends, UTC))
    )
