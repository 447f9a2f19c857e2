"""What tests of agent states, short-term items and erasure share."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import asyncpg
from fix_cluster import Cluster, Stubs, Tenant
from fix_world import system_identity
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from skein.session.v1 import session_pb2, session_pb2_grpc

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


def data(**values: object) -> Struct:
    return json_format.ParseDict(values, Struct())


async def session(tenant: Tenant, name: str = "", **fields: Any) -> str:
    made = session_pb2.Session(session_id=name or uuid.uuid4().hex, **fields)
    return (await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=made))).session.session_id


async def superuser(cluster: Cluster) -> Connection:
    """Look into the database as its superuser, who sees all tenants; the caller closes it."""
    return await asyncpg.connect(cluster.postgres.url(user="postgres", database="skein"))


async def waiting(connection: Connection, count: int) -> None:
    """Wait until so many statements of others wait for a lock."""
    while True:
        found = await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        if found >= count:
            return
        await asyncio.sleep(0.02)
        # A transaction goes on seeing who was waiting when it first looked.
        await connection.execute("SELECT pg_stat_clear_snapshot()")


async def expire(cluster: Cluster, tenant: Tenant, table: str) -> None:
    """Let everything of a tenant in a table have expired a minute ago."""
    connection = await superuser(cluster)
    try:
        await connection.execute(
            f"UPDATE session.{table} SET expire_time = now() - interval '1 minute' WHERE tenant_id = $1",  # noqa: S608
            tenant.tenant_id,
        )
    finally:
        await connection.close()


async def sweep(cluster: Cluster, tenant: Tenant) -> int:
    """Do what the worker does with what is past its time."""
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("session") as channel:
        stub = session_pb2_grpc.SessionInternalServiceStub(Stubs.of(channel, token).channel)
        return (await stub.DeleteExpired(session_pb2.DeleteExpiredRequest())).deleted_count
