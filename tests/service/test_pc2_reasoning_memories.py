"""Port 5596's memories, error patterns and twins in the dialect of §1, and its coordination with other agents."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import Assistant, error_reply
from google.protobuf import json_format

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_pc2.reasoning.records.record_values import MISSING_FIELDS

PORT = 5596


async def send_message(assistant: Assistant, **message: Any) -> Any:
    """Send one message and return its reply."""
    return await assistant.send(PORT, json.dumps(message).encode())


async def send_action(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Send one message with an action and return its reply."""
    return await send_message(assistant, action=action, **fields)


async def memory(tenant: Tenant, memory_id: str) -> memory_pb2.Memory:
    """Read a memory as a typed client does."""
    return (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory


def pc2_metadata(memory: memory_pb2.Memory) -> dict[str, Any]:
    """Return the `pc2` metadata of a memory, as any client reads it."""
    return dict(json_format.MessageToDict(memory.metadata)["pc2"])


async def memories(tenant: Tenant) -> list[memory_pb2.Memory]:
    """Read all memories as a typed client does."""
    return list((await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories)


@pytest.mark.parametrize(("priority", "importance"), [("HIGH", 0.8), ("MEDIUM", 0.5), ("LOW", 0.2), (None, 0.5)])
async def test_an_added_memory_is_one_of_skeins(
    assistant: Assistant, tenant: Tenant, priority: str | None, importance: float
) -> None:
    reply = await send_action(
        assistant,
        "add_memory",
        content="Ana drinks green tea",
        type="User-Preference",
        priority=priority,
        metadata={"room": "kitchen"},
        session_id="s9",
    )

    stored = await memory(tenant, reply.pop("memory_id"))
    assert reply == {"status": "success", "message": "Memory added"}
    assert (stored.content, stored.type) == ("Ana drinks green tea", "user_preference")
    assert stored.importance == importance
    assert stored.metadata["room"] == "kitchen"
    assert stored.external_id.startswith("mem_")
    opened = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s9"))
    assert opened.session.session_id == "s9"


UNSTORABLE_MEMORIES: list[Any] = [
    {},
    {"content": ""},
    {"content": None},
    {"content": 5},
    {"content": ["a"]},
    {"content": "a\0"},
    {"content": "a", "type": 7},
    {"content": "a", "type": "!"},
    {"content": "a", "priority": "URGENT"},
    {"content": "a", "priority": 3},
    {"content": "a", "metadata": []},
    {"content": "a", "tags": [1]},
    {"content": "a", "tags": ["x" * 300]},
    {"content": "x" * 100_001},
]


@pytest.mark.system
async def test_a_memory_that_cannot_be_stored_is_refused(assistant: Assistant, tenant: Tenant) -> None:
    for fields in UNSTORABLE_MEMORIES:
        reply = await send_action(assistant, "add_memory", **fields)

        assert reply["status"] == "error"
        # §1's and §3's clients read `reason`, those of its memories `message`.
        assert reply["reason"] == reply["message"]
        assert "Skein failed" not in reply["reason"]
        assert not await memories(tenant)
        if not fields:
            assert reply["reason"] == MISSING_FIELDS


async def test_a_memory_sent_again_with_its_request_id_is_stored_once(assistant: Assistant, tenant: Tenant) -> None:
    replies = [await send_action(assistant, "add_memory", content="once", request_id="r") for _ in range(2)]
    other = await send_action(assistant, "add_memory", content="another", request_id="r")

    assert replies[0] == replies[1]
    assert other["memory_id"] != replies[0]["memory_id"]
    assert len(await memories(tenant)) == 2


async def test_all_memories_are_listed_newest_first_with_recent_messages(assistant: Assistant, tenant: Tenant) -> None:
    added = await send_action(assistant, "add_memory", content="the boiler is new", type="fact", session_id="s1")
    await send_action(
        assistant, "add_interaction", session_id="s1", type="user_query", content="How old is the boiler?"
    )
    typed = memory_pb2.Memory(content="from afar", type="note")
    typed.create_time.FromJsonString("2024-01-01T00:00:00Z")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))

    reply = await send_action(assistant, "get_all_memories")

    message_item, fact, old = reply["memories"]
    assert reply["status"] == "success"
    assert (message_item["type"], message_item["session_id"], message_item["content"]) == (
        "short_term",
        "s1",
        "How old is the boiler?",
    )
    assert (message_item["freshness_score"], fact["freshness_score"]) == (1.0, 1.0)
    assert (fact["memory_type"], fact["id"], fact["session_id"]) == ("fact", added["memory_id"], "s1")
    # Which is how long it is remembered, of whatever type it is.
    assert {item["type"] for item in reply["memories"]} == {"short_term"}
    there = datetime(2024, 1, 1, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert (old["memory_type"], datetime.fromisoformat(old["timestamp"])) == ("note", there)
    assert old["freshness_score"] == 0
    assert "truncated" not in reply


async def test_all_memories_come_in_pages(assistant: Assistant, tenant: Tenant) -> None:
    batch = [memory_pb2.Memory(content=f"number {number}") for number in range(7)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))

    first = await send_action(assistant, "get_all_memories", limit=4)
    next_page = await send_action(assistant, "get_all_memories", limit=4, page_token=first["next_page_token"])

    contents = [item["content"] for item in first["memories"] + next_page["memories"]]
    assert first["truncated"] is True
    assert "truncated" not in next_page
    assert sorted(contents) == [f"number {number}" for number in range(7)]
    assert (await send_action(assistant, "get_all_memories", limit=0))["status"] == "error"
    assert (await send_action(assistant, "get_all_memories", page_token="forged"))["status"] == "error"


@pytest.mark.system
async def test_a_reply_has_a_few_megabytes_and_a_next_page(assistant: Assistant, tenant: Tenant) -> None:
    for _ in range(2):
        batch = [memory_pb2.Memory(content="heavy") for _ in range(30)]
        for memory in batch:
            memory.metadata["weight"] = "x" * 60_000
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))

    first = await send_action(assistant, "get_all_memories")
    next_page = await send_action(assistant, "get_all_memories", page_token=first["next_page_token"])

    assert first["truncated"] is True
    assert len({item["id"] for item in first["memories"] + next_page["memories"]}) == 60


async def test_memories_are_updated_and_new_ones_stored(assistant: Assistant, tenant: Tenant) -> None:
    first = (await send_action(assistant, "add_memory", content="tea", metadata={"a": 1}))["memory_id"]
    second = (await send_action(assistant, "add_memory", content="coffee"))["memory_id"]
    await send_action(assistant, "add_interaction", session_id="s", type="code", content="said")
    items = (await send_action(assistant, "get_all_memories"))["memories"]
    for item in items:
        if item.get("id") == first:
            item.update(content="green tea", priority="HIGH", metadata={"b": 2})

    reply = await send_action(
        assistant, "update_memories", memories=[*items, {"content": "milk"}, {"id": "own", "content": "m"}]
    )

    changed = await memory(tenant, first)
    assert reply == {"status": "success", "updated": 1, "stored": 2, "unchanged": 2}
    assert (changed.content, changed.importance, changed.revision) == ("green tea", 0.8, 2)
    assert changed.metadata["b"] == 2
    assert "a" not in changed.metadata
    # What the port knows of it stays.
    assert pc2_metadata(changed)["strength"] == 1
    assert (await memory(tenant, second)).revision == 1
    assert (await memory(tenant, "own")).content == "m"
    assert {one.content for one in await memories(tenant)} == {"green tea", "coffee", "milk", "m"}


NO_UPDATES: list[Any] = [None, "text", {}, [1], [{}], [{"id": 5}], [{"id": "a"}], [{}] * 1001]


async def test_memories_that_cannot_be_updated_are_refused(assistant: Assistant, tenant: Tenant) -> None:
    for items in NO_UPDATES:
        reply = await send_action(assistant, "update_memories", memories=items)

        assert reply["status"] == "error"
        assert not await memories(tenant)


async def test_an_update_does_not_restore_deleted_memories(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = (await send_action(assistant, "add_memory", content="tea"))["memory_id"]
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))

    reply = await send_action(assistant, "update_memories", memories=[{"id": memory_id, "content": "tea again"}])

    assert reply == {"status": "success", "updated": 0, "stored": 0, "unchanged": 1}
    assert not await memories(tenant)


async def test_the_statistics_count_what_any_client_stored(assistant: Assistant, tenant: Tenant) -> None:
    await send_action(assistant, "add_memory", content="a", type="fact")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="b")))

    reply = await send_action(assistant, "get_memory_stats")

    assert reply["status"] == "success"
    assert reply["stats"]["total_memories"] == 2
    assert reply["stats"]["by_type"] == {"fact": 1, "note": 1}


async def test_an_error_pattern_finds_its_solution(assistant: Assistant, tenant: Tenant) -> None:
    added = await send_action(
        assistant, "add_error_pattern", error_type="timeout", pattern=r"timed? ?out after \d+ s", solution="retry"
    )

    result = await send_action(assistant, "get_error_solution", error_message="Call timed out after 30 s at gateway")
    nothing = await send_action(assistant, "get_error_solution", error_message="disk full")

    assert added == {"status": "ok"}
    assert result == {"status": "ok", "solution": "retry"}
    assert nothing == {"status": "ok", "solution": None}
    (stored,) = await memories(tenant)
    assert (stored.type, stored.data["error_type"], stored.data["solution"]) == ("error_pattern", "timeout", "retry")


async def test_a_pattern_that_is_added_again_gets_the_new_solution(assistant: Assistant, tenant: Tenant) -> None:
    pattern = {"error_type": "t", "pattern": "boom"}
    for solution in ("wait", "run"):
        await send_action(assistant, "add_error_pattern", **pattern, solution=solution)
    after = await send_action(assistant, "get_error_solution", error_message="boom")
    (stored,) = await memories(tenant)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=stored.memory_id))
    deleted = await send_action(assistant, "get_error_solution", error_message="boom")
    again = await send_action(assistant, "add_error_pattern", **pattern, solution="hide")

    assert after["solution"] == "run"
    assert deleted["solution"] is None
    assert again == {"status": "ok"}
    assert (await send_action(assistant, "get_error_solution", error_message="boom"))["solution"] == "hide"


async def test_patterns_of_typed_clients_match_and_invalid_ones_are_skipped(
    assistant: Assistant, tenant: Tenant
) -> None:
    for pattern, solution in (("dis[ck] full", "delete"), ("(", "never"), ("x{1001}", "never")):
        stored = memory_pb2.Memory(type="error_pattern", content=pattern)
        stored.data.update({"error_type": "t", "pattern": pattern, "solution": solution})
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=stored))

    reply = await send_action(assistant, "get_error_solution", error_message="the disk full again")

    assert reply["solution"] == "delete"


@over("missing", ["error_type", "pattern"])
async def test_a_pattern_without_a_field_is_missing_it(assistant: Assistant, missing: str) -> None:
    fields = {name: value for name, value in {"error_type": "t", "pattern": "p"}.items() if name != missing}

    assert await send_action(assistant, "add_error_pattern", **fields) == error_reply(MISSING_FIELDS)
    assert await send_action(assistant, "get_error_solution") == error_reply(MISSING_FIELDS)


BAD_PATTERNS: list[Any] = ["(", "[a", "(?=look)", r"(a)\1", "a{2000}", "(a{900}){900}", "x" * 1001, "a\0", 5]


async def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused(assistant: Assistant) -> None:
    for pattern in BAD_PATTERNS:
        reply = await send_action(assistant, "add_error_pattern", error_type="t", pattern=pattern, solution="s")

        assert reply["status"] == "error"
        assert "pattern" in reply["reason"]


async def test_hostile_patterns_do_not_block_other_requests(assistant: Assistant) -> None:
    for number in range(5):
        pattern = f"(a+)+(a|a)*(a*)*{number}$"
        added = await send_action(assistant, "add_error_pattern", error_type="evil", pattern=pattern, solution="s")
        assert added == {"status": "ok"}

    replies = await asyncio.gather(
        send_action(assistant, "get_error_solution", error_message="a" * 3_000_000),
        *(send_action(assistant, "get_session_id", user_id="ana") for _ in range(10)),
    )

    assert {reply["status"] for reply in replies} == {"ok"}
    assert replies[0]["solution"] is None


@pytest.mark.system
async def test_many_patterns_are_looked_through_newest_first(assistant: Assistant, tenant: Tenant) -> None:
    batch = []
    for number in range(300):
        stored = memory_pb2.Memory(type="error_pattern", content=str(number))
        stored.data.update({"error_type": "t", "pattern": f"error {number}$|common", "solution": f"do {number}"})
        batch.append(stored)
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=batch))

    oldest = await send_action(assistant, "get_error_solution", error_message="error 0")
    newest = await send_action(assistant, "get_error_solution", error_message="common")

    assert oldest["solution"] == "do 0"
    assert newest["solution"] == "do 299"


async def test_a_twin_is_the_profile_of_a_subject(assistant: Assistant, tenant: Tenant) -> None:
    updated = await send_action(
        assistant, "update_twin", user_id="ana", twin_data={"mood": "calm", "n": 3, "deep": {"a": [1]}}
    )
    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="ana"))).subject
    more = await send_action(assistant, "update_twin", user_id="ana", twin_data={"mood": "glad"})
    got = await send_action(assistant, "get_twin", user_id="ana")
    deleted = await send_action(assistant, "delete_twin", user_id="ana")
    again = await send_action(assistant, "delete_twin", user_id="ana")

    assert updated == more == deleted == {"status": "ok"}
    assert subject.profile["mood"] == "calm"
    assert got == {"status": "ok", "twin": {"mood": "glad", "n": 3, "deep": {"a": [1]}}}
    assert again == error_reply("User not found")
    assert await send_action(assistant, "get_twin", user_id="ana") == {"status": "ok", "twin": {}}


async def test_a_subject_with_other_fields_loses_its_profile_alone(assistant: Assistant, tenant: Tenant) -> None:
    subject = subjects_pb2.Subject(subject_id="ben", display_name="Ben")
    subject.profile["tea"] = "black"
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))

    got = await send_action(assistant, "get_twin", user_id="ben")
    deleted = await send_action(assistant, "delete_twin", user_id="ben")

    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="ben"))).subject
    assert got["twin"] == {"tea": "black"}
    assert deleted == {"status": "ok"}
    assert (subject.display_name, list(subject.profile.fields)) == ("Ben", [])
    assert (await send_action(assistant, "delete_twin", user_id="ben"))["reason"] == "User not found"


@pytest.mark.system
async def test_updates_of_a_twin_at_once_all_count(assistant: Assistant) -> None:
    replies = await asyncio.gather(
        *(send_action(assistant, "update_twin", twin_data={f"key{number}": number}) for number in range(6))
    )

    assert replies == [{"status": "ok"}] * 6
    # Without a user_id it is the one of "default".
    twin = (await send_action(assistant, "get_twin", user_id="default"))["twin"]
    assert twin == {f"key{number}": number for number in range(6)}


UNSTORABLE_TWINS: list[Any] = [
    {},
    {"twin_data": None},
    {"twin_data": "text"},
    {"twin_data": [1]},
    {"twin_data": {"a": "\0"}},
    {"twin_data": {"a": 1}, "user_id": 5},
    {"twin_data": {"a": 1}, "user_id": "x" * 300},
    {"twin_data": {"a": 1}, "user_id": "a\0"},
    {"twin_data": {"a": "x" * 300_000}},
]


async def test_an_invalid_twin_is_rejected(assistant: Assistant) -> None:
    for fields in UNSTORABLE_TWINS:
        reply = await send_action(assistant, "update_twin", **fields)

        assert reply["status"] == "error"
        assert "Skein failed" not in reply["reason"]


@pytest.mark.parametrize("agent", ["episodic", "dreamworld"])
async def test_operations_are_done_to_skeins_memories(assistant: Assistant, tenant: Tenant, agent: str) -> None:
    async def coordinate(operation: str, **data: Any) -> Any:
        reply = await send_message(assistant, coordinate_with=agent, operation=operation, data=data, priority="high")
        assert reply["status"] == "coordinated", reply
        return reply["result"]

    store_result = await coordinate("store", content="The cellar flooded", place="cellar", tags=["water"])
    memory_id = store_result["memory_id"]
    read = await coordinate("get", memory_id=memory_id)
    query_result = await coordinate("query", query="flooded cellar")
    retrieved = await coordinate("retrieve", keywords=["flooded"])
    updated = await coordinate("update", memory_id=memory_id, content="The cellar flooded twice")
    memory_row = await memory(tenant, memory_id)
    stronger = await coordinate("reinforce", memory_id=memory_id)
    deleted = await coordinate("delete", memory_id=memory_id)

    assert {result["status"] for result in (store_result, read, query_result, updated, stronger, deleted)} == {
        "success"
    }
    assert read["memory"]["content"] == "The cellar flooded"
    assert [item["id"] for item in query_result["memories"]] == [memory_id]
    assert [item["id"] for item in retrieved["memories"]] == [memory_id]
    assert (memory_row.content, memory_row.importance) == ("The cellar flooded twice", 0.8)
    assert memory_row.type == {"episodic": "episodic", "dreamworld": "simulation"}[agent]
    assert (memory_row.metadata["place"], list(memory_row.tags)) == ("cellar", ["water"])
    assert stronger["strength"] == 1.2
    assert not await memories(tenant)


async def test_an_operation_is_not_done_twice_for_one_op_id(assistant: Assistant, tenant: Tenant) -> None:
    async def twice(operation: str, op_id: Any, **data: Any) -> list[Any]:
        message = {"coordinate_with": "episodic", "operation": operation, "data": data, "op_id": op_id}
        return [(await send_message(assistant, **message))["result"] for _ in range(2)]

    stored = await twice("store", "op-1", content="once")
    numbered = await twice("store", 7, content="seven")
    memory_id = stored[0]["memory_id"]
    stronger = await twice("reinforce", "op-2", memory_id=memory_id)
    deleted = await twice("delete", "op-3", memory_id=memory_id)

    assert stored[0] == stored[1]
    assert numbered[0] == numbered[1]
    assert [result["strength"] for result in stronger] == [1.2, 1.2]
    assert deleted[0] == deleted[1] == {"status": "success", "memory_id": memory_id}
    assert [memory.content for memory in await memories(tenant)] == ["seven"]


IMPOSSIBLE_OPERATIONS: list[Any] = [
    {"coordinate_with": "nobody", "operation": "store", "data": {"content": "a"}},
    {"coordinate_with": 7, "operation": "store", "data": {"content": "a"}},
    {"coordinate_with": "episodic", "operation": "dance", "data": {"content": "a"}},
    {"coordinate_with": "episodic"},
    {"coordinate_with": "episodic", "operation": ["store"]},
    {"coordinate_with": "episodic", "operation": "store"},
    {"coordinate_with": "episodic", "operation": "store", "data": "text"},
    {"coordinate_with": "episodic", "operation": "store", "data": {"content": "a"}, "priority": "soon"},
    {"coordinate_with": "episodic", "operation": "store", "data": {"content": "a"}, "op_id": ["x"]},
    {"coordinate_with": "episodic", "operation": "get", "data": {"memory_id": "nothing"}},
    {"coordinate_with": "episodic", "operation": "query", "data": {}},
    {"coordinate_with": "episodic", "operation": "delete", "data": {}},
]


async def test_an_operation_that_cannot_be_done_is_an_error(assistant: Assistant) -> None:
    for fields in IMPOSSIBLE_OPERATIONS:
        reply = await send_message(assistant, **fields)

        assert reply["status"] == "error"
        assert reply["result"] == error_reply(reply["reason"])
        assert "Skein failed" not in reply["reason"]
