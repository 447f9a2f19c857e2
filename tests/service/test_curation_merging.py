"""Merging memories, and consolidating those that say the same."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct
from grpc import aio

from skein.memory.v1 import curation_pb2, scores_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.tenancy.v1 import limits_pb2


async def create(tenant: Tenant, **fields: Any) -> str:
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(**fields)))).memory.memory_id


async def link(tenant: Tenant, start: str, end: str, **fields: Any) -> None:
    link = pb.Link(from_memory_id=start, to_memory_id=end, **fields)
    await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))


async def links_of(tenant: Tenant, memory_id: str) -> set[tuple[str, str, str]]:
    listed = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=memory_id))
    return {(one.from_memory_id, one.to_memory_id, one.relation) for one in listed.links}


async def links_counted(tenant: Tenant) -> int:
    usage = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())
    return next((one.used for one in usage.usage if one.kind == "links"), 0)


async def test_a_merge_takes_in_contents_tags_scores_and_links(tenant: Tenant) -> None:
    a = await create(tenant, content="Tea at five", tags=["tea"], confidence=0.2, importance=0.9)
    b = await create(tenant, content="Milk first", title="Tea", tags=["milk"], confidence=0.9, importance=0.1)
    c = await create(tenant, content="No sugar")
    other = await create(tenant, content="Kettle")
    await link(tenant, b, other, relation="causes", weight=0.5, label="why")
    await link(tenant, a, other, relation="related")
    await link(tenant, c, other, relation="related")
    await link(tenant, b, c, relation="supports")

    merged = await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, b, c], request_id="r"))
    again = await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, b, c], request_id="r"))

    memory = merged.memory
    assert again == merged
    assert (memory.memory_id, memory.content) == (a, "Tea at five\n\nMilk first\n\nNo sugar")
    assert (memory.title, list(memory.tags), memory.confidence, memory.importance) == ("Tea", ["tea", "milk"], 0.9, 0.9)
    assert memory.HasField("scores")
    assert list(merged.archived_memory_ids) == [b, c]
    assert merged.moved_link_count == 1
    assert await links_of(tenant, a) == {
        (a, other, "causes"),
        (a, other, "related"),
        (a, b, "supersedes"),
        (a, c, "supersedes"),
    }
    listed = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=other))
    moved = next(one for one in listed.links if one.relation == "causes")
    assert (moved.weight, moved.label) == (0.5, "why")
    for archived in (b, c):
        assert (await tenant.get_memory(archived)).HasField("archive_time")
    assert await links_counted(tenant) == 4


async def test_a_merge_needs_memories_that_are_there_and_fit_together(tenant: Tenant) -> None:
    a = await create(tenant, content="a" * 60_000, external_id="a")
    b = await create(tenant, content="b" * 60_000)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TOO_LONG"):
        await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, b]))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, "nothing"]))
    for ids in ([a], [a, a], [a, *(str(number) for number in range(20))]):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=ids))
    assert (await tenant.get_memory(a)).revision == 1


async def test_a_merge_with_too_many_tags_is_refused(tenant: Tenant) -> None:
    a = await create(tenant, content="a", tags=[f"a{number}" for number in range(60)])
    b = await create(tenant, content="b", tags=[f"b{number}" for number in range(60)])

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MERGE_TOO_LARGE"):
        await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, b]))


async def test_one_memory_by_two_names_is_one(tenant: Tenant) -> None:
    a = await create(tenant, content="tea", external_id="e")

    merged = await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[a, "e"]))

    assert (merged.memory.content, list(merged.archived_memory_ids)) == ("tea", [])
    assert not merged.memory.HasField("archive_time")


@pytest.mark.system
async def test_merges_in_opposite_directions_do_not_hang(tenant: Tenant) -> None:
    a, b = await create(tenant, content="a"), await create(tenant, content="b")

    outcomes = await asyncio.gather(
        *(tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=ids)) for ids in ([a, b], [b, a]) * 2),
        return_exceptions=True,
    )

    failed = [outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)]
    assert set(failed) <= {grpc.StatusCode.ABORTED}
    assert len(failed) < len(outcomes)


async def consolidated(tenant: Tenant, **fields: Any) -> list[scores_pb2.DuplicateGroup]:
    """Consolidate until there is nothing more."""
    groups: list[scores_pb2.DuplicateGroup] = []
    request = scores_pb2.ConsolidateMemoriesRequest(**fields)
    while True:
        answer = await tenant.memory.ConsolidateMemories(request)
        groups += answer.groups
        if not answer.next_page_token:
            return groups
        request.page_token = answer.next_page_token


@pytest.mark.system
async def test_the_most_important_of_equal_memories_is_kept(tenant: Tenant) -> None:
    small = await create(tenant, content="  The Cat sleeps. ", importance=0.1)
    great = await create(tenant, content="the cat  sleeps", importance=0.9)
    titled = [await create(tenant, content=text, title="Plan") for text in ("one", "two")]
    await create(tenant, content="the dog sleeps")
    await create(tenant, content="the cat sleeps", type="journal")

    planned = await consolidated(tenant, dry_run=True)
    assert not (await tenant.get_memory(small)).HasField("archive_time")
    done = await consolidated(tenant, page_size=1)

    expected = {(great, (small,)), (titled[0], (titled[1],))}
    for groups in (planned, done):
        assert {(one.kept_memory_id, tuple(one.archived_memory_ids)) for one in groups} == expected
    assert (await tenant.get_memory(small)).HasField("archive_time")
    assert not (await tenant.get_memory(great)).HasField("archive_time")
    assert await links_of(tenant, great) == {(great, small, "supersedes")}
    assert await links_counted(tenant) == 2
    assert await consolidated(tenant) == []


async def test_facts_whose_keys_differ_in_case_are_the_same(tenant: Tenant) -> None:
    first = await create(tenant, type="fact", key="Home Town", content="Graz")
    second = await create(tenant, type="fact", key="home  town", content="Graz", confidence=0.9)

    (group,) = await consolidated(tenant)

    assert (group.kept_memory_id, list(group.archived_memory_ids)) == (second, [first])


async def test_facts_with_one_key_that_disagree_stay_both_and_stay_a_conflict(tenant: Tenant) -> None:
    towns = [
        await create(tenant, type="fact", key=key, content=town) for key, town in (("town", "Graz"), (" Town", "Linz"))
    ]
    port, other = Struct(), Struct()
    port.update({"number": 80})
    other.update({"number": 81})
    ports = [await create(tenant, type="fact", key=f"port{' ' * n}", data=data) for n, data in enumerate((port, other))]

    assert await consolidated(tenant, dry_run=True) == []
    assert await consolidated(tenant) == []

    listed = await tenant.curation.ListConflicts(curation_pb2.ListConflictsRequest())
    assert {one.pair_key for one in listed.conflicts} == {"|".join(towns), "|".join(ports)}


async def test_memories_that_a_link_or_review_sets_apart_are_not_consolidated(tenant: Tenant) -> None:
    linked, reviewed, agreeing = [[await create(tenant, content=text) for _ in range(3)] for text in ("a", "b", "c")]
    await link(tenant, linked[2], linked[0], relation="contradicts")
    review = curation_pb2.ResolveConflictRequest(
        a_memory_id=reviewed[0], b_memory_id=reviewed[1], status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW
    )
    await tenant.curation.ResolveConflict(review)

    for dry_run in (True, False):
        groups = {
            (one.kept_memory_id, tuple(one.archived_memory_ids)) for one in await consolidated(tenant, dry_run=dry_run)
        }
        assert groups == {
            (linked[0], (linked[1],)),
            (reviewed[0], (reviewed[2],)),
            (agreeing[0], (agreeing[1], agreeing[2])),
        }
    assert await consolidated(tenant) == []


@pytest.mark.system
async def test_consolidating_very_many_that_disagree_comes_to_an_end(tenant: Tenant) -> None:
    memories = [pb.Memory(content=f"{n % 30}", key="list", type="note") for n in range(60)]
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))

    groups = await consolidated(tenant, page_size=5)

    assert sorted(len(group.archived_memory_ids) for group in groups) == [1] * 30
    assert await consolidated(tenant) == []


@pytest.mark.system
async def test_a_large_group_is_settled_in_several_calls(tenant: Tenant) -> None:
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content="same") for _ in range(45)])
    made = (await tenant.memory.BatchCreateMemories(request)).memories

    groups = await consolidated(tenant)

    assert {group.kept_memory_id for group in groups} == {min(one.memory_id for one in made)}
    assert sum(len(group.archived_memory_ids) for group in groups) == 44
    listed = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    assert len(listed.memories) == 1


async def test_a_change_makes_a_memory_say_something_else(tenant: Tenant) -> None:
    a, b = await create(tenant, content="same"), await create(tenant, content="same")
    update = pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=b, content="another"))
    update.update_mask.paths.append("content")
    await tenant.memory.UpdateMemory(update)

    assert await consolidated(tenant) == []
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=a))
    await create(tenant, content="same")
    assert await consolidated(tenant) == []


async def test_a_repeated_consolidation_has_one_effect_and_tokens_are_a_tenants_own(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    for _ in range(2):
        await create(tenant, content="same")
        await create(tenant, content="other")
    request = scores_pb2.ConsolidateMemoriesRequest(request_id="r", page_size=1)

    answers = await asyncio.gather(*(tenant.memory.ConsolidateMemories(request) for _ in range(3)))

    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0].groups) == 1
    foreign = scores_pb2.ConsolidateMemoriesRequest(page_token=answers[0].next_page_token)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await other_tenant.memory.ConsolidateMemories(foreign)
    foreign.dry_run = True
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await tenant.memory.ConsolidateMemories(foreign)


@pytest.mark.system
async def test_many_at_once_consolidate_without_harm(tenant: Tenant) -> None:
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=f"same {n % 5}") for n in range(20)])
    await tenant.memory.BatchCreateMemories(request)

    outcomes = await asyncio.gather(
        *(tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest()) for _ in range(4)),
        return_exceptions=True,
    )

    answers = [one for one in outcomes if isinstance(one, scores_pb2.ConsolidateMemoriesResponse)]
    archived = [id_ for answer in answers for group in answer.groups for id_ in group.archived_memory_ids]
    assert len(archived) == len(set(archived)) == 15
    assert pytest.approx(len(answers)) == 4
