"""Memories that move from one space to another: what follows them, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_spaces import SPACE_KEY, grant, new_key, new_space

from skein.memory.v1 import curation_pb2, memory_pb2, scores_pb2
from skein.memory.v1 import memory_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND")
TEXT = "The red rose needs manure"


@dataclass(frozen=True)
class House:
    """A tenant with two spaces, a key that writes in both, and a key that is bound to each."""

    cluster: Cluster
    tenant: Tenant
    kitchen_id: str
    garden_id: str
    secret: str
    # Bound to one space each.
    cook: Stubs
    gardener: Stubs

    @property
    def everyone(self) -> Stubs:
        return self.cluster.with_key(self.secret)

    def at(self, space_id: str) -> Stubs:
        return self.cluster.with_key(self.secret, **{SPACE_KEY: space_id})

    async def move(self, memory_ids: Iterable[str], request_id: str = "") -> list[str]:
        """Move memories from the kitchen to the garden."""
        request = pb.MoveMemoriesRequest(memory_ids=memory_ids, space_id=self.garden_id, request_id=request_id)
        return list((await self.at(self.kitchen_id).memory.MoveMemories(request)).memory_ids)


@pytest.fixture
async def house(tenant: Tenant, cluster: Cluster) -> House:
    kitchen_id, garden_id = await new_space(tenant, "kitchen"), await new_space(tenant, "garden")
    _, secret = await new_key(cluster, tenant, [kitchen_id, garden_id])
    _, cook = await new_key(cluster, tenant, [kitchen_id], bind=True)
    _, gardener = await new_key(cluster, tenant, [garden_id], bind=True)
    return House(
        cluster=cluster,
        tenant=tenant,
        kitchen_id=kitchen_id,
        garden_id=garden_id,
        secret=secret,
        cook=cluster.with_key(cook),
        gardener=cluster.with_key(gardener),
    )


async def found(stubs: Stubs, query: str, **fields: object) -> list[str]:
    answer = await stubs.search(query, min_relevance=0, **fields)
    return [hit.item_id for hit in answer.hits]


async def test_a_moved_memory_is_seen_in_its_new_space_alone_with_all_that_it_has(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    memory = await kitchen.create_memory(
        TEXT, external_id="rose", type="fact", key="rose", tags=["rose"], metadata={"bed": 3}
    )
    before = stamp(datetime.now(UTC))
    updated = await kitchen.update_memory(memory.memory_id, content="The red rose is fed")
    assert await found(house.cook, "red rose") == [memory.memory_id]

    assert await house.move(["rose"]) == [memory.memory_id]

    # From the answer on, and in one moment.
    for name in (memory.memory_id, "rose"):
        with refused(*NOT_FOUND):
            await house.cook.get_memory(name)
    with refused(*NOT_FOUND):
        await house.cook.get_memory(memory.memory_id, as_of_time=before)
    with refused(*NOT_FOUND):
        await house.cook.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=memory.memory_id))
    assert await house.cook.list_memories() == []
    assert await found(house.cook, "red rose") == []
    assert await found(house.cook, "red rose", as_of_time=before) == []
    assert (await house.gardener.get_memory("rose")) == updated
    assert (await house.gardener.get_memory(memory.memory_id, as_of_time=before)).content == TEXT
    assert await found(house.gardener, "red rose") == [memory.memory_id]
    assert await found(house.gardener, "red rose manure", as_of_time=before) == [memory.memory_id]
    versions = await house.gardener.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=memory.memory_id))
    assert [version.memory.content for version in versions.versions] == ["The red rose is fed", TEXT]


async def test_a_moved_memory_leaves_its_names_and_takes_them_along(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    memory = await kitchen.create_memory(TEXT, external_id="rose", type="fact", key="rose")
    await house.move([memory.memory_id])

    again = await kitchen.create_memory(TEXT, external_id="rose", type="fact", key="rose")

    assert again.memory_id != memory.memory_id
    garden = house.at(house.garden_id)
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await garden.create_memory("x", type="fact", key="rose")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await garden.create_memory("x", external_id="rose")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"external_id": "rose"}, "EXTERNAL_ID_TAKEN"), ({"type": "fact", "key": "Rose"}, "FACT_KEY_TAKEN")],
)
async def test_a_name_that_is_taken_in_the_new_space_refuses_the_move_whole(
    house: House, fields: dict[str, str], reason: str
) -> None:
    kitchen = house.at(house.kitchen_id)
    plain = await kitchen.create_memory("The oven is hot")
    named = await kitchen.create_memory(TEXT, **fields)
    taken = await house.at(house.garden_id).create_memory(
        "x", **(fields | ({"key": "rose"} if "key" in fields else {}))
    )

    with refused(grpc.StatusCode.ALREADY_EXISTS, reason):
        await house.move([plain.memory_id, named.memory_id])

    assert {memory.memory_id for memory in await house.cook.list_memories()} == {plain.memory_id, named.memory_id}
    assert [memory.memory_id for memory in await house.gardener.list_memories()] == [taken.memory_id]
    assert (await house.cook.get_memory(fields.get("external_id", named.memory_id))).memory_id == named.memory_id


async def test_a_link_between_spaces_is_seen_by_who_sees_both(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    moved, stays = await kitchen.create_memory(TEXT), await kitchen.create_memory("The oven is hot")
    link = await kitchen.create_link(moved.memory_id, stays.memory_id)
    await house.move([moved.memory_id])

    async def links(stubs: Stubs, memory_id: str) -> list[str]:
        listed = await stubs.links.ListLinks(pb.ListLinksRequest(memory_id=memory_id))
        walked = await stubs.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=memory_id))
        assert len(walked.links) == len(listed.links)
        return [one.link_id for one in listed.links]

    assert await links(house.everyone, moved.memory_id) == [link.link_id]
    assert await links(house.everyone, stays.memory_id) == [link.link_id]
    assert await links(house.gardener, moved.memory_id) == []
    assert await links(house.cook, stays.memory_id) == []
    with refused(grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND"):
        await house.cook.links.GetLink(pb.GetLinkRequest(link_id=link.link_id))


async def test_a_link_follows_its_memory_into_a_third_space_that_its_mover_alone_sees(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    first, second = await kitchen.create_memory(TEXT), await kitchen.create_memory("The oven is hot")
    link = await kitchen.create_link(first.memory_id, second.memory_id)
    await house.move([second.memory_id])
    cellar_id = await new_space(house.tenant, "cellar")
    # It does not see the garden, where the other end lies.
    _, secret = await new_key(house.cluster, house.tenant, [house.kitchen_id, cellar_id])
    _, both = await new_key(house.cluster, house.tenant, [house.garden_id, cellar_id])

    await house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id}).memory.MoveMemories(
        pb.MoveMemoriesRequest(memory_ids=[first.memory_id], space_id=cellar_id)
    )

    request = pb.GetLinkRequest(link_id=link.link_id)
    assert (await house.cluster.with_key(both).links.GetLink(request)).link.link_id == link.link_id
    with refused(grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND"):
        await house.everyone.links.GetLink(request)
    listed = await house.everyone.links.ListLinks(pb.ListLinksRequest(memory_id=second.memory_id))
    assert not listed.links


async def test_only_a_writer_of_both_moves_and_only_what_lies_where_the_call_acts(house: House) -> None:
    memory = await house.at(house.kitchen_id).create_memory(TEXT)
    principal, secret = await new_key(house.cluster, house.tenant, [house.kitchen_id])
    request = pb.MoveMemoriesRequest(memory_ids=[memory.memory_id], space_id=house.garden_id)
    stranger = house.cluster.with_key(secret, **{SPACE_KEY: house.kitchen_id})

    with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
        await stranger.memory.MoveMemories(request)
    await grant(house.tenant, house.garden_id, principal, "reader")
    async with asyncio.timeout(30):
        # The gateway keeps an exchange for some seconds.
        while True:
            try:
                with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACE_READ_ONLY"):
                    await stranger.memory.MoveMemories(request)
                break
            except AssertionError:
                await asyncio.sleep(0.1)
    with refused(*NOT_FOUND):
        # It acts in the default space.
        await house.everyone.memory.MoveMemories(request)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await house.at(house.garden_id).memory.MoveMemories(request)
    assert (await house.cook.get_memory(memory.memory_id)).content == TEXT


async def test_an_alias_moves_with_its_memory_alone(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    canonical, alias = await kitchen.create_memory("Rosa"), await kitchen.create_memory("The rose")
    await kitchen.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=alias.memory_id, canonical_memory_id=canonical.memory_id)
    )

    for name in (alias, canonical):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "ALIAS_APART"):
            await house.move([name.memory_id])
    await house.move([alias.memory_id, canonical.memory_id])

    answer = await house.gardener.curation.GetCanonicalMemory(
        curation_pb2.GetCanonicalMemoryRequest(memory_id=alias.memory_id)
    )
    assert answer.canonical_memory_id == canonical.memory_id


async def test_memories_of_two_spaces_are_not_merged_and_who_sees_both_is_told_why(house: House) -> None:
    first = await house.at(house.kitchen_id).create_memory(TEXT)
    second = await house.at(house.garden_id).create_memory(TEXT)
    request = scores_pb2.MergeMemoriesRequest(memory_ids=[first.memory_id, second.memory_id])

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SPACES_DIFFER"):
        await house.at(house.kitchen_id).memory.MergeMemories(request)
    for stubs in (house.cook, house.gardener):
        with refused(*NOT_FOUND):
            await stubs.memory.MergeMemories(request)
    await house.move([first.memory_id])
    merged = await house.at(house.garden_id).memory.MergeMemories(request)
    assert merged.memory.memory_id == first.memory_id


async def test_a_task_and_a_deleted_memory_move_too(house: House) -> None:
    kitchen = house.at(house.kitchen_id)
    task = await kitchen.create_memory("Feed the rose", type="task")
    deleted = await kitchen.create_memory(TEXT)
    await kitchen.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=deleted.memory_id))
    await house.move([task.memory_id, deleted.memory_id])

    restored = await house.at(house.garden_id).memory.UndeleteMemory(
        pb.UndeleteMemoryRequest(memory_id=deleted.memory_id)
    )

    assert restored.memory.content == TEXT
    assert await found(house.gardener, "rose manure") != []
    listed = await house.gardener.memory.ListTasks(memory_pb2.ListTasksRequest())
    assert [one.memory_id for one in listed.memories] == [task.memory_id]
    assert not (await house.cook.memory.ListTasks(memory_pb2.ListTasksRequest())).memories
