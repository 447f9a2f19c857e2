"""What the worker does in the background, without the waiting: what follows a Forget, and the vectors of a backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fix_access_log import everything_logged
from fix_cluster import SYSTEM_KEY
from fix_identities import service_channel

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg
    from fix_cluster import Tenant

    Connection = asyncpg.Connection[asyncpg.Record]


async def finish(connection: Connection, tenant: Tenant, addresses: Mapping[str, str]) -> None:
    """Let the minutes pass in which calls are recorded late, and the worker come by."""
    await everything_logged(tenant)
    await connection.execute("UPDATE memory.erasures SET erase_time = erase_time - interval '10 minutes'")
    metadata = await _worker_s_metadata(tenant, addresses)
    async with service_channel(addresses["memory"], "memory") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        await stub.DeleteExpired(memory_pb2.DeleteExpiredRequest(), metadata=metadata)
    # It drops the frequencies of terms that no document has any more.
    await index_backlog(tenant, addresses)


async def index_backlog(tenant: Tenant, addresses: Mapping[str, str]) -> None:
    """Do the worker's round over the index, which embeds what was written without its vectors."""
    metadata = await _worker_s_metadata(tenant, addresses)
    async with service_channel(addresses["recall"], "recall") as channel:
        index = recall_pb2_grpc.RecallInternalServiceStub(channel)
        more = True
        while more:
            more = (await index.IndexBacklog(recall_pb2.IndexBacklogRequest(), metadata=metadata)).more


async def _worker_s_metadata(tenant: Tenant, addresses: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    system = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker")
    request = auth_pb2.ExchangeRequest(system=system, tenant_id=str(tenant.tenant_id))
    async with service_channel(addresses["auth"], "auth") as channel:
        identity = (await auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(request)).token
    return (("authorization", f"Bearer {identity}"),)
