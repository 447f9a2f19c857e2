"""Port 7140 as the scheduler, the integration test and MemoryClient use it, in the fields that they read."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import Assistant
from fix_pc2_memory import MEMORY_SERVICE, Client, ids, memory_client

from skein.memory.v1 import memory_pb2 as pb


@pytest.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    async with memory_client(assistant) as result:
        yield result


async def create_aged_memory(tenant: Tenant, content: str, *, days: float, **fields: Any) -> str:
    """Store a memory as if it had been stored some days ago."""
    memory = pb.Memory(content=content, external_id=f"mem-{uuid.uuid4()}", **fields)
    memory.create_time.FromSeconds(int(time.time() - days * 86_400))
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory.external_id


# The memory scheduler.


async def test_a_life_cycle_lowers_importance_and_moves_memories_on(client: Client, tenant: Tenant) -> None:
    level = pb.LEVEL_CONTEXTUAL
    fades = await create_aged_memory(tenant, "two days old", days=2, level=level, importance=0.4)
    stays = await create_aged_memory(tenant, "two days old, important", days=1.99, level=level, importance=1.0)
    lasts = await create_aged_memory(tenant, "forever", days=2, level=pb.LEVEL_STRATEGIC, importance=0.4)
    new = await client.add("just now")

    listed = (await client.request("get_all_memories_for_lifecycle"))["memories"]
    assert ids(listed) == [fades, stays, new]
    replies = {one: await client.request("apply_decay", memory_id=one) for one in [*ids(listed), lasts]}
    again = await client.request("apply_decay", memory_id=fades)

    # Ten per cent a day of two days; below 0.4 the tier is the next one.
    assert (replies[fades]["new_importance"], replies[fades]["memory_tier"]) == (
        pytest.approx(0.32, abs=0.001),
        "medium",
    )
    assert (replies[stays]["new_importance"], replies[stays]["memory_tier"]) == (
        pytest.approx(0.801, abs=0.001),
        "short",
    )
    # One per cent a day, if it is asked for.
    assert replies[lasts]["new_importance"] == pytest.approx(0.392, abs=0.001)
    assert (replies[new]["new_importance"], replies[new]["decayed"]) == (0.5, False)
    assert again["new_importance"] == replies[fades]["new_importance"]


@pytest.mark.system
async def test_old_memories_are_consolidated_and_cleaned_up(client: Client, tenant: Tenant) -> None:
    level = pb.LEVEL_CONTEXTUAL
    old = await create_aged_memory(tenant, "yesterday", days=1.5, level=level, importance=0.5)
    await create_aged_memory(tenant, "yesterday, important", days=1.5, level=level, importance=0.6)
    dust = await create_aged_memory(tenant, "last year", days=300, level=pb.LEVEL_STRATEGIC, importance=0.05)
    await client.add("just now", importance=0.05)

    listed = await client.request(
        "get_memories_for_consolidation", memory_tier="short", min_age_hours=24, max_importance=0.5
    )
    consolidated = await client.request("consolidate_memory", memory_id=old)
    cleanup = await client.request("get_memories_for_cleanup", min_age_days=90, max_importance=0.1)
    archived = await client.request("archive_memory", memory_id=dust)

    assert ids(listed["memories"]) == [old]
    assert (consolidated["memory_tier"], consolidated["consolidated"]) == ("medium", True)
    assert (await client.request("get_memories_for_consolidation"))["memories"] == []
    assert (ids(cleanup["memories"]), archived["archived"]) == ([dust], True)
    assert (await client.request("get_memories_for_cleanup"))["memories"] == []
    assert (await client.request("search_memory", query="last year"))["results"] == []
    assert (await client.request("get_memory", memory_id=dust))["memory"]["content"] == "last year"


@pytest.mark.system
async def test_a_list_for_the_scheduler_is_bounded_and_says_so(client: Client, tenant: Tenant) -> None:
    memories = [pb.Memory(content=f"{number} " + "x" * 60_000, level=pb.LEVEL_CONTEXTUAL) for number in range(40)]
    for start in (0, 20):
        request = pb.BatchCreateMemoriesRequest(memories=memories[start : start + 20], defer_embedding=True)
        await tenant.memory.BatchCreateMemories(request)

    few = await client.request("get_all_memories_for_lifecycle", limit=3)
    large = await client.request("get_all_memories_for_lifecycle")

    assert (few["count"], few["truncated"]) == (3, True)
    assert (0 < large["count"] < 40, large["truncated"]) == (True, True)


async def test_the_status_of_the_system_has_numbers_and_no_issues(client: Client) -> None:
    await client.add("short")
    await client.add("long", memory_tier="long")

    status = (await client.request("get_memory_system_status"))["system_status"]

    assert (status["total_memories"], status["memory_by_tier"]) == (2, {"short": 1, "medium": 0, "long": 1})
    assert f"{status['db_size_mb']:.2f} {status['cache_hit_rate']:.2f}" == "0.00 0.00"
    assert status["issues"] == []


@over("action", ["apply_decay", "consolidate_memory", "archive_memory"])
async def test_a_missing_memory_is_an_error_for_the_scheduler(client: Client, action: str) -> None:
    reply = await client.send(action=action, data={"memory_id": "mem-none"})

    assert reply == {"status": "error", "message": "There is no memory of this id"}


# test_memory_integration: payload or the top level.


@pytest.mark.parametrize("form", ["data", "payload", "top level"])
async def test_the_three_forms_of_a_message_are_equivalent(client: Client, form: str) -> None:
    async def send_action(action: str, **fields: Any) -> Any:
        message = {"action": action, **(fields if form == "top level" else {form: fields})}
        reply = await client.send(**message)
        assert reply["status"] == "success", reply
        return reply

    added = await send_action(
        "add_memory", content="tea at four", memory_type="note", importance_score=0.8, tags=["tea"]
    )
    memory_id = added["memory_id"]
    memory = (await send_action("get_memory", memory_id=memory_id))["memory"]
    result = await send_action("search_memory", query="tea")
    batch = await send_action("batch_add_memories", memories=[{"content": "cake", "importance_score": 0.3}])
    both = await send_action("batch_get_memories", memory_ids=[memory_id, *batch["memory_ids"]])

    assert (memory["importance"], memory["memory_tier"], memory["content"]) == (0.8, "short", "tea at four")
    assert ids(result["results"]) == [memory_id]
    assert (both["count"], both["memories"][1]["importance"]) == (2, 0.3)
    assert both["memories"][1]["memory_type"] == "general"


@pytest.mark.parametrize(
    "message",
    [
        {"payload": {"content": "coffee", "importance_score": 0.9, "metadata": {"b": 2}}},
        {"data": {"payload": {"content": "coffee", "importance": 0.9, "metadata": {"b": 2}}}},
        {"payload": {"update_data": {"content": "coffee", "importance": 0.9, "metadata": {"b": 2}}}},
        {"data": {"update_data": {"content": "coffee", "importance": 0.9, "metadata": {"b": 2}}}},
        {"content": "coffee", "importance": 0.9, "metadata": {"b": 2}},
    ],
)
async def test_an_update_is_its_payload_and_merges_metadata(client: Client, message: dict[str, Any]) -> None:
    memory_id = await client.add("tea", metadata={"a": 1})

    reply = await client.send(action="update_memory", memory_id=memory_id, **message)
    memory = (await client.request("get_memory", memory_id=memory_id))["memory"]

    assert reply["status"] == "success"
    assert (memory["content"], memory["importance"], memory["metadata"]) == ("coffee", 0.9, {"a": 1, "b": 2})


@pytest.mark.system
async def test_updates_of_metadata_at_the_same_time_lose_nothing(assistant: Assistant, client: Client) -> None:
    for memory_id in (await client.add("tea"), await client.session()):
        replies = await asyncio.gather(
            *(
                assistant.request(
                    "update_memory",
                    port=MEMORY_SERVICE,
                    data={"memory_id": memory_id, "update_data": {"metadata": {f"k{number}": number}}},
                )
                for number in range(4)
            )
        )

        metadata = (await client.request("get_memory", memory_id=memory_id))["memory"]["metadata"]
        assert {reply["status"] for reply in replies} == {"success"}
        assert {name: value for name, value in metadata.items() if name != "device"} == {
            f"k{number}": number for number in range(4)
        }


async def test_a_text_takes_the_place_of_an_object_as_content(client: Client) -> None:
    memory_id = await client.add({"room": "cellar", "text": "The boiler"})

    await client.request("update_memory", memory_id=memory_id, update_data={"content": "The oven"})

    assert (await client.request("get_memory", memory_id=memory_id))["memory"]["content"] == "The oven"


async def test_each_reading_is_counted_at_once(client: Client) -> None:
    memory_id = await client.add("tea")

    counts = [(await client.request("get_memory", memory_id=memory_id))["memory"]["access_count"] for _ in range(3)]

    assert counts == [1, 2, 3]


async def test_times_are_seconds_since_1970(client: Client) -> None:
    one = await client.add("tea", expires_at=time.time() + 3600)
    two = await client.add("cake")
    await client.request("add_relationship", source_id=one, target_id=two, relationship_type="with", strength=0.7)

    memory = (await client.request("get_memory", memory_id=one))["memory"]
    related = (await client.request("get_related", memory_id=one))["related_memories"]

    for name in ("created_at", "last_accessed_at"):
        assert memory[name] == pytest.approx(time.time(), abs=60), name
    assert memory["expires_at"] == pytest.approx(time.time() + 3600, abs=60)
    assert [one["memory"]["memory_id"] for one in related] == [two]
    assert set(related[0]["memory"]) == {"memory_id", "content", "memory_type", "memory_tier", "importance"}
    relationship = related[0]["relationship"]
    assert (relationship["type"], relationship["strength"]) == ("with", 0.7)
    assert relationship["created_at"] == pytest.approx(time.time(), abs=60)
    # A relationship is listed at its source.
    assert (await client.request("get_related", memory_id=two))["related_memories"] == []


# MemoryClient.


@pytest.mark.system
async def test_context_groups_go_by_numbers(client: Client) -> None:
    group = (await client.request("create_context_group", name="kitchen", description="what is cooked"))["group_id"]
    other = (await client.request("create_context_group", name="cellar"))["group_id"]
    memory_id = await client.add("tea")

    added = await client.request("add_to_group", memory_id=memory_id, group_id=group)

    assert isinstance(group, int)
    assert (group != other, added["group_id"]) == (True, group)
    for name in (group, str(group), f"group-{group}"):
        reply = await client.request("get_memories_by_group", group_id=name)
        assert ids(reply["memories"]) == [memory_id]
    assert (await client.request("get_memories_by_group", group_id=other))["memories"] == []
    assert (await client.request("get_memory", memory_id=memory_id))["memory"]["group_ids"] == [group]
    wrong_names: list[Any] = [True, 1.5, -1, 2**70, "", []]
    for wrong in wrong_names:
        refused = await client.send(action="get_memories_by_group", data={"group_id": wrong})
        assert refused["status"] == "error", wrong


async def test_a_batch_is_added_under_a_session(client: Client) -> None:
    session_id = await client.session()

    added = await client.request(
        "batch_add_memories",
        memories=[{"content": "one", "parent_id": session_id}, {"content": "two", "parent_id": "nothing"}],
    )

    assert ids((await client.request("get_children", parent_id=session_id))["results"]) == [added["memory_ids"][0]]
    assert (added["memory_ids"][1], added["failures"][0]["index"]) == (None, 1)


async def test_an_unknown_action_is_named(client: Client) -> None:
    assert await client.send(action="dance") == {"status": "error", "message": "Unknown action: dance"}
