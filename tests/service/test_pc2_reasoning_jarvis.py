"""The Jarvis memory dialect: on 5596 always, and alone on 5598 where that is configured."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assert_healthy, assistant_of, error_reply

from skein.memory.v1 import memory_pb2
from skein_pc2.reasoning.records.agent_request import UNKNOWN_ACTION
from skein_pc2.reasoning.records.record_values import MISSING_FIELDS

PORT = 5596
ALONE = 5598


async def send_action(assistant: Assistant, action: str, *, port: int = PORT, **fields: Any) -> Any:
    """Send one message with an action and return its reply."""
    return await assistant.send(port, json.dumps({"action": action, **fields}).encode())


async def add(assistant: Assistant, value: Any, user_id: str = "ana") -> str:
    """Store a value and return its id."""
    reply = await send_action(assistant, "add_memory", user_id=user_id, memory=value)
    assert reply.keys() == {"status", "memory_id"}
    assert reply["status"] == "ok"
    return str(reply["memory_id"])


async def stored_values(assistant: Assistant, user_id: str = "ana") -> list[Any]:
    """Return the values of a person's memories, oldest first."""
    reply = await send_action(assistant, "get_memories", user_id=user_id)
    assert reply["status"] == "ok"
    return [memory["memory"] for memory in reply["memories"]]


async def memories(tenant: Tenant, **filters: Any) -> list[memory_pb2.Memory]:
    """Read memories as a typed client does."""
    request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(**filters))
    return list((await tenant.memory.ListMemories(request)).memories)


async def test_a_memory_is_one_of_skeins_about_that_person(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await add(assistant, {"type": "note", "text": "likes tea"})

    reply = await send_action(assistant, "get_memories", user_id="ana")

    (stored,) = await memories(tenant, subject_id="ana")
    (memory,) = reply["memories"]
    assert (stored.memory_id, stored.content, stored.type) == (memory_id, "likes tea", "note")
    assert (memory["id"], memory["memory"]) == (memory_id, {"type": "note", "text": "likes tea"})
    assert memory["timestamp"] == pytest.approx(stored.create_time.ToMilliseconds() / 1000, abs=0.001)


DEEP: Any = "bottom"
for _ in range(90):
    DEEP = [DEEP]


ANY_VALUES: list[Any] = [
    None,
    True,
    0,
    -1.5,
    12345678901234567890,
    "",
    " ",
    "plain text",
    "a\0b",
    "\ud800",
    [],
    {},
    [1, [2, {"a": None}]],
    {"text": 5, "list": [True]},
    {"text": "お茶", "nested": {"deep": {"er": [1.25, "x"]}}},
    {"type": "no such type!", "content": "kept"},
    {"type": "episodic", "text": "told in words"},
    {"type": "task", "text": "buy milk"},
    {"": {"": ""}},
    DEEP,
]


@pytest.mark.system
async def test_any_json_value_is_returned_unchanged(assistant: Assistant) -> None:
    for number, value in enumerate(ANY_VALUES):
        await add(assistant, value, f"person {number}")

        assert await stored_values(assistant, f"person {number}") == [value]


async def test_memories_of_a_typed_client_are_returned(assistant: Assistant, tenant: Tenant) -> None:
    typed = memory_pb2.Memory(content="drinks tea", type="preference", subject_id="ana", tags=["tea"], title="Tea")
    typed.data["cups"] = 3
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))

    assert await stored_values(assistant) == [
        {"type": "preference", "text": "drinks tea", "title": "Tea", "tags": ["tea"], "data": {"cups": 3}}
    ]


async def test_changes_of_a_typed_client_are_returned(assistant: Assistant, tenant: Tenant) -> None:
    for value in ({"text": "likes tea", "sure": True}, "likes tea"):
        memory_id = await add(assistant, value)
        update = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=memory_id, content="likes coffee"))
        update.update_mask.paths.append("content")
        await tenant.memory.UpdateMemory(update)

    assert await stored_values(assistant) == [{"text": "likes coffee", "sure": True}, "likes coffee"]


async def test_memories_of_people_are_separate_and_no_user_id_is_the_default_user(assistant: Assistant) -> None:
    await add(assistant, "of ana")
    reply = await send_action(assistant, "add_memory", memory="of nobody")
    ben = await add(assistant, "of ben", "ben")

    assert reply["status"] == "ok"
    assert await stored_values(assistant, "default") == ["of nobody"]
    assert await stored_values(assistant) == ["of ana"]
    # Not even by its id.
    assert await send_action(assistant, "delete_memory", user_id="ana", memory_id=ben) == error_reply(
        "Memory not found"
    )
    assert await stored_values(assistant, "ben") == ["of ben"]


async def test_a_memory_is_deleted_once(assistant: Assistant) -> None:
    memory_id = await add(assistant, "one")
    await add(assistant, "two")

    deleted = await send_action(assistant, "delete_memory", user_id="ana", memory_id=memory_id)
    again = await send_action(assistant, "delete_memory", user_id="ana", memory_id=memory_id)
    nameless = await send_action(assistant, "delete_memory", user_id="ana")

    assert deleted == {"status": "ok"}
    assert again == error_reply("Memory not found")
    assert nameless == error_reply(MISSING_FIELDS)
    assert await stored_values(assistant) == ["two"]


@pytest.mark.system
async def test_clearing_forgets_one_person_alone(assistant: Assistant, tenant: Tenant) -> None:
    batch = [memory_pb2.Memory(content=f"number {number}", subject_id="ana") for number in range(60)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))
    await add(assistant, "of ben", "ben")

    cleared = await send_action(assistant, "clear_memories", user_id="ana")
    again = await send_action(assistant, "clear_memories", user_id="ana")

    assert cleared == {"status": "ok", "cleared": 60}
    assert again == {"status": "ok", "cleared": 0}
    assert await stored_values(assistant) == []
    assert await stored_values(assistant, "ben") == ["of ben"]


async def test_memories_come_in_pages_the_newest_first(assistant: Assistant) -> None:
    for number in range(5):
        await add(assistant, number)

    newest = await send_action(assistant, "get_memories", user_id="ana", limit=3)
    older = await send_action(assistant, "get_memories", user_id="ana", limit=3, page_token=newest["next_page_token"])

    assert [memory["memory"] for memory in newest["memories"]] == [2, 3, 4]
    assert newest["truncated"] is True
    assert [memory["memory"] for memory in older["memories"]] == [0, 1]
    assert "truncated" not in older


NO_NAMES: list[Any] = [5, ["ana"], {}, "x" * 300, "a\0", "\ud800"]


async def test_an_invalid_user_id_is_rejected(assistant: Assistant) -> None:
    for user_id in NO_NAMES:
        for action in ("add_memory", "get_memories", "delete_memory", "clear_memories"):
            reply = await send_action(assistant, action, user_id=user_id, memory_id="m", memory="m")

            assert reply == error_reply(reply["reason"])
            assert "Skein failed" not in reply["reason"]


async def test_a_value_that_is_too_large_is_refused(assistant: Assistant) -> None:
    for value in ({"text": "x" * 100_001}, {"list": ["x" * 1000] * 400}):
        reply = await send_action(assistant, "add_memory", memory=value)

        assert reply["status"] == "error"
        assert "Skein failed" not in reply["reason"]


async def test_a_memory_sent_again_with_its_request_id_is_stored_once(assistant: Assistant) -> None:
    replies = [
        await send_action(assistant, "add_memory", user_id="ana", memory={"text": "once"}, request_id="r")
        for _ in range(2)
    ]

    assert replies[0] == replies[1]
    assert await stored_values(assistant) == [{"text": "once"}]


async def test_alone_on_its_port_the_dialect_answers_everything(cluster: Cluster, tenant: Tenant) -> None:
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_5598": "jarvis"}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        added = await send_action(assistant, "add_memory", port=ALONE, user_id="ana", memory="likes tea")
        content = await send_action(assistant, "add_memory", port=ALONE, content="of the other dialect")
        read = await send_action(assistant, "get_memories", port=ALONE, user_id="ana")
        unknown = await send_action(assistant, "get_context", port=ALONE, session_id="s")
        broken = [await assistant.send(ALONE, body) for body in (b"{", b"\xff", b"", b"[]", b'{"action": 5}')]
        health = await send_action(assistant, "health_check", port=ALONE)
        on_the_main_port = await stored_values(assistant)

    assert added["status"] == "ok"
    assert content == error_reply(MISSING_FIELDS)
    assert [memory["memory"] for memory in read["memories"]] == on_the_main_port == ["likes tea"]
    assert unknown == error_reply(UNKNOWN_ACTION)
    assert {reply["status"] for reply in broken} == {"error"}
    assert all(reply["reason"] for reply in broken)
    assert_healthy(health)


@pytest.mark.system
async def test_many_at_once_are_each_answered(assistant: Assistant) -> None:
    await asyncio.gather(*(add(assistant, number) for number in range(40)))

    assert sorted(await stored_values(assistant)) == list(range(40))
