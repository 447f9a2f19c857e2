"""A deleted block goes for good: what it said, said before, and every copy."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_database import all_told
from fix_marker import places_of

from skein.memory.v1 import blocks_pb2 as pb
from skein.memory.v1 import history_pb2, snapshots_pb2

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


async def create(tenant: Tenant, block_id: str, value: str) -> None:
    block = pb.Block(block_id=block_id, label="human", value=value, description=value)
    await tenant.blocks.CreateBlock(pb.CreateBlockRequest(block=block, request_id="c"))
    await tenant.blocks.AppendToBlock(pb.AppendToBlockRequest(block_id=block_id, text=value, request_id="a"))
    await tenant.blocks.AttachBlock(pb.AttachBlockRequest(block_id=block_id, agent_id="kitchen"))


async def delete(tenant: Tenant, block_id: str) -> None:
    await tenant.blocks.DeleteBlock(pb.DeleteBlockRequest(block_id=block_id))


@pytest.mark.system
async def test_nothing_of_a_purged_block_is_left(cluster: Cluster, tenant: Tenant, connection: Connection) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await create(tenant, "gone", marker)
    snapshot = await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before"))
    await delete(tenant, "gone")
    assert len(await places_of(connection, marker)) >= 4

    dry = await tenant.blocks.PurgeBlock(pb.PurgeBlockRequest(block_id="gone", dry_run=True))
    assert len(await places_of(connection, marker)) >= 4
    wet = await tenant.blocks.PurgeBlock(pb.PurgeBlockRequest(block_id="gone", request_id="p"))
    again = await tenant.blocks.PurgeBlock(pb.PurgeBlockRequest(block_id="gone", request_id="p"))

    assert await places_of(connection, marker) == []
    assert again == wet
    assert (dry.receipt.dry_run, wet.receipt.dry_run) == (True, False)
    assert list(wet.receipt.block_ids) == ["gone"]
    assert dict(dry.receipt.deleted_counts) == dict(wet.receipt.deleted_counts)
    assert {"memory.blocks", "memory.revisions", "memory.snapshot_items", "memory.block_agents"} <= set(
        wet.receipt.deleted_counts
    )
    assert len(wet.receipt.digest) == 64
    await all_told(cluster.postgres)
    changes = await tenant.history.ListChanges(history_pb2.ListChangesRequest())
    assert [one.entity_id for one in changes.changes if one.event_type == "block_purged"] == ["gone"]
    restore = snapshots_pb2.RestoreSnapshotRequest(snapshot_id=snapshot.snapshot.snapshot_id, page_size=1000)
    while restore.page_token or not restore.request_id:
        restore.request_id = uuid.uuid4().hex
        restore.page_token = (await tenant.snapshots.RestoreSnapshot(restore)).next_page_token
    with refused(grpc.StatusCode.NOT_FOUND, "BLOCK_NOT_FOUND"):
        await tenant.blocks.GetBlock(pb.GetBlockRequest(block_id="gone", show_deleted=True))


async def test_a_block_that_is_not_deleted_is_not_purged(tenant: Tenant) -> None:
    await create(tenant, "there", "still here")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "BLOCK_NOT_DELETED"):
        await tenant.blocks.PurgeBlock(pb.PurgeBlockRequest(block_id="there"))

    assert (await tenant.blocks.GetBlock(pb.GetBlockRequest(block_id="there"))).block.value.startswith("still here")


async def test_a_block_that_the_caller_cannot_see_is_not_purged(tenant: Tenant, other_tenant: Tenant) -> None:
    await create(other_tenant, "theirs", "of others")
    await delete(other_tenant, "theirs")

    for block_id in ("theirs", "nowhere"):
        with refused(grpc.StatusCode.NOT_FOUND, "BLOCK_NOT_FOUND"):
            await tenant.blocks.PurgeBlock(pb.PurgeBlockRequest(block_id=block_id))

    await other_tenant.blocks.UndeleteBlock(pb.UndeleteBlockRequest(block_id="theirs"))


async def test_a_purged_block_s_name_is_free(tenant: Tenant) -> None:
    await create(tenant, "again", "first")
    await delete(tenant, "again")
    await tenant.blocks.PurgeBlock(pb.PurgeBlockRequest(block_id="again"))

    made = pb.CreateBlockRequest(block=pb.Block(block_id="again", label="human", value="second"), agent_id="kitchen")
    assert (await tenant.blocks.CreateBlock(made)).block.revision == 1
