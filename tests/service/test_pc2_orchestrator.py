"""Memories through the orchestrator's ports: updated, deleted, and sent again."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_expiry import expire
from fix_pc2 import SESSION, Assistant

from skein.memory.v1 import memory_pb2


def code(reply: Any) -> str:
    """Return the code of a refusal."""
    assert reply["status"] == "error", reply
    return str(reply["error"]["code"])


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def read(assistant: Assistant, memory_id: str) -> Any:
    reply = await assistant.request("read", payload={"memory_id": memory_id})
    assert reply["status"] == "success", reply
    return reply["data"]


async def test_update_changes_what_it_names_and_leaves_the_rest(assistant: Assistant, tenant: Tenant) -> None:
    content = {"text": "tea at four", "source_agent": "Kitchen", "metadata": {"cups": 2}}
    created = await assistant.request("create", payload={"content": content, "tags": ["tea"], "priority": 3})
    memory_id = created["data"]["memory_id"]

    texted = await assistant.request("update", payload={"memory_id": memory_id, "content": {"text": "tea at five"}})
    weighed = await assistant.request(
        "update", payload={"memory_id": memory_id, "priority": 9, "tags": ["late", "tea"]}
    )

    assert set(texted["data"]) == {"memory_id", "updated_at", "expires_at"}
    assert texted["data"]["memory_id"] == memory_id
    assert texted["data"]["expires_at"] is None
    data = await read(assistant, memory_id)
    assert data["content"] == {"text": "tea at five", "source_agent": "Kitchen", "metadata": {"cups": 2}}
    assert (data["priority"], sorted(data["tags"])) == (9, ["late", "tea"])
    assert data["updated_at"] == weighed["data"]["updated_at"] > created["data"]["created_at"]
    stored = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory
    assert (stored.content, stored.source_agent, stored.metadata["cups"]) == ("tea at five", "Kitchen", 2)


@pytest.mark.system
async def test_every_priority_comes_back_and_is_found_by_its_number(assistant: Assistant, tenant: Tenant) -> None:
    plain = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="of no importance in particular"))
    unweighed = (await tenant.memory.CreateMemory(plain)).memory
    for priority in range(1, 11):
        reply = await assistant.request("create", payload={"content": {"text": "tea"}, "priority": priority})
        memory_id = reply["data"]["memory_id"]

        result = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where=f"priority = {priority}"))
        listed = {memory.memory_id for memory in (await tenant.memory.ListMemories(result)).memories}

        assert (await read(assistant, memory_id))["priority"] == priority
        stored = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory
        assert listed == {stored.memory_id, *([unweighed.memory_id] if priority == 5 else [])}
    assert unweighed.importance == 0.5
    assert (await read(assistant, unweighed.memory_id))["priority"] == 5


async def test_update_can_empty_tags_and_metadata(assistant: Assistant) -> None:
    memory_id = await assistant.create("tea", tags=["a"])
    content = {"text": "tea", "metadata": {"a": 1}, "room": "kitchen"}
    await assistant.request("update", payload={"memory_id": memory_id, "content": content})
    with_room = await read(assistant, memory_id)

    await assistant.request("update", payload={"memory_id": memory_id, "content": {"metadata": {}}, "tags": []})

    assert with_room["content"]["room"] == "kitchen"
    data = await read(assistant, memory_id)
    assert (data["content"], data["tags"]) == ({"text": "tea", "metadata": {}}, [])


async def test_a_ttl_counts_from_the_update(assistant: Assistant) -> None:
    memory_id = await assistant.create("tea", ttl=60)
    before = datetime.now(UTC)

    reply = await assistant.request("update", payload={"memory_id": memory_id, "ttl": 3600})

    expires = at(reply["data"]["expires_at"])
    hour = timedelta(seconds=3600)
    assert before + hour - timedelta(seconds=1) <= expires <= datetime.now(UTC) + hour
    assert at((await read(assistant, memory_id))["expires_at"]) == expires


async def test_an_update_sent_again_is_done_once(assistant: Assistant, tenant: Tenant) -> None:
    memory_id = await assistant.create("tea")
    request: dict[str, Any] = {
        "request_id": "req-12345678",
        "payload": {"memory_id": memory_id, "ttl": 60, "content": {"text": "coffee"}},
    }

    first = await assistant.request("update", timestamp="2023-06-15T08:30:45.123Z", **request)
    again = await assistant.request("update", timestamp="2023-06-15T08:30:49.123Z", **request)

    assert again["data"] == first["data"]
    stored = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory
    assert stored.revision == 2


async def test_a_deleted_memory_is_gone_and_deleting_it_again_says_so(assistant: Assistant) -> None:
    memory_id = await assistant.create("tea at four o'clock")

    deleted = await assistant.request("delete", request_id="req-1", payload={"memory_id": memory_id})
    repeated = await assistant.request("delete", request_id="req-1", payload={"memory_id": memory_id})
    again = await assistant.request("delete", request_id="req-2", payload={"memory_id": memory_id})
    result = await assistant.request("search", payload={"query": "tea at four", "search_type": "keyword"})

    assert deleted["data"]["deleted"] is True
    assert repeated["data"] == deleted["data"]
    assert code(again) == "memory_not_found"
    assert code(await assistant.request("read", payload={"memory_id": memory_id})) == "memory_not_found"
    assert (
        code(await assistant.request("update", payload={"memory_id": memory_id, "priority": 2})) == "memory_not_found"
    )
    assert result["data"]["results"] == []


async def test_an_expired_memory_is_neither_read_nor_listed(assistant: Assistant, tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="gone", external_id="mem-gone", session_id=SESSION)
    memory.create_time.FromJsonString("2023-01-01T00:00:00Z")
    await expire(tenant.snapshots, memory)

    named = await assistant.request("batch_read", payload={"memory_ids": ["mem-gone"]})
    listed = await assistant.request("batch_read", payload={})
    updated = await assistant.request("update", payload={"memory_id": "mem-gone", "priority": 2})

    assert named["data"]["memories"] == listed["data"]["memories"] == []
    assert code(updated) == "memory_not_found"


@pytest.mark.system
async def test_the_same_request_sent_at_once_stores_one_memory(assistant: Assistant) -> None:
    request: dict[str, Any] = {"request_id": "req-1", "payload": {"content": {"text": "once"}}}

    replies = await asyncio.gather(*(assistant.request("create", **request) for _ in range(5)))

    assert len({reply["data"]["memory_id"] for reply in replies}) == 1
    listed = await assistant.request("batch_read", payload={})
    assert listed["data"]["total_count"] == 1


@pytest.mark.system
async def test_one_bad_message_among_many_at_once_spoils_no_other(assistant: Assistant) -> None:
    texts = [f"turn {number}" if number != 10 else "x" * 100_001 for number in range(20)]

    created = await asyncio.gather(
        *(assistant.request("create", payload={"content": {"text": text}}) for text in texts)
    )
    named = [reply.get("data", {"memory_id": "mem-none"})["memory_id"] for reply in created]
    result = await asyncio.gather(*(assistant.request("read", payload={"memory_id": name}) for name in named))

    assert [reply["status"] for reply in created].index("error") == 10
    assert created[10]["error"]["details"]["reason"] == "CONTENT_TOO_LONG"
    assert code(result[10]) == "memory_not_found"
    texts_stored = [reply["data"]["content"]["text"] for reply in result if reply["status"] == "success"]
    assert texts_stored == [text for text in texts if len(text) < 100]


async def test_spaces_around_a_text_and_fields_of_the_senders_own_come_back(assistant: Assistant) -> None:
    content = {"text": "  tea\n", "room": {"name": "kitchen", "floor": 1, "tall": 2.5, "doors": [True, None]}}
    created = await assistant.request("create", payload={"content": content})

    data = await read(assistant, created["data"]["memory_id"])

    assert data["content"] == content
    assert '"floor": 1' in json.dumps(data)
    assert '"floor": 1.' not in json.dumps(data)


@over(
    "payload",
    [
        {},
        {"memory_id": ""},
        {"memory_id": 5},
        {"memory_id": "m"},
        {"memory_id": "m", "content": None, "tags": None, "ttl": None, "priority": None},
        {"memory_id": "m", "content": {}},
        {"memory_id": "m", "content": {"text": " "}},
        {"memory_id": "m", "content": []},
        {"memory_id": "m", "ttl": 0},
        {"memory_id": "m", "ttl": "60"},
        {"memory_id": "m", "priority": 11},
        {"memory_id": "m", "tags": [1]},
        {"memory_id": "a\u0000b", "content": {"text": "a\u0000b"}},
    ],
)
async def test_an_update_that_makes_no_sense_is_refused(assistant: Assistant, payload: dict[str, Any]) -> None:
    assert code(await assistant.request("update", payload=payload)) == "validation_error"


async def test_a_record_is_read_by_both_of_its_names(assistant: Assistant) -> None:
    content = {"text": "tea", "role": "user", "timestamp": "2026-11-23T10:00:00", "source_agent": "SessionMemoryAgent"}
    memory_id = await assistant.create("unused", content=content)

    record = await read(assistant, memory_id)

    assert record["memory"]["content"] == record["content"] == content
    assert (record["source_agent"], record["session_id"]) == ("SessionMemoryAgent", SESSION)


@over("payload", [{"content": {"text": "a"}, "memory_type": None}, {"memory_type": "context"}])
async def test_a_memory_without_type_or_content_is_refused(assistant: Assistant, payload: dict[str, Any]) -> None:
    assert code(await assistant.request("create", payload=payload)) == "validation_error"


async def test_an_upsert_stores_a_memory_under_the_id_that_its_caller_chose(assistant: Assistant) -> None:
    memory_id = "translation_session:7f3a"
    first = {"history": [{"source": "Tee", "target": "tea"}], "languages": ["de", "en"]}
    second = {"history": [], "languages": ["tl", "en"]}
    payload: dict[str, Any] = {"memory_id": memory_id, "memory_type": "translation_session", "tags": ["z", "a"]}

    async def upsert(content: dict[str, Any], **more: Any) -> Any:
        reply = await assistant.request(
            "upsert", port=5576, session_id=None, payload={**payload, "content": content, **more}
        )
        assert reply["status"] == "success", reply
        return await assistant.request("read", port=5576, session_id=None, payload={"memory_id": memory_id})

    stored = await upsert(first, ttl=3600)
    replaced = await upsert(second)

    assert stored["data"]["memory"]["content"] == stored["data"]["content"] == first
    assert stored["data"]["expires_at"] is not None
    assert replaced["data"]["memory"]["content"] == second
    assert (replaced["data"]["expires_at"], sorted(replaced["data"]["tags"])) == (None, ["a", "z"])


async def test_an_upsert_of_a_deleted_memory_stores_it_again(assistant: Assistant) -> None:
    payload = {"memory_id": "chosen", "memory_type": "context", "content": {"text": "first"}}
    await assistant.request("upsert", payload=payload)
    await assistant.request("delete", payload={"memory_id": "chosen"})

    again = await assistant.request("upsert", payload={**payload, "content": {"text": "second"}})

    assert again["status"] == "success"
    assert (await read(assistant, "chosen"))["content"] == {"text": "second"}


@pytest.mark.system
async def test_upserts_of_one_id_at_once_leave_one_memory(assistant: Assistant, tenant: Tenant) -> None:
    replies = await asyncio.gather(
        *(
            assistant.request(
                "upsert", payload={"memory_id": "one", "memory_type": "context", "content": {"text": f"{number}"}}
            )
            for number in range(8)
        )
    )

    assert {reply["status"] for reply in replies} == {"success"}
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [memory.external_id for memory in listed.memories] == ["one"]


@over("data", [{"user": "ana", "last_intent": {"name": "lights", "on": True}}, "lights on", [1, 2]])
async def test_what_a_coordinator_saves_is_stored(assistant: Assistant, data: Any) -> None:
    reply = await assistant.request("save", port=5576, session_id=None, data=data)

    record = await read(assistant, reply["data"]["memory_id"])
    content = record["content"]
    assert content == (data if isinstance(data, dict) else {"text": data} if isinstance(data, str) else {"value": data})
    assert record["memory_type"] == "context"


@over("message", [{}, {"data": {}}, {"data": ""}, {"data": None}])
async def test_a_save_of_nothing_is_refused(assistant: Assistant, message: dict[str, Any]) -> None:
    assert code(await assistant.request("save", **message)) == "validation_error"


async def test_a_session_that_was_ended_can_still_be_cleared(assistant: Assistant) -> None:
    session_id = "2f0c1f3e-uuid-of-the-agent"
    await assistant.request("create", session_id=session_id, payload={"content": {"text": "hello", "role": "user"}})

    ended = await assistant.request("end_session", session_id=session_id, payload={"summary": "", "archive": True})
    cleared = await assistant.request(
        "bulk_delete", session_id=session_id, payload={"filter": {"memory_type": "conversation"}}
    )

    assert ended["data"]["is_archived"] is True
    assert cleared["data"]["deleted_count"] == 1
