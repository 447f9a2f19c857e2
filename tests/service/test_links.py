from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb


async def memories(tenant: Tenant, *names: str) -> list[str]:
    """Make memories with these external ids; return their ids."""
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=name, external_id=name) for name in names])
    created = await tenant.memory.BatchCreateMemories(request)
    return [memory.memory_id for memory in created.memories]


async def link(tenant: Tenant, start: str, end: str, **fields: Any) -> pb.Link:
    link = pb.Link(from_memory_id=start, to_memory_id=end, **fields)
    return (await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))).link


async def test_a_link_comes_back_as_it_was_given(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")
    metadata = Struct()
    metadata.update({"why": ["because", 1]})

    made = await link(tenant, a, b, relation="causes", label="a → b", weight=0.0, metadata=metadata)

    assert (made.from_memory_id, made.to_memory_id, made.relation, made.label) == (a, b, "causes", "a → b")
    assert (made.weight, made.metadata) == (0.0, metadata)
    assert made.created_by.startswith("api_key:")
    assert await tenant.list_links(a) == await tenant.list_links(b) == [made]


async def test_a_link_is_related_and_strong_unless_said_otherwise(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")

    made = await link(tenant, a, b)

    assert (made.relation, made.weight) == ("related", 1.0)


async def test_external_ids_name_ends(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")

    made = await link(tenant, "a", "b")

    assert (made.from_memory_id, made.to_memory_id) == (a, b)
    assert await tenant.list_links("a") == await tenant.list_links("b") == [made]


async def test_links_are_listed_newest_first_from_both_ends_without_repeats(tenant: Tenant) -> None:
    await memories(tenant, "hub", *"abcde")
    made = []
    for name in "abcde":
        made.append(await link(tenant, "hub", name, relation="causes"))
        made.append(await link(tenant, name, "hub", relation="supports"))
    newest = made[::-1]

    assert await tenant.list_links("hub") == newest
    assert await tenant.list_links("hub", direction=pb.LINK_DIRECTION_INCOMING) == newest[::2]
    assert await tenant.list_links("hub", direction=pb.LINK_DIRECTION_OUTGOING) == newest[1::2]
    assert await tenant.list_links("hub", relation="supports") == newest[::2]
    assert await tenant.list_links("hub", relation="contradicts") == []
    assert await tenant.list_links("c", direction=pb.LINK_DIRECTION_OUTGOING) == [made[5]]


@pytest.mark.system
async def test_links_to_deleted_memories_are_left_out_and_pages_stay_full(tenant: Tenant) -> None:
    names = [f"n{n}" for n in range(12)]
    await memories(tenant, "hub", *names)
    made = [await link(tenant, "hub", name) for name in names]
    for name in names[2:9]:
        await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=name))

    first = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id="hub", page_size=4))

    assert list(first.links) == [made[11], made[10], made[9], made[1]]
    assert await tenant.list_links("hub") == [made[11], made[10], made[9], made[1], made[0]]
    await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id="n5"))
    assert len(await tenant.list_links("hub")) == 6


@pytest.mark.parametrize("missing", ["0b5c2a2e-7d6f-4d0c-9a43-3f0a6f0d9c11", "no such"])
async def test_both_ends_must_exist(tenant: Tenant, missing: str) -> None:
    (a,) = await memories(tenant, "a")

    for start, end in ((a, missing), (missing, a), (missing, missing)):
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await link(tenant, start, end)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.list_links(missing)
    assert await tenant.list_links(a) == []


async def test_a_deleted_memory_is_no_end(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=b))

    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await link(tenant, a, b)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.list_links(b)


async def test_two_memories_are_linked_once_by_each_relation_and_direction(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")
    made = [await link(tenant, a, b), await link(tenant, b, a), await link(tenant, a, b, relation="causes")]

    for fields in ({}, {"relation": "related"}, {"relation": "causes"}):
        with refused(grpc.StatusCode.ALREADY_EXISTS, "LINK_EXISTS"):
            await link(tenant, a, b, **fields)

    assert await tenant.list_links(a) == made[::-1]


async def test_a_memory_is_not_linked_to_itself(tenant: Tenant) -> None:
    (a,) = await memories(tenant, "a")

    for start, end in ((a, a), ("a", a), (a, "a")):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "LINK_TO_ITSELF"):
            await link(tenant, start, end)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"to_memory_id": ""}, "INVALID_FIELD"),
        ({"from_memory_id": ""}, "INVALID_FIELD"),
        ({"from_memory_id": "x" * 256}, "INVALID_FIELD"),
        ({"relation": "No Such"}, "INVALID_FIELD"),
        ({"weight": 1.5}, "INVALID_FIELD"),
        ({"label": "\0"}, "TEXT_NOT_STORABLE"),
        ({"from_memory_id": "\0"}, "TEXT_NOT_STORABLE"),
    ],
)
async def test_a_link_obeys_its_rules(tenant: Tenant, fields: dict[str, Any], reason: str) -> None:
    a, b = await memories(tenant, "a", "b")
    link = pb.Link(**{"from_memory_id": a, "to_memory_id": b, **fields})

    with refused(grpc.StatusCode.INVALID_ARGUMENT, reason):
        await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))

    assert await tenant.list_links(a) == []


async def test_one_of_many_equal_links_at_once_is_made(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")

    outcomes = await asyncio.gather(*(link(tenant, a, b) for _ in range(6)), return_exceptions=True)

    codes = [outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)]
    assert codes == [grpc.StatusCode.ALREADY_EXISTS] * 5
    assert len(await tenant.list_links(a)) == 1


async def test_a_deleted_link_is_gone_for_good(tenant: Tenant) -> None:
    a, b = await memories(tenant, "a", "b")
    made = await link(tenant, a, b)

    await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=made.link_id))

    assert await tenant.list_links(a) == []
    with refused(grpc.StatusCode.NOT_FOUND, "LINK_NOT_FOUND"):
        await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=made.link_id))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id="no id"))
    again = await link(tenant, a, b)
    assert await tenant.list_links(a) == [again]
