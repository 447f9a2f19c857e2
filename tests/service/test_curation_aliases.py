"""Aliases: what a memory stands for, directly, whatever was said in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from fix_cluster import Tenant, refused
from grpc import aio

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2


async def entities(tenant: Tenant, names: str) -> list[str]:
    """Make memories that are called by single letters; return their ids."""
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(type="entity", content=name, external_id=name) for name in names]
    )
    return [memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories]


async def resolve(tenant: Tenant, alias: str, canonical: str, **fields: Any) -> pb.ResolveEntityResponse:
    request = pb.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=canonical, **fields)
    return await tenant.curation.ResolveEntity(request)


async def canonical(tenant: Tenant, name: str) -> str:
    return (await tenant.curation.GetCanonicalMemory(pb.GetCanonicalMemoryRequest(memory_id=name))).canonical_memory_id


async def aliases(tenant: Tenant, **fields: Any) -> list[pb.Alias]:
    request = pb.ListAliasesRequest(page_size=2, **fields)
    results: list[pb.Alias] = []
    while True:
        page = await tenant.curation.ListAliases(request)
        results += page.aliases
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


async def test_an_alias_stands_for_its_canonical_memory(tenant: Tenant) -> None:
    a, b = await entities(tenant, "ab")

    resolution = await resolve(tenant, "a", "b", note="same person")

    assert (resolution.alias.alias_memory_id, resolution.alias.canonical_memory_id) == (a, b)
    assert (resolution.alias.confidence, resolution.alias.note, resolution.alias.revision) == (0.9, "same person", 1)
    read = await tenant.curation.GetCanonicalMemory(pb.GetCanonicalMemoryRequest(memory_id=a))
    assert (read.canonical_memory_id, read.alias) == (b, resolution.alias)
    itself = await tenant.curation.GetCanonicalMemory(pb.GetCanonicalMemoryRequest(memory_id="b"))
    assert itself == pb.GetCanonicalMemoryResponse(canonical_memory_id=b)


async def test_aliases_of_aliases_stand_for_the_last_one_in_whatever_order_they_are_made(tenant: Tenant) -> None:
    *_, d = await entities(tenant, "abcd")

    await resolve(tenant, "a", "b")
    moved = await resolve(tenant, "b", "c")
    await resolve(tenant, "c", "d")

    assert moved.moved_count == 1
    assert [await canonical(tenant, name) for name in "abcd"] == [d] * 4
    assert {alias.canonical_memory_id for alias in await aliases(tenant)} == {d}
    assert len(await aliases(tenant, memory_id="a")) == 3


async def test_nothing_stands_for_itself_in_the_end(tenant: Tenant) -> None:
    await entities(tenant, "abc")
    await resolve(tenant, "a", "b")
    await resolve(tenant, "b", "c")

    for alias, name in (("c", "a"), ("c", "b"), ("c", "c"), ("a", "a")):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "ALIAS_CYCLE") as caught:
            await resolve(tenant, alias, name)
        assert ("the same memory" in str(caught.value)) == (alias == name)
    # What a stands for is no alias of b.
    assert (await resolve(tenant, "b", "a")).alias.canonical_memory_id == await canonical(tenant, "c")


async def test_an_alias_has_one_canonical_memory_and_the_last_word_counts(tenant: Tenant) -> None:
    _, b, c = await entities(tenant, "abc")
    await resolve(tenant, "a", "b")

    again = await resolve(tenant, "a", "c", confidence=0.0)

    assert (again.alias.canonical_memory_id, again.alias.confidence, again.alias.revision) == (c, 0.0, 2)
    assert await canonical(tenant, "b") == b
    assert len(await aliases(tenant)) == 1


async def test_an_alias_may_be_archived_at_once(tenant: Tenant) -> None:
    a, _ = await entities(tenant, "ab")

    await resolve(tenant, "a", "b", archive_alias=True)
    await resolve(tenant, "a", "b", archive_alias=True)

    read = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=a))
    assert read.memory.HasField("archive_time")
    assert read.memory.revision == 2
    assert await canonical(tenant, "a") == await canonical(tenant, "b")


async def test_a_removed_alias_stands_for_itself_and_those_beside_it_stay(tenant: Tenant) -> None:
    _, b, c = await entities(tenant, "abc")
    await resolve(tenant, "a", "b")
    await resolve(tenant, "b", "c")
    request = pb.DeleteAliasRequest(alias_memory_id="b", request_id="r")

    await tenant.curation.DeleteAlias(request)
    await tenant.curation.DeleteAlias(request)

    assert [await canonical(tenant, name) for name in "abc"] == [c, b, c]
    with refused(grpc.StatusCode.NOT_FOUND, "ALIAS_NOT_FOUND"):
        await tenant.curation.DeleteAlias(pb.DeleteAliasRequest(alias_memory_id="b"))
    assert (await resolve(tenant, "b", "c")).alias.revision == 2


async def test_an_alias_whose_memory_was_deleted_can_be_removed(tenant: Tenant) -> None:
    a, _ = await entities(tenant, "ab")
    await resolve(tenant, "a", "b")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=a))

    await tenant.curation.DeleteAlias(pb.DeleteAliasRequest(alias_memory_id="a"))

    assert await aliases(tenant) == []


async def test_a_missing_memory_has_no_alias(tenant: Tenant, other_tenant: Tenant) -> None:
    a, _ = await entities(tenant, "ab")
    (theirs,) = await entities(other_tenant, "t")

    for alias, name in (("a", "nothing"), ("nothing", "a"), (a, theirs), (theirs, a)):
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await resolve(tenant, alias, name)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await canonical(tenant, theirs)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await aliases(tenant, memory_id="nothing")
    with refused(grpc.StatusCode.NOT_FOUND, "ALIAS_NOT_FOUND"):
        await tenant.curation.DeleteAlias(pb.DeleteAliasRequest(alias_memory_id="a"))


async def test_a_crowd_that_ties_knots_ends_without_a_cycle(tenant: Tenant) -> None:
    names = "abcdef"
    ids = await entities(tenant, names)

    outcomes = await asyncio.gather(
        *(resolve(tenant, names[n], names[(n + step) % 6]) for n in range(6) for step in (1, 2)),
        return_exceptions=True,
    )

    refusals = [one.code() for one in outcomes if isinstance(one, aio.AioRpcError)]
    assert set(refusals) <= {grpc.StatusCode.FAILED_PRECONDITION}
    assert len(refusals) < len(outcomes)
    actual_aliases = await aliases(tenant)
    roots = {alias.canonical_memory_id for alias in actual_aliases}
    assert roots & {alias.alias_memory_id for alias in actual_aliases} == set()
    assert [await canonical(tenant, root) for root in roots] == list(roots)
    # An alias may be pointed elsewhere, which can leave two canonical memories.
    assert len(actual_aliases) == len(ids) - len(roots)
