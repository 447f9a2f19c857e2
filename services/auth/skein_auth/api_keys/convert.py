"""Conversion of api keys to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg


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


def _text(value: object) -> str:
    return "" if value is None else str(value)
