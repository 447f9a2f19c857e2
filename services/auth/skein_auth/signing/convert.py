"""Conversion of signing to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg

    from skein_auth.signing.model import NewKey, Purpose


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


def purpose(value: int) -> Purpose:
    return "access" if value == pb.SIGNING_KEY_PURPOSE_ACCESS else "identity"
