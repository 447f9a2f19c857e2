"""Blocks, snapshots, agents' states and sessions' items count against quotas, as they come and as they go."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import blocks_pb2, memory_pb2, snapshots_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import limits_pb2

KINDS = ("blocks", "snapshots", "agent_states", "session_items")


async def used(tenant: Tenant) -> dict[str, int]:
    answer = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())
    return {one.kind: one.used for one in answer.usage if one.kind in KINDS and one.used}


async def block(tenant: Tenant, name: str) -> None:
    made = blocks_pb2.Block(block_id=name, label=name, value="x", subject_id="ann" if name == "of ann" else "")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=made))


async def snapshot(tenant: Tenant, name: str) -> str:
    made = await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label=name))
    return made.snapshot.snapshot_id


async def state(tenant: Tenant, name: str, session_id: str = "") -> None:
    data = Struct()
    data.update({"step": name})
    made = states_pb2.AgentState(agent_id=name, session_id=session_id, state_data=data)
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=made))


async def item(tenant: Tenant, name: str) -> None:
    await tenant.sessions.PutSessionItem(
        states_pb2.PutSessionItemRequest(session_id="s", key=name, value={"string_value": "v"}, ttl={"seconds": 60})
    )


async def session(tenant: Tenant) -> None:
    await tenant.sessions.CreateSession(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="s", subject_id="ann"))
    )


MAKERS: dict[str, Callable[..., Any]] = {
    "blocks": block, "snapshots": snapshot, "agent_states": state, "session_items": item,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_more_than_the_limit_is_refused(cluster: Cluster, tenant: Tenant, kind: str) -> None:
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    quota = limits_pb2.Quota()
    setattr(quota, kind, 2)
    await operator.tenancy.UpdateQuota(limits_pb2.UpdateQuotaRequest(quota=quota, update_mask=FieldMask(paths=[kind])))
    # Afterwards, as what is limited is remembered for a while.
    await session(tenant)
    for name in ("one", "two"):
        await MAKERS[kind](tenant, name)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await MAKERS[kind](tenant, "three")

    assert await used(tenant) == {kind: 2}
    limits = (await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())).usage
    assert next(one.limit for one in limits if one.kind == kind) == 2


@pytest.mark.system
async def test_what_is_replaced_counts_once_and_what_goes_counts_no_more(tenant: Tenant) -> None:
    await session(tenant)
    for name in ("a", "b"):
        await block(tenant, name)
        await state(tenant, name)
        await state(tenant, name)
        await item(tenant, name)
        await item(tenant, name)
    first = await snapshot(tenant, "first")
    await snapshot(tenant, "second")
    assert await used(tenant) == dict.fromkeys(KINDS, 2)

    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="a"))
    await tenant.sessions.DeleteAgentState(states_pb2.DeleteAgentStateRequest(agent_id="a"))
    await tenant.sessions.DeleteSessionItem(states_pb2.DeleteSessionItemRequest(session_id="s", key="a"))
    await tenant.snapshots.DeleteSnapshot(snapshots_pb2.DeleteSnapshotRequest(snapshot_id=first))
    assert await used(tenant) == dict.fromkeys(KINDS, 1)

    await tenant.blocks.UndeleteBlock(blocks_pb2.UndeleteBlockRequest(block_id="a"))
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="s"))
    assert await used(tenant) == {"blocks": 2, "snapshots": 1, "agent_states": 1}

    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="b"))
    await tenant.blocks.PurgeBlock(blocks_pb2.PurgeBlockRequest(block_id="b"))
    assert (await used(tenant))["blocks"] == 1


@pytest.mark.system
async def test_a_person_s_blocks_count_no_more_after_the_purge_and_states_stay(tenant: Tenant) -> None:
    await session(tenant)
    await state(tenant, "kitchen", "s")
    await item(tenant, "a")
    await block(tenant, "of ann")
    await block(tenant, "of nobody")

    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="ann"))
    purged = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="s"))

    assert list(purged.receipt.block_ids) == ["of ann"]
    # The state of an agent outlives the session in which it was put.
    assert await used(tenant) == {"blocks": 1, "agent_states": 1}


async def test_what_a_snapshot_brings_back_is_counted(tenant: Tenant) -> None:
    await block(tenant, "kept")
    snapshot_id = await snapshot(tenant, "before")
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="kept"))
    await block(tenant, "new")

    restore = snapshots_pb2.RestoreSnapshotRequest(snapshot_id=snapshot_id, replace=True, page_size=1000)
    while restore.page_token or not restore.request_id:
        restore.request_id = uuid.uuid4().hex
        restore.page_token = (await tenant.snapshots.RestoreSnapshot(restore)).next_page_token

    assert await used(tenant) == {"blocks": 1, "snapshots": 1}
