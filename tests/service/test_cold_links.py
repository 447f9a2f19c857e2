"""What hangs between two memories in different archives comes back, whichever of the archives comes back first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_cluster import Tenant
from fix_lineage import AGENT, DOCUMENT, named, replace_sources
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import archives_pb2 as pb
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.tenancy.v1 import limits_pb2
from skein_kit.ids import now

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def old(tenant: Tenant, content: str, session_id: str, **values: Any) -> str:
    memory = memory_pb2.Memory(content=content, session_id=session_id, **values)
    memory.create_time.FromDatetime(LONG_AGO)
    created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    return created.memory.memory_id


async def link(tenant: Tenant, first: str, second: str) -> memory_pb2.Link:
    link = memory_pb2.Link(from_memory_id=first, to_memory_id=second, relation="supports", label="near", weight=0.7)
    return (await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link


async def archive(tenant: Tenant, session_id: str) -> str:
    request = pb.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC), session_id=session_id)
    return (await tenant.history.ArchiveMemories(request)).archive.archive_id


async def restore(tenant: Tenant, archive_id: str) -> None:
    await tenant.history.UnarchiveMemories(pb.UnarchiveMemoriesRequest(archive_id=archive_id))


async def links_used(tenant: Tenant) -> int:
    usage = (await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())).usage
    return next(one.used for one in usage if one.kind == "links")


@pytest.mark.system
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_link_between_two_archives_comes_back_with_the_second(tenant: Tenant, order: Sequence[int]) -> None:
    first, second = await old(tenant, "the heron", "a"), await old(tenant, "the reeds", "b")
    made = await link(tenant, first, second)
    archives = [await archive(tenant, "a"), await archive(tenant, "b")]

    await restore(tenant, archives[order[0]])
    between = await links_used(tenant)
    await restore(tenant, archives[order[1]])

    assert await tenant.list_links(first) == [made]
    assert await tenant.list_links(second) == [made]
    assert (between, await links_used(tenant)) == (0, 1)


@pytest.mark.parametrize("archived", [0, 1])
async def test_a_link_comes_back_with_whichever_of_its_memories_was_archived(tenant: Tenant, archived: int) -> None:
    ends = await old(tenant, "the heron", "a"), await old(tenant, "the reeds", "b")
    made = await link(tenant, *ends)

    archive_id = await archive(tenant, "ab"[archived])
    meanwhile = await tenant.list_links(ends[1 - archived])
    await restore(tenant, archive_id)

    assert meanwhile == []
    assert await tenant.list_links(ends[0]) == [made]
    assert await tenant.list_links(ends[1]) == [made]


async def test_a_link_that_waits_goes_to_cold_storage_with_its_memory_again(tenant: Tenant) -> None:
    first, second = await old(tenant, "the heron", "a"), await old(tenant, "the reeds", "b")
    made = await link(tenant, first, second)
    one, other = await archive(tenant, "a"), await archive(tenant, "b")

    await restore(tenant, one)
    once_more = await archive(tenant, "a")
    await restore(tenant, other)
    await restore(tenant, once_more)

    assert await tenant.list_links(first) == [made]


async def test_an_alias_between_two_archives_comes_back(tenant: Tenant) -> None:
    name = await old(tenant, "Bob", "a", type="entity")
    canonical = await old(tenant, "Robert", "b", type="entity")
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=name, canonical_memory_id=canonical)
    )
    archives = [await archive(tenant, "a"), await archive(tenant, "b")]

    for archive_id in archives:
        await restore(tenant, archive_id)

    response = await tenant.curation.GetCanonicalMemory(curation_pb2.GetCanonicalMemoryRequest(memory_id=name))
    assert response.canonical_memory_id == canonical


@pytest.mark.system
@pytest.mark.parametrize("purged", [0, 1])
async def test_a_link_that_waits_goes_with_a_memory_that_is_purged(tenant: Tenant, purged: int) -> None:
    ends = await old(tenant, "the heron", "a"), await old(tenant, "the reeds", "b")
    await link(tenant, *ends)
    one, other = await archive(tenant, "a"), await archive(tenant, "b")
    await restore(tenant, one)

    selection = memory_pb2.MemorySelection(memory_ids=[ends[purged]])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    if not purged:
        await restore(tenant, other)

    assert await tenant.list_links(ends[1 - purged]) == []
    assert await links_used(tenant) == 0


async def test_a_link_made_anew_meanwhile_stays_the_only_one(tenant: Tenant) -> None:
    first, second = await old(tenant, "the heron", "a"), await old(tenant, "the reeds", "b")
    await link(tenant, first, second)
    archives = [await archive(tenant, "a"), await archive(tenant, "b")]
    for archive_id in archives:
        await restore(tenant, archive_id)

    upserted = memory_pb2.Link(from_memory_id=first, to_memory_id=second, relation="supports", weight=0.2)
    await tenant.links.UpsertLink(memory_pb2.UpsertLinkRequest(link=upserted))

    assert [one.weight for one in await tenant.list_links(first)] == [pytest.approx(0.2)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_former_aliases_come_back_with_their_memories(tenant: Tenant, order: Sequence[int]) -> None:
    name, canonical = await old(tenant, "the heron", "a"), await old(tenant, "the grey one", "b")
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=name, canonical_memory_id=canonical, note="once")
    await tenant.curation.ResolveEntity(request)
    then = Timestamp()
    then.FromDatetime(now())
    request.note = "again"
    await tenant.curation.ResolveEntity(request)
    before = await tenant.curation.ListAliases(curation_pb2.ListAliasesRequest(as_of_time=then))
    archives = [await archive(tenant, "a"), await archive(tenant, "b")]
    meanwhile = await tenant.curation.ListAliases(curation_pb2.ListAliasesRequest(as_of_time=then))

    for place in order:
        await restore(tenant, archives[place])

    after = await tenant.curation.ListAliases(curation_pb2.ListAliasesRequest(as_of_time=then))
    assert [alias.note for alias in before.aliases] == ["once"]
    assert list(meanwhile.aliases) == []
    assert after == before


async def test_former_sources_come_back_with_their_memory(tenant: Tenant) -> None:
    memory_id = await old(tenant, "the heron", "a", derived_from=[named(AGENT, "scout")])
    then = Timestamp()
    then.FromDatetime(now())
    await replace_sources(tenant, memory_pb2.Memory(memory_id=memory_id), named(DOCUMENT, "atlas"))
    lineage_request = curation_pb2.GetLineageRequest(memory_ids=[memory_id], as_of_time=then)
    before = await tenant.curation.GetLineage(lineage_request)
    archive_id = await archive(tenant, "a")

    await restore(tenant, archive_id)

    after = await tenant.curation.GetLineage(lineage_request)
    assert [node.name for node in before.nodes if node.name] == ["scout"]
    assert after == before
