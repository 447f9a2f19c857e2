"""What retention purges by its age: never a row that changes meanwhile, and former rows of all kinds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from fix_cluster import Cluster, Tenant
from fix_memory import MemoryServer
from fix_states import waiting
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import blocks_pb2, blocks_pb2_grpc, curation_pb2, curation_pb2_grpc
from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2_grpc

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.system
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


async def former_rows(connection: Connection, tables: tuple[str, ...], tenant_id: object) -> list[int]:
    return [
        await connection.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id = $1", tenant_id)  # noqa: S608 - constants.
        for table in tables
    ]


@pytest.mark.system
async def test_former_blocks_and_ratings_go_when_they_ended_before_the_retention(memory_server: MemoryServer) -> None:
    tables = ("memory.revisions", "memory.block_agents_history", "memory.source_trust_history")
    async with (
        memory_server.serving(),
        memory_server.database.superuser() as connection,
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
        memory_server.channel(system=True, tenant=False) as directory,
    ):
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, retention_days, update_time) VALUES ($1, 365, now())",
            memory_server.tenant_id,
        )
        blocks, curation = blocks_pb2_grpc.BlockServiceStub(channel), curation_pb2_grpc.CurationServiceStub(channel)
        internal = rpc.MemoryInternalServiceStub(system)
        block = blocks_pb2.Block(block_id="b", label="human", value="first")
        await blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="kitchen"))
        await blocks.DetachBlock(blocks_pb2.DetachBlockRequest(block_id="b", agent_id="kitchen"))
        for number in range(3):
            block.value = f"value {number}"
            mask = FieldMask(paths=["value"])
            await blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=block, update_mask=mask))
            rating = curation_pb2.SetSourceTrustRequest(source="wiki", trust=number / 4)
            await curation.SetSourceTrust(rating)
        recent = await former_rows(connection, tables, memory_server.tenant_id)
        await internal.ApplyRetention(pb.ApplyRetentionRequest())
        kept = await former_rows(connection, tables, memory_server.tenant_id)
        for table in tables:
            await connection.execute(f"UPDATE {table} SET until_time = $1", LONG_AGO)  # noqa: S608 - constants.
        listing = pb.ListDueTenantsRequest(work=pb.DUE_WORK_LIFECYCLE)
        due = await rpc.MemoryInternalServiceStub(directory).ListDueTenants(listing)
        await internal.ApplyRetention(pb.ApplyRetentionRequest())
        due_later = await rpc.MemoryInternalServiceStub(directory).ListDueTenants(listing)
        left = await former_rows(connection, tables, memory_server.tenant_id)
        block_now = await blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id="b"))

    assert min(recent) > 0
    assert kept == recent
    assert list(due.tenant_ids) == [str(memory_server.tenant_id)]
    assert list(due_later.tenant_ids) == []
    assert left == [0, 0, 0]
    assert block_now.block.value == "value 2"


async def test_former_profiles_and_policies_go_when_they_ended_before_the_retention(
    cluster: Cluster, tenant: Tenant
) -> None:
    tables = ("tenancy.subjects_history", "tenancy.policies_history")
    # First of all: a write reads the policy, which is cached for a second.
    for number in range(2):
        policy = subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(retention_days=365, decay_days=number + 3),
            update_mask=FieldMask(paths=["retention_days", "decay_days"]),
        )
        await tenant.tenancy.UpdatePolicy(policy)
    subject = subjects_pb2.Subject(subject_id="ann", display_name="Ann Miller")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    for number in range(2):
        subject.display_name = f"Ann {number}"
        mask = FieldMask(paths=["display_name"])
        await tenant.tenancy.UpdateSubject(subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=mask))
    identity = await system_identity(cluster, str(tenant.tenant_id))

    async def expire() -> None:
        async with cluster.direct("tenancy") as channel:
            stub = tenancy_pb2_grpc.TenancyInternalServiceStub(channel)
            metadata = (("authorization", f"Bearer {identity}"),)
            await stub.DeleteExpired(members_pb2.DeleteExpiredRequest(), metadata=metadata)

    async with cluster.superuser() as connection:
        recent = await former_rows(connection, tables, tenant.tenant_id)
        await expire()
        kept = await former_rows(connection, tables, tenant.tenant_id)
        for table in tables:
            await connection.execute(
                f"UPDATE {table} SET until_time = $2 WHERE tenant_id = $1",  # noqa: S608 - constants.
                tenant.tenant_id,
                LONG_AGO,
            )
        await expire()
        left = await former_rows(connection, tables, tenant.tenant_id)

    assert min(recent) > 0
    assert kept == recent
    assert left == [0, 0]
    found = await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="ann"))
    assert found.subject.display_name == "Ann 1"
