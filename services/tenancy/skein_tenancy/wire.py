"""Rows of the tenancy schema as protobuf messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit import wire

if TYPE_CHECKING:
    import asyncpg


def organization(row: asyncpg.Record) -> pb.Organization:
    return pb.Organization(
        organization_id=str(row["organization_id"]),
        display_name=row["display_name"],
        slug=row["slug"],
        metadata=wire.struct(row["metadata"]),
        revision=row["revision"],
        create_time=wire.time(row["create_time"]),
        update_time=wire.time(row["update_time"]),
    )


def tenant(row: asyncpg.Record) -> pb.Tenant:
    return pb.Tenant(
        tenant_id=str(row["tenant_id"]),
        organization_id=str(row["organization_id"]),
        display_name=row["display_name"],
        slug=row["slug"],
        metadata=wire.struct(row["metadata"]),
        revision=row["revision"],
        create_time=wire.time(row["create_time"]),
        update_time=wire.time(row["update_time"]),
    )


def agent(row: asyncpg.Record) -> pb.Agent:
    return pb.Agent(
        agent_id=row["agent_id"],
        display_name=row["display_name"],
        agent_type=row["agent_type"],
        description=row["description"],
        system_prompt=row["system_prompt"],
        topic=row["topic"],
        metadata=wire.struct(row["metadata"]),
        llm_config=wire.struct(row["llm_config"]),
        embedding_config=wire.struct(row["embedding_config"]),
        tool_rules=wire.struct(row["tool_rules"]),
        mcp_servers=row["mcp_servers"],
        revision=row["revision"],
        create_time=wire.time(row["create_time"]),
        update_time=wire.time(row["update_time"]),
        created_by=row["created_by"],
        updated_by=row["updated_by"],
    )
