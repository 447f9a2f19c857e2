"""Port 7140, the Memory Orchestrator Service: each of its actions, and what typed clients see of it."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_cluster import Tenant
from fix_expiry import expire
from fix_pc2 import Assistant

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2

PORT = 7140
FIELDS = {
    "memory_id", "content", "memory_type", "memory_tier", "importance", "access_count", "last_accessed_at",
    "created_at", "expires_at", "metadata", "tags", "relationships", "parent_id",
}  # fmt: skip


async def send_action(assistant: Assistant, action: str, **data: Any) -> Any:
    """Ask the memory service."""
    return await assistant.request(action, port=PORT, data=data)


async def run_action(assistant: Assistant, action: str, **data: Any) -> Any:
    """Send an action that must succeed; return its reply."""
    reply = await send_action(assistant, action, **data)
    assert reply["status"] == "success", reply
    return reply


async def add(assistant: Assistant, content: Any, **data: Any) -> str:
    """Store a memory and return its id."""
    return str((await run_action(assistant, "add_memory", content=content, **data))["memory_id"])


async def get(assistant: Assistant, memory_id: str) -> Any:
    return (await run_action(assistant, "get_memory", memory_id=memory_id))["memory"]


def ids(reply: Any) -> list[str]:
    return [memory["memory_id"] for memory in reply["memories"]]


async def link(tenant: Tenant, source: str, target: str, relation: str) -> None:
    link_data = pb.Link(from_memory_id=source, to_memory_id=target, relation=relation)
    await tenant.links.CreateLink(pb.CreateLinkRequest(link=link_data))


@pytest.mark.parametrize("holder", ["data", "payload"])
async def test_a_memory_is_added_and_got_back_whole(assistant: Assistant, tenant: Tenant, holder: str) -> None:
    said_of_it = {
        "content": "Ana drinks green tea",
        "memory_type": "user_preference",
        "memory_tier": "long",
        "importance": 0.75,
        "metadata": {"mood": "calm", "n": 3},
        "tags": ["tea", "ana"],
        "expires_at": "2123-06-15T08:30:45Z",
    }

    reply = await assistant.request("add_memory", port=PORT, **{holder: said_of_it})
    memory = await get(assistant, reply["memory_id"])
    seen = await tenant.get_memory(reply["memory_id"])

    assert set(reply) == {"status", "memory_id"}
    assert uuid.UUID(reply["memory_id"].removeprefix("mem-"))
    assert set(memory) >= FIELDS
    for name in ("content", "memory_type", "memory_tier", "importance", "metadata"):
        # As JSON, where 3 is not 3.0.
        assert json.dumps(memory[name], sort_keys=True) == json.dumps(said_of_it[name], sort_keys=True), name
    assert sorted(memory["tags"]) == ["ana", "tea"]
    assert memory["expires_at"] == datetime(2123, 6, 15, 8, 30, 45, tzinfo=UTC).timestamp()
    assert memory["created_at"] == pytest.approx(time.time(), abs=60)
    assert (memory["relationships"], memory["parent_id"]) == ([], None)
    assert (seen.content, seen.type, seen.level) == ("Ana drinks green tea", "user_preference", pb.LEVEL_STRATEGIC)
    assert (seen.importance, sorted(seen.tags), seen.metadata["mood"]) == (0.75, ["ana", "tea"], "calm")


async def test_a_content_that_is_an_object_comes_back_as_one(assistant: Assistant, tenant: Tenant) -> None:
    content = {"text": "The boiler was serviced", "room": "cellar", "parts": ["valve", 2]}

    memory_id = await add(assistant, content)

    assert (await get(assistant, memory_id))["content"] == content
    assert (await tenant.get_memory(memory_id)).content == "The boiler was serviced"
    bare = await add(assistant, {"x": 1})
    assert (await get(assistant, bare))["content"] == {"x": 1}


@pytest.mark.parametrize(
    ("level", "tier"),
    [
        (pb.LEVEL_CONTEXTUAL, "short"),
        (pb.LEVEL_OPERATIONAL, "medium"),
        (pb.LEVEL_TACTICAL, "medium"),
        (pb.LEVEL_STRATEGIC, "long"),
    ],
)
async def test_what_a_typed_client_stores_is_got_by_either_id(
    assistant: Assistant, tenant: Tenant, level: pb.Level, tier: str
) -> None:
    memory = await tenant.create_memory("Stored by RPC", type="fact", level=level, external_id="ext-1", tags=["a"])

    by_own, by_external = await get(assistant, memory.memory_id), await get(assistant, "ext-1")

    assert by_own["memory_id"] == by_external["memory_id"] == "ext-1"
    assert (by_own["content"], by_own["memory_type"], by_own["memory_tier"]) == ("Stored by RPC", "fact", tier)
    assert (by_own["importance"], by_own["expires_at"]) == (0.5, None)


async def test_a_request_sent_again_adds_one_memory(assistant: Assistant) -> None:
    data = {"content": "once", "ttl": 60}
    first = await assistant.request("add_memory", port=PORT, request_id="r1", data=data)
    again = await assistant.request("add_memory", port=PORT, request_id="r1", data=data)
    other = await assistant.request("add_memory", port=PORT, request_id="r1", data={"content": "another"})

    assert again == first == {"status": "success", "memory_id": first["memory_id"], "request_id": "r1"}
    assert other["memory_id"] != first["memory_id"]


async def test_an_id_may_be_chosen_and_is_then_taken(assistant: Assistant) -> None:
    assert await add(assistant, "mine", memory_id="mem-of-mine") == "mem-of-mine"

    reply = await send_action(assistant, "add_memory", content="mine too", memory_id="mem-of-mine")

    assert reply["status"] == "error"


async def test_a_child_knows_its_parent_and_a_parent_its_children(assistant: Assistant, tenant: Tenant) -> None:
    parent = await add(assistant, "the trip")
    first, second = [await add(assistant, text, parent_id=parent) for text in ("the train", "the hotel")]

    reply = await run_action(assistant, "get_children", parent_id=parent)
    links = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=parent))

    assert sorted(ids(reply)) == sorted([first, second])
    assert {memory["parent_id"] for memory in reply["memories"]} == {parent}
    assert (reply["count"], "truncated" in reply) == (2, False)
    assert (await get(assistant, parent))["parent_id"] is None
    assert (await get(assistant, parent))["relationships"] == []
    assert {link.relation for link in links.links} == {"child_of"}
    limited = await run_action(assistant, "get_children", parent_id=parent, limit=1)
    assert (limited["count"], limited["truncated"]) == (1, True)


async def test_children_by_a_typed_link_are_children(assistant: Assistant, tenant: Tenant) -> None:
    parent, child = await tenant.create_memory("parent"), await tenant.create_memory("child")
    await link(tenant, child.memory_id, parent.memory_id, "child_of")

    assert ids(await run_action(assistant, "get_children", parent_id=parent.memory_id)) == [child.memory_id]
    assert (await get(assistant, child.memory_id))["parent_id"] == parent.memory_id


async def test_a_relationship_is_a_link_and_the_reverse(assistant: Assistant, tenant: Tenant) -> None:
    one, two = await add(assistant, "one"), await add(assistant, "two")

    added = await run_action(
        assistant, "add_relationship", source_id=one, target_id=two, relationship_type="supports", strength=0.5
    )
    await link(tenant, two, one, "causes")
    related = await run_action(assistant, "get_related", memory_id=one)
    result = (await tenant.links.GetLink(pb.GetLinkRequest(link_id=added["relationship_id"]))).link

    assert (result.relation, result.weight, result.label) == ("supports", 0.5, "")
    assert {
        (memory["relationship_type"], memory["strength"], memory["direction"]) for memory in related["memories"]
    } == {
        ("supports", 0.5, "outgoing"),
        ("causes", 1.0, "incoming"),
    }
    assert set(ids(related)) == {two}
    relationships = (await get(assistant, one))["relationships"]
    assert {"source_id": one, "target_id": two, "relationship_type": "supports", "strength": 0.5} in relationships
    assert {"source_id": two, "target_id": one, "relationship_type": "causes", "strength": 1.0} in relationships
    only = await run_action(assistant, "get_related", memory_id=one, relationship_type="causes")
    assert [memory["relationship_type"] for memory in only["memories"]] == ["causes"]


async def test_a_repeated_relationship_has_the_last_strength(assistant: Assistant) -> None:
    one, two = await add(assistant, "one"), await add(assistant, "two")
    for strength in (0.9, 0.2):
        await run_action(
            assistant, "add_relationship", source_id=one, target_id=two, relationship_type="related", strength=strength
        )

    related = await run_action(assistant, "get_related", memory_id=one)

    assert [memory["strength"] for memory in related["memories"]] == [0.2]


@pytest.mark.parametrize("name", ["Part-Of The Whole", "関連", "x" * 100, "2nd", "SUPPORTS"])
async def test_any_relationship_type_is_returned_as_sent(assistant: Assistant, name: str) -> None:
    one, two, three = [await add(assistant, text) for text in ("one", "two", "three")]
    await run_action(assistant, "add_relationship", source_id=one, target_id=two, relationship_type=name)
    await run_action(assistant, "add_relationship", source_id=one, target_id=three, relationship_type="other")

    related = await run_action(assistant, "get_related", memory_id=one, relationship_type=name)

    assert [(memory["memory_id"], memory["relationship_type"]) for memory in related["memories"]] == [(two, name)]


@pytest.mark.system
async def test_search_finds_words_and_keeps_to_type_and_limit(assistant: Assistant) -> None:
    tea = await add(assistant, "Ana likes green tea in the morning", memory_type="user_preference")
    await add(assistant, "tea was bought in May", memory_type="note")
    await add(assistant, "The boiler was serviced")

    both = await run_action(assistant, "search_memory", query="tea")
    typed_one = await run_action(assistant, "search_memory", query="tea", memory_type="user_preference")
    one = await run_action(assistant, "search_memory", query="tea", limit=1)
    by_type = await run_action(assistant, "search_memory", memory_type="User-Preference")

    assert both["count"] == 2
    assert all(0 < memory["score"] <= 1 for memory in both["memories"])
    assert set(both["memories"][0]) >= FIELDS
    assert ids(typed_one) == ids(by_type) == [tea]
    assert one["count"] == 1
    assert (await run_action(assistant, "search_memory", query="elephants"))["memories"] == []


@pytest.mark.system
async def test_semantic_search_returns_the_nearest(assistant: Assistant) -> None:
    tea = await add(assistant, "Ana likes a hot drink of green leaves in the morning")
    for text in ("The boiler was serviced in May", "The car needs new tyres"):
        await add(assistant, text)

    # A port answers within four seconds, of which it waits one for missing vectors.
    async with asyncio.timeout(60):
        while len(ids(await run_action(assistant, "semantic_search", query="tea"))) < 3:
            await asyncio.sleep(0.05)
    reply = await run_action(assistant, "semantic_search", query="which tea does she prefer", k=2)

    assert reply["count"] == 2
    assert ids(reply)[0] == tea
    scores = [memory["score"] for memory in reply["memories"]]
    assert scores == sorted(scores, reverse=True)
    # The cosine of a text with itself is rounded to a little more than 1.
    await add(assistant, "t1")
    assert (await run_action(assistant, "semantic_search", query="t1", k=1))["results"][0]["score"] <= 1


@pytest.mark.system
async def test_a_search_tells_how_often_a_memory_was_used(assistant: Assistant) -> None:
    memory_id = await add(assistant, "tea at four")
    for _ in range(3):
        await get(assistant, memory_id)

    async with asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.05)
            (result,) = (await run_action(assistant, "search_memory", query="tea"))["memories"]
            if result["access_count"] >= 3:
                break

    assert result["last_accessed_at"] == pytest.approx(time.time(), abs=60)


async def test_an_update_changes_what_it_names_and_nothing_else(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await add(assistant, "tea", tags=["a"], metadata={"x": 1}, importance=0.3, ttl=3600)

    reply = await run_action(
        assistant,
        "update_memory",
        memory_id=memory_id,
        update_data={"content": "coffee", "memory_tier": "short", "tags": [], "expires_at": None, "unknown": 1},
    )
    memory = await get(assistant, memory_id)

    assert reply["memory_id"] == memory_id
    assert (memory["content"], memory["memory_tier"], memory["tags"]) == ("coffee", "short", [])
    assert (memory["metadata"], memory["importance"], memory["expires_at"]) == ({"x": 1}, 0.3, None)
    assert (await tenant.get_memory(memory_id)).content == "coffee"


async def test_an_update_moves_a_memory_under_another_parent_and_out(assistant: Assistant) -> None:
    old, new = await add(assistant, "old"), await add(assistant, "new")
    child = await add(assistant, "child", parent_id=old)

    await run_action(assistant, "update_memory", memory_id=child, update_data={"parent_id": new})
    moved = await get(assistant, child)
    left = ids(await run_action(assistant, "get_children", parent_id=old))
    await run_action(assistant, "update_memory", memory_id=child, update_data={"parent_id": None, "content": "free"})
    free = await get(assistant, child)

    assert (moved["parent_id"], free["parent_id"], free["content"]) == (new, None, "free")
    assert left == []


async def test_a_deleted_memory_is_gone_and_its_children_stay(assistant: Assistant) -> None:
    parent = await add(assistant, "parent")
    child = await add(assistant, "child", parent_id=parent)

    reply = await run_action(assistant, "delete_memory", memory_id=parent)

    assert (reply["memory_id"], reply["deleted_count"]) == (parent, 1)
    assert (await send_action(assistant, "get_memory", memory_id=parent))["status"] == "error"
    assert (await get(assistant, child))["parent_id"] is None
    assert (await send_action(assistant, "delete_memory", memory_id=parent))["status"] == "error"


@pytest.mark.system
async def test_a_cascade_deletes_all_that_is_under_a_memory_and_nothing_else(
    assistant: Assistant, tenant: Tenant
) -> None:
    root = await add(assistant, "root")
    branches = [await add(assistant, f"branch {n}", parent_id=root) for n in range(3)]
    leaves = [await add(assistant, "leaf", parent_id=branch) for branch in branches]
    deep = await add(assistant, "deep", parent_id=leaves[0])
    beside = await add(assistant, "beside")
    await run_action(assistant, "add_relationship", source_id=root, target_id=beside, relationship_type="related")
    # A circle ends as well.
    await link(tenant, root, deep, "child_of")

    reply = await run_action(assistant, "delete_memory", memory_id=root, cascade=True)

    assert reply["deleted_count"] == 8
    remaining = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    assert [memory.external_id for memory in remaining.memories] == [beside]


@pytest.mark.system
@pytest.mark.parametrize("is_chain", [False, True])
async def test_a_cascade_reaches_many_children_and_many_generations(
    assistant: Assistant, tenant: Tenant, *, is_chain: bool
) -> None:
    count = 8 if is_chain else 70
    root = await tenant.create_memory("root")
    children = [pb.Memory(content=f"child {n}") for n in range(count)]
    children_created = (
        await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=children))
    ).memories
    parents = [root, *children_created] if is_chain else [root] * count
    links = [
        pb.Link(from_memory_id=child.memory_id, to_memory_id=parent.memory_id, relation="child_of")
        for child, parent in zip(children_created, parents, strict=False)
    ]
    await tenant.links.BatchCreateLinks(pb.BatchCreateLinksRequest(links=links))

    reply = await run_action(assistant, "delete_memory", memory_id=root.memory_id, cascade=True)

    assert reply["deleted_count"] == count + 1
    assert not (await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories


async def test_reinforcing_multiplies_importance_up_to_one(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await add(assistant, "tea", importance=0.5)

    first = await run_action(assistant, "reinforce_memory", memory_id=memory_id)
    second = await run_action(assistant, "reinforce_memory", memory_id=memory_id, reinforcement_factor=10)

    assert first["importance"] == first["new_importance"] == pytest.approx(0.6)
    assert second["importance"] == second["new_importance"] == 1.0
    assert (await tenant.get_memory(memory_id)).importance == 1.0


@pytest.mark.system
async def test_context_groups_hold_memories(assistant: Assistant, tenant: Tenant) -> None:
    group = (await run_action(assistant, "create_context_group", name="kitchen", description="what is cooked"))[
        "group_id"
    ]
    one, two, three = [await add(assistant, text) for text in ("tea", "cake", "boiler")]

    await run_action(assistant, "add_to_group", group_id=group, memory_id=one)
    several = await run_action(assistant, "add_to_group", group_id=group, memory_ids=[one, two, "mem-none"])
    reply = await run_action(assistant, "get_memories_by_group", group_id=group)

    assert (several["added_count"], [failure["memory_id"] for failure in several["failures"]]) == (2, ["mem-none"])
    assert sorted(ids(reply)) == sorted([one, two])
    assert (await get(assistant, one))["group_ids"] == [group]
    assert (await get(assistant, three))["group_ids"] == []
    assert isinstance(group, int)
    seen = await tenant.get_memory(f"group-{group}")
    assert (seen.type, seen.title, seen.content) == ("context_group", "kitchen", "what is cooked")
    links = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=f"group-{group}", relation="member_of"))
    assert len(links.links) == 2


async def test_a_session_is_made_as_on_port_5574(assistant: Assistant, tenant: Tenant) -> None:
    reply = await run_action(assistant, "create_session", user_id="ana", session_id="s-1")

    result = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s-1"))
    assert (reply["session_id"], result.session.subject_id) == ("s-1", "ana")


async def test_a_batch_adds_valid_items_and_reports_the_others(assistant: Assistant, tenant: Tenant) -> None:
    parent = await add(assistant, "parent", memory_id="mem-parent")
    memories = [
        {"content": "first", "parent_id": parent},
        {"content": ""},
        "no memory",
        {"content": "taken", "memory_id": "mem-parent"},
        {"content": "x" * 200_000},
        {"content": "orphan", "parent_id": "mem-none"},
        {"content": "child of a number", "parent_id": 5},
        {"content": "last", "memory_id": "mem-last"},
    ]

    reply = await run_action(assistant, "batch_add_memories", memories=memories)

    added = reply["memory_ids"]
    assert [memory_id is not None for memory_id in added] == [True, False, False, False, False, False, False, True]
    assert (reply["count"], added[-1]) == (2, "mem-last")
    assert [failure["index"] for failure in reply["failures"]] == [1, 2, 3, 4, 5, 6]
    assert all(failure["message"] for failure in reply["failures"])
    assert ids(await run_action(assistant, "get_children", parent_id=parent)) == [added[0]]
    assert len((await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories) == 3


async def test_a_batch_sent_again_adds_nothing_twice(assistant: Assistant, tenant: Tenant) -> None:
    data = {"memories": [{"content": "one"}, {"content": " "}, {"content": "two"}]}

    first = await assistant.request("batch_add_memories", port=PORT, request_id="r", data=data)
    again = await assistant.request("batch_add_memories", port=PORT, request_id="r", data=data)

    assert again == first
    assert len((await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories) == 2


async def test_a_batch_of_which_nothing_can_be_added_is_an_error(assistant: Assistant) -> None:
    reply = await send_action(assistant, "batch_add_memories", memories=[{"content": ""}])

    assert reply["status"] == "error"
    assert (reply["memory_ids"], reply["failures"][0]["index"]) == ([None], 0)
    assert (await run_action(assistant, "batch_add_memories", memories=[]))["memory_ids"] == []


async def test_a_batch_reads_existing_memories_in_order_and_reports_the_others(
    assistant: Assistant, tenant: Tenant
) -> None:
    one, two = await add(assistant, "one"), await add(assistant, "two")
    gone = pb.Memory(content="gone", external_id="mem-gone")
    gone.create_time.FromJsonString("2023-01-01T00:00:00Z")
    await expire(tenant.snapshots, gone)
    requested_ids: list[Any] = [two, "mem-none", one, two, 7, "", "x" * 300, "\0", "\ud800", "mem-gone"]

    reply = await run_action(assistant, "batch_get_memories", memory_ids=requested_ids)

    assert ids(reply) == [two, one]
    assert set(reply["memories"][0]) >= FIELDS
    assert len(reply["failures"]) == 7
    assert {failure["memory_id"] for failure in reply["failures"]} >= {None, "mem-none", "", "mem-gone"}
