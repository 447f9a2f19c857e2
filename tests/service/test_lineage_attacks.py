"""What an agent with memory.read and memory.write does to its own trust."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_lineage import (
    AGENT,
    DOCUMENT,
    create,
    impacted,
    lineage,
    named,
    of,
    rate,
    replace_sources,
    rescore,
    trust_of,
    vouch,
    writer,
)

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2, scores_pb2, snapshots_pb2


@pytest.mark.system
async def test_a_chain_that_grows_from_below_ends_and_stops_no_rating(cluster: Cluster, tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"Link {number}.", source="parrot" * (number == 31)) for number in range(40)]
    request = memory_pb2.BatchCreateMemoriesRequest(memories=memories, defer_embedding=True)
    chain = list((await tenant.memory.BatchCreateMemories(request)).memories)
    for memory, source in pairwise(chain[:32]):
        await replace_sources(tenant, memory, of(source))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LINEAGE_TOO_LONG"):
        await replace_sources(tenant, chain[31], of(chain[32]))
    await rate(tenant, "parrot", 0.2)
    await rescore(cluster, tenant)

    listed = await impacted(tenant, named(AGENT, "parrot"), page_size=500)
    assert {one.memory_id for one in listed} == {memory.memory_id for memory in chain[:32]}
    assert [one.trust for one in listed] == pytest.approx([0.2] * 32)
    assert not (await lineage(tenant, chain[0])).truncated


@pytest.mark.system
async def test_a_merge_makes_no_chain_longer_than_is_followed(cluster: Cluster, tenant: Tenant) -> None:
    chain = [await create(tenant, "Link 0.", source="parrot")]
    for number in range(1, 32):
        chain.append(await create(tenant, f"Link {number}.", of(chain[-1])))
    other = await create(tenant, "Another.", named(AGENT, "crow"))

    merge = scores_pb2.MergeMemoriesRequest(memory_ids=[chain[0].memory_id, other.memory_id])
    await tenant.memory.MergeMemories(merge)
    await rate(tenant, "crow", 0.2)
    await rescore(cluster, tenant)

    last = await lineage(tenant, chain[-1])
    assert last.nodes[0].trust == pytest.approx(0.2)
    assert not last.truncated


@pytest.mark.system
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
            errors: Sequence[Any] = answer.errors
            reasons += [error.reason for error in errors]
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


async def update(caller: Stubs, memory: memory_pb2.Memory, **fields: str) -> None:
    changed = memory_pb2.Memory(memory_id=memory.memory_id, **fields)  # type: ignore[arg-type] # fields of a text.
    mask = {"paths": list(fields)}
    await caller.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))


async def test_other_sources_do_not_clear_the_parts_of_a_merge(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    truth, lie = await create(tenant, "Anna drinks tea."), await create(mallory, "Anna drinks gin.")
    merge = scores_pb2.MergeMemoriesRequest(memory_ids=[truth.memory_id, lie.memory_id])
    await tenant.memory.MergeMemories(merge)

    await replace_sources(tenant, truth)
    emptied = await trust_of(tenant, truth)
    await replace_sources(tenant, truth, named(DOCUMENT, "clinic"))

    assert [emptied, await trust_of(tenant, truth)] == pytest.approx([0.1, 0.1])


async def test_a_distrusted_agent_that_changes_sources_limits_the_trust(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    await rate(tenant, "parrot", 0.3)
    memory = await create(tenant, "Anna drinks gin.", named(AGENT, "parrot"))

    await replace_sources(mallory, memory)
    by_mallory = await trust_of(tenant, memory)
    await replace_sources(tenant, memory, named(AGENT, "parrot"))

    assert [by_mallory, await trust_of(tenant, memory)] == pytest.approx([0.1, 0.3])


async def test_copies_confirm_no_text_that_was_changed(tenant: Tenant) -> None:
    await vouch(tenant)
    await rate(tenant, "clinic", 0.9)
    await rate(tenant, "school", 0.8)
    copies = [await create(tenant, "Anna drinks tea.", named(DOCUMENT, name)) for name in ("clinic", "school")]
    (group,) = (await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())).groups
    kept = next(copy for copy in copies if copy.memory_id == group.kept_memory_id)
    confirmed = await trust_of(tenant, kept)

    await update(tenant, kept, content="Anna drinks gin.")

    assert confirmed == pytest.approx(1 - 0.5 * 0.2 * 0.4)
    assert await trust_of(tenant, kept) == pytest.approx(0.9 if kept is copies[0] else 0.8)


async def test_the_title_of_another_does_not_clear_the_rating_of_the_writer(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    memory, other = await create(tenant, "Anna drinks tea."), await create(tenant, "Anna drinks water.")
    await update(mallory, memory, content="Anna drinks gin.")

    await update(tenant, memory, title="Drinks")
    await update(mallory, other, title="Anna drinks gin")

    assert await trust_of(tenant, memory) == pytest.approx(0.1)
    assert await trust_of(tenant, other) == pytest.approx(0.1)


async def test_a_merge_keeps_the_rating_of_the_writer_beside_its_sources(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    lie = await create(mallory, "Anna drinks gin.", named(DOCUMENT, "clinic"))
    other = await create(tenant, "Berta drinks water.")
    await update(mallory, lie, content="Anna drinks gin and rum.")

    merge = scores_pb2.MergeMemoriesRequest(memory_ids=[lie.memory_id, other.memory_id])
    await tenant.memory.MergeMemories(merge)

    assert await trust_of(tenant, lie) == pytest.approx(0.1)


async def test_an_agent_that_is_not_rated_gains_nothing_by_names(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    for name in ("clinic", "school"):
        await rate(tenant, name, 0.9)
    named_by_mallory = await create(mallory, "Gin.", named(DOCUMENT, "clinic"), named(DOCUMENT, "school"))
    claimed = await create(mallory, "Rum.", source="clinic")
    unknown = [await trust_of(tenant, memory) for memory in (named_by_mallory, claimed)]

    await rate(tenant, principal, 0.95)
    await rescore(cluster, tenant)

    assert unknown == [0.5, 0.5]
    known = [await trust_of(tenant, memory) for memory in (named_by_mallory, claimed)]
    assert known == pytest.approx([1 - 0.5 * 0.2 * 0.2, 0.9])


@pytest.mark.system
async def test_wide_chains_hide_no_memory_that_derives_from_a_source(tenant: Tenant) -> None:
    first = await create(tenant, "First.", source="parrot")
    parts = await batch(tenant, [memory_pb2.Memory(content=f"Part {number}.") for number in range(2100)])
    middle = await create(tenant, "Middle.", of(first))
    # These fill the page of the middle one, so that the next page has to follow its sources to find it.
    await batch(tenant, [memory_pb2.Memory(content=f"Other {n}.", derived_from=[of(parts[0])]) for n in range(500)])
    wholes = [
        memory_pb2.Memory(content=f"Whole {start}.", derived_from=[of(part) for part in parts[start : start + 50]])
        for start in range(0, 2100, 50)
    ]
    wholes.append(memory_pb2.Memory(content="The last.", derived_from=[of(middle)]))
    *_, made = await batch(tenant, wholes)

    found, token = list[str](), ""
    while token or not found:
        request = pb.ListImpactedRequest(source=of(first), page_size=500, page_token=token)
        page = await tenant.curation.ListImpacted(request)
        found += [one.memory_id for one in page.memories]
        token = page.next_page_token
        assert not page.truncated

    assert set(found) == {middle.memory_id, made.memory_id}


async def batch(tenant: Tenant, memories: Sequence[memory_pb2.Memory]) -> list[memory_pb2.Memory]:
    made: list[memory_pb2.Memory] = []
    for start in range(0, len(memories), 300):
        request = memory_pb2.BatchCreateMemoriesRequest(memories=memories[start : start + 300], defer_embedding=True)
        made += (await tenant.memory.BatchCreateMemories(request)).memories
    return made
