"""Conversion of service accounts to protobuf messages; secrets and hashes stay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    import asyncpg


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
