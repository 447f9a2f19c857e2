"""Conversion of federation to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg


def identity(row: asyncpg.Record) -> accounts_pb2.Identity:
    return accounts_pb2.Identity(
        identity_id=str(row["identity_id"]),
        provider=row["provider"],
        subject=row["subject"],
        login=row["login"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
    )
