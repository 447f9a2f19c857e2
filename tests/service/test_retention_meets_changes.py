"""A row that changes while retention selects it is not purged."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from fix_memory import MemoryServer
from fix_states import waiting

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def test_a_memory_that_was_just_changed_is_not_purged_for_its_age(memory_server: MemoryServer) -> None:
    memory = pb.Memory(content="of another age")
    memory.create_time.FromDatetime(LONG_AGO)
    async with (
        memory_server.serving(),
        memory_server.database.superuser() as connection,
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, retention_days, update_time) VALUES ($1, 365, now())",
            memory_server.tenant_id,
        )
        created = await rpc.MemoryServiceStub(channel).CreateMemory(pb.CreateMemoryRequest(memory=memory))
        await connection.execute("UPDATE memory.memories SET update_time = $1, record_time = $1", LONG_AGO)
        async with connection.transaction():
            await connection.execute("UPDATE memory.memories SET update_time = now(), record_time = now()")
            retaining = asyncio.ensure_future(
                rpc.MemoryInternalServiceStub(system).ApplyRetention(pb.ApplyRetentionRequest())
            )
            async with asyncio.timeout(60), memory_server.database.superuser() as watching:
                await waiting(watching, 1)
        done = await retaining
        response = await rpc.MemoryServiceStub(channel).GetMemory(
            pb.GetMemoryRequest(memory_id=created.memory.memory_id)
        )

    assert done.purged_count == 0
    assert response.memory.content == "of another age"
