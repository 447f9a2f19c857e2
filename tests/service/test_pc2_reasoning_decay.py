"""Port 5596 as the decay manager uses it: it reads all memories, changes them, and sends them back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assistant_of
from fix_states import superuser
from google.protobuf import json_format

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2

PORT = 5596


async def send_action(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Send one action and return its reply."""
    return await assistant.send(PORT, json.dumps({"action": action, **fields}).encode())


async def all_memories(assistant: Assistant) -> list[dict[str, Any]]:
    """Return all memories, as the decay manager reads them."""
    reply = await send_action(assistant, "get_all_memories")
    assert reply["status"] == "success"
    return list(reply["memories"])


def age_of_item(item: dict[str, Any]) -> timedelta:
    """Return how old a memory is, in the words of the decay manager."""
    return datetime.now() - datetime.fromisoformat(item["timestamp"])  # noqa: DTZ005 - as the client has it.


async def create_items(assistant: Assistant, tenant: Tenant) -> None:
    """Store memories and messages by several APIs."""
    for content in ("How old is the boiler?", "Ten years"):
        await send_action(assistant, "add_interaction", session_id="s1", type="user_query", content=content)
    await send_action(assistant, "add_memory", content="the boiler is new", type="fact", session_id="s1")
    await send_action(assistant, "add_memory", user_id="ana", memory={"text": "likes tea"})
    typed = memory_pb2.Memory(content="from afar")
    typed.create_time.FromJsonString("2024-01-01T00:00:00.123456Z")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))


@pytest.mark.system
async def test_a_whole_cycle_finishes_and_the_next_list_shows_it(assistant: Assistant, tenant: Tenant) -> None:
    await create_items(assistant, tenant)
    memories = await all_memories(assistant)
    for item in memories:
        hours = age_of_item(item).total_seconds() / 3600
        item["freshness_score"] = max(0.0, 1.0 - 0.1 * hours) / 2
        if item["type"] == "short_term" and item["session_id"] == "s1":
            item["type"] = "medium_term"
            item["consolidated_from"] = "short_term"
            item["consolidation_time"] = datetime.now().isoformat()  # noqa: DTZ005 - as the client has it.

    updated = await send_action(assistant, "update_memories", memories=memories)
    stats = await send_action(assistant, "get_memory_stats")
    after = await all_memories(assistant)
    again = await send_action(assistant, "update_memories", memories=after)

    assert len(memories) == 5
    assert all({"type", "freshness_score", "timestamp", "session_id", "content", "id"} <= item.keys() for item in after)
    assert updated["status"] == stats["status"] == "success"
    assert isinstance(stats["stats"], dict)
    assert after == memories
    assert [item["type"] for item in after].count("medium_term") == 3
    assert again == {"status": "success", "updated": 0, "stored": 0, "unchanged": 5}


@pytest.fixture
def manila(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process, and so the client and pc2, have the local time of Manila."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Manila")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("manila")
async def test_ages_are_right_where_local_time_is_not_utc(assistant: Assistant) -> None:
    await send_action(assistant, "add_interaction", session_id="s1", type="user_query", content="said")
    await send_action(assistant, "add_memory", content="stored")
    now = datetime.now().isoformat()  # noqa: DTZ005 - as the client has it.
    consolidated = {"type": "medium_term", "content": "both", "timestamp": now, "session_id": "s1"}
    await send_action(assistant, "update_memories", memories=[consolidated])

    ages = {item["content"]: age_of_item(item) for item in await all_memories(assistant)}

    assert ages.keys() == {"said", "stored", "both"}
    assert all(timedelta(0) <= value < timedelta(minutes=5) for value in ages.values())


@pytest.mark.system
async def test_a_cycle_changes_no_message_texts_and_no_memory_types(assistant: Assistant, tenant: Tenant) -> None:
    await create_items(assistant, tenant)
    memories = await all_memories(assistant)
    for item in memories:
        item.update(type="long_term", freshness_score=0.25)
        if "message_id" in item:
            item["content"] = "in short"

    await send_action(assistant, "update_memories", memories=memories)

    assert await all_memories(assistant) == memories
    summary = await send_action(assistant, "get_summary", session_id="s1")
    assert summary["summary"] == "User: How old is the boiler?\nUser: Ten years"
    stored = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert {memory.type for memory in stored} == {"fact", "note"}


@pytest.mark.system
async def test_consolidated_memories_without_an_id_are_stored_once(assistant: Assistant, tenant: Tenant) -> None:
    await create_items(assistant, tenant)
    now = datetime.now().isoformat()  # noqa: DTZ005 - as the client has it.
    consolidated = {
        "type": "medium_term",
        "content": "The boiler was replaced",
        "session_id": "s1",
        "timestamp": now,
        "freshness_score": 0.75,
        "consolidated_from": ["How old is the boiler?", "Ten years"],
        "consolidation_time": now,
    }

    first = await send_action(assistant, "update_memories", memories=[consolidated])
    second = await send_action(assistant, "update_memories", memories=[{**consolidated, "freshness_score": 0.5}])

    result = [item for item in await all_memories(assistant) if item["content"] == "The boiler was replaced"]
    assert (first["stored"], second["stored"], second["updated"]) == (1, 0, 1)
    (item,) = result
    assert item.items() >= {**consolidated, "freshness_score": 0.5}.items()
    assert item["id"]


@pytest.mark.system
async def test_items_without_an_id_match_by_content(assistant: Assistant, tenant: Tenant) -> None:
    await create_items(assistant, tenant)
    items = await all_memories(assistant)
    nameless = [
        {name: item[name] for name in ("session_id", "timestamp", "content")} | {"type": "medium_term"}
        for item in items
    ]

    reply = await send_action(assistant, "update_memories", memories=nameless)

    after = await all_memories(assistant)
    assert reply == {"status": "success", "updated": 5, "stored": 0, "unchanged": 0}
    assert after == [{**item, "type": "medium_term"} for item in items]


async def test_a_message_beyond_the_list_is_still_updated(assistant: Assistant, tenant: Tenant) -> None:
    await send_action(assistant, "add_interaction", session_id="s1", type="user_query", content="old")
    (item,) = await all_memories(assistant)
    newer = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="new") for _ in range(30)]
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id="s1", messages=newer))

    reply = await send_action(assistant, "update_memories", memories=[{**item, "freshness_score": 0.125}])

    message = await tenant.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=item["message_id"]))
    assert reply["updated"] == 1
    metadata = json_format.MessageToDict(message.message.metadata)
    assert metadata["pc2"]["decay"]["freshness_score"] == 0.125
    assert metadata["interaction_type"] == "user_query"


async def test_an_update_does_not_restore_purged_messages(assistant: Assistant) -> None:
    await send_action(assistant, "add_interaction", session_id="s1", type="user_query", content="said")
    items = await all_memories(assistant)
    await send_action(assistant, "clear_session", session_id="s1")

    reply = await send_action(assistant, "update_memories", memories=[{**items[0], "type": "long_term"}])

    assert reply == {"status": "success", "updated": 0, "stored": 0, "unchanged": 1}
    assert await all_memories(assistant) == []


@pytest.mark.system
async def test_a_cycle_over_a_full_list_is_applied_completely(cluster: Cluster, tenant: Tenant) -> None:
    # With the deadline of a real client, so the remaining updates run in the background.
    async with assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, gateway=cluster.endpoint) as assistant:
        await cycle_over_many(assistant, tenant)


async def cycle_over_many(assistant: Assistant, tenant: Tenant) -> None:
    batch = [memory_pb2.Memory(content=f"memory {number}") for number in range(210)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))
    for session in range(4):
        messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="said") for _ in range(25)]
        request = session_pb2.AppendMessagesRequest(session_id=f"s{session}", messages=messages, create_session=True)
        await tenant.sessions.AppendMessages(request)
    memories = await all_memories(assistant)

    changed = [{**item, "freshness_score": 0.5, "type": "medium_term"} for item in memories]
    reply = await send_action(assistant, "update_memories", memories=changed)
    assert reply["status"] == "success"

    await wait_until_listed(assistant, changed)
    assert len(memories) == 300
    after = await all_memories(assistant)
    assert reply["updated"] + reply.get("remaining", 0) == 300
    assert {(item["type"], item["freshness_score"]) for item in after} == {("medium_term", 0.5)}


async def wait_until_listed(assistant: Assistant, items: list[dict[str, Any]]) -> None:
    """List until everything that was sent is written: each list waits for the background as long as its client does."""
    async with asyncio.timeout(60):
        # On a busy machine a list may wait longer than its client does; then the reply is an error.
        while (await send_action(assistant, "get_all_memories")).get("memories") != items:
            pass


@pytest.mark.system
async def test_an_update_continues_after_its_reply(cluster: Cluster, tenant: Tenant) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, gateway=cluster.endpoint) as assistant:
        await create_items(assistant, tenant)
        memories = await all_memories(assistant)
        changed = [{**item, "freshness_score": 0.5} for item in memories]

        async with locked_sessions(cluster, tenant):
            reply = await send_action(assistant, "update_memories", memories=changed)
        assert reply["status"] == "success"
        # The two messages at least; a slow machine leaves memories over as well.
        assert reply["remaining"] >= 2
        assert reply["updated"] + reply["remaining"] == len(memories) == 5

        await wait_until_listed(assistant, changed)


@asynccontextmanager
async def locked_sessions(cluster: Cluster, tenant: Tenant) -> AsyncIterator[None]:
    """Block changes of a tenant's messages until the block ends."""
    connection = await superuser(cluster)
    try:
        async with connection.transaction():
            await connection.execute("SELECT FROM session.sessions WHERE tenant_id = $1 FOR UPDATE", tenant.tenant_id)
            yield
    finally:
        await connection.close()


async def test_values_that_a_struct_cannot_represent_are_returned_unchanged(assistant: Assistant) -> None:
    await send_action(assistant, "add_memory", content="tea")
    (item,) = await all_memories(assistant)
    item.update(consolidated_from=[12345678901234567890, None, {"a\0": "\ud800"}], consolidation_time=None)

    await send_action(assistant, "update_memories", memories=[item])

    assert await all_memories(assistant) == [item]
