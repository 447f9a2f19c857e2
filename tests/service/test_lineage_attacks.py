"""What an agent with memory.read and memory.write does to its own trust."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_lineage import AGENT, create, impacted, named, of, rate, replace_sources, rescore, trust_of

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2, snapshots_pb2


async def test_a_chain_that_grows_from_below_stops_no_rating(cluster: Cluster, tenant: Tenant) -> None:
    chain: list[memory_pb2.Memory] = []
    for start in (0, 130):
        memories = [memory_pb2.Memory(content=f"Link {start + number}.") for number in range(130)]
        if start:
            memories[-1].source = "parrot"
        request = memory_pb2.BatchCreateMemoriesRequest(memories=memories, defer_embedding=True)
        chain += (await tenant.memory.BatchCreateMemories(request)).memories
    for memory, source in pairwise(chain):
        await replace_sources(tenant, memory, of(source))
    other = await create(tenant, "Anna drinks gin.", source="parrot")

    await rate(tenant, "parrot", 0.2)
    await rescore(cluster, tenant)

    assert await trust_of(tenant, other) == pytest.approx(0.2)
    listed = await impacted(tenant, named(AGENT, "parrot"), page_size=500)
    assert {one.memory_id for one in listed} == {memory.memory_id for memory in [*chain, other]}
    assert [one.trust for one in listed] == pytest.approx([0.2] * len(listed))


async def test_an_agent_does_not_restore_the_ratings_of_an_earlier_time(cluster: Cluster, tenant: Tenant) -> None:
    permissions = ["memory.read", "memory.write"]
    request = auth_pb2.CreateApiKeyRequest(display_name="mallory", permissions=permissions)
    mallory = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)
    await rate(tenant, "parrot", 0.9)
    taken = (await mallory.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before"))).snapshot
    await rate(tenant, "parrot", 0.1)
    await rate(tenant, "mallory", 0.1)

    async def restore(caller: Stubs) -> list[str]:
        reasons, token = [], ""
        while True:
            answer = await caller.snapshots.RestoreSnapshot(
                snapshots_pb2.RestoreSnapshotRequest(snapshot_id=taken.snapshot_id, replace=True, page_token=token)
            )
            reasons += [error.reason for error in answer.errors]
            token = answer.next_page_token
            if not token:
                return reasons

    async def ratings() -> dict[str, float]:
        listed = await tenant.curation.ListSourceTrust(pb.ListSourceTrustRequest())
        return {one.source_key: one.trust for one in listed.source_trust}

    by_mallory, kept = await restore(mallory), await ratings()
    by_owner, restored = await restore(tenant), await ratings()

    assert by_mallory == ["PERMISSION_MISSING"]
    assert kept == {"parrot": 0.1, "mallory": 0.1}
    assert by_owner == []
    assert restored == {"parrot": 0.9}
