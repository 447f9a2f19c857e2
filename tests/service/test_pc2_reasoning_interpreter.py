"""Port 5596 as the interpreter uses it: reminders, profiles, memories and contexts, each of one person alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import Assistant, error_reply

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_pc2.reasoning.records.record_values import MISSING_FIELDS

PORT = 5596
TEA = {"id": "r1", "time": "2026-01-02 09:00", "message": "Drink tea"}
CALL = {"id": "r2", "time": "2026-01-02 10:00", "message": "Call Ben"}


async def send_action(assistant: Assistant, action: str, user_id: str = "ana", **fields: Any) -> Any:
    """Send one action with a user_id and return its reply."""
    return await assistant.send(PORT, json.dumps({"action": action, "user_id": user_id, **fields}).encode())


async def reminders(assistant: Assistant, user_id: str = "ana") -> list[Any]:
    """Return the reminders of a person, as the interpreter reads them at each sign-in."""
    reply = await send_action(assistant, "list_reminders", user_id)
    assert reply["status"] == "ok"
    return list(reply["reminders"])


async def test_a_sign_in_reads_the_profile_and_the_reminders_of_a_stranger(assistant: Assistant) -> None:
    profile = await send_action(assistant, "get_profile")

    assert profile == {"status": "ok", "profile": {"name": "ana", "preferences": {}, "taught_commands": {}}}
    assert await reminders(assistant) == []


async def test_reminders_are_listed_in_the_order_of_their_adding(assistant: Assistant, tenant: Tenant) -> None:
    for reminder in (CALL, TEA):
        added = await send_action(assistant, "add_reminder", reminder=reminder)
        assert added["status"] == "ok"
    await send_action(assistant, "add_reminder", "ben", reminder={**TEA, "message": "of ben"})

    assert await reminders(assistant) == [CALL, TEA]
    assert [reminder["message"] for reminder in await reminders(assistant, "ben")] == ["of ben"]
    assert await reminders(assistant, "default") == []
    request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(types=["reminder"], subject_id="ana"))
    stored = (await tenant.memory.ListMemories(request)).memories
    assert {memory.content for memory in stored} == {"Drink tea", "Call Ben"}


async def test_a_reminder_of_a_typed_client_has_the_fields_that_the_interpreter_reads(
    assistant: Assistant, tenant: Tenant
) -> None:
    typed = memory_pb2.Memory(type="reminder", content="Water the plants", subject_id="ana")
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))).memory

    (reminder,) = await reminders(assistant)

    assert (reminder["message"], reminder["time"], reminder["id"]) == ("Water the plants", "", stored.memory_id)


async def test_a_reminder_is_deleted_by_its_index(assistant: Assistant) -> None:
    for user_id in ("ana", "ben"):
        for reminder in (TEA, CALL):
            await send_action(assistant, "add_reminder", user_id, reminder=reminder)

    deleted = await send_action(assistant, "delete_reminder", index=0)
    beyond = await send_action(assistant, "delete_reminder", index=1)

    assert deleted == {"status": "ok"}
    assert beyond == error_reply("Reminder not found")
    assert await reminders(assistant) == [CALL]
    assert await reminders(assistant, "ben") == [TEA, CALL]


async def test_deletions_at_once_delete_a_reminder_each(assistant: Assistant) -> None:
    for number in range(4):
        await send_action(assistant, "add_reminder", reminder={"message": str(number)})

    replies = await asyncio.gather(*(send_action(assistant, "delete_reminder", index=0) for _ in range(3)))

    assert replies == [{"status": "ok"}] * 3
    assert [reminder["message"] for reminder in await reminders(assistant)] == ["3"]


async def test_all_reminders_of_one_person_are_deleted(assistant: Assistant) -> None:
    for user_id in ("ana", "ben"):
        await send_action(assistant, "add_reminder", user_id, reminder=TEA)
    await send_action(assistant, "add_memory", memory={"text": "likes tea"})

    reply = await send_action(assistant, "delete_all_reminders")

    assert reply["status"] == "ok"
    assert await reminders(assistant) == []
    assert await reminders(assistant, "ben") == [TEA]
    assert len((await send_action(assistant, "get_memory"))["memory"]) == 1


BAD_REMINDERS: list[Any] = [None, {}, [], "", 5, {"message": "x" * 100_001}]


async def test_an_empty_reminder_is_rejected(assistant: Assistant) -> None:
    for reminder in BAD_REMINDERS:
        reply = await send_action(assistant, "add_reminder", reminder=reminder)

        assert reply == error_reply(reply["reason"])
        assert "Skein failed" not in reply["reason"]


@pytest.mark.parametrize("index", [-1, "0", 1.5, True, [0], 10**30])
async def test_an_index_beyond_the_list_is_rejected(assistant: Assistant, index: Any) -> None:
    await send_action(assistant, "add_reminder", reminder=TEA)

    assert (await send_action(assistant, "delete_reminder", index=index))["status"] == "error"
    assert await send_action(assistant, "delete_reminder") == error_reply(MISSING_FIELDS)
    assert await reminders(assistant) == [TEA]


async def test_an_update_does_not_change_other_fields_of_a_profile(assistant: Assistant, tenant: Tenant) -> None:
    first = await send_action(assistant, "update_profile", updates={"name": "Ana", "preferences": {"tea": "green"}})
    second = await send_action(assistant, "update_profile", updates={"taught_commands": {"lights out": "scene off"}})

    reply = await send_action(assistant, "get_profile")

    assert first["status"] == second["status"] == "ok"
    assert reply["profile"] == {
        "name": "Ana",
        "preferences": {"tea": "green"},
        "taught_commands": {"lights out": "scene off"},
    }
    assert (await send_action(assistant, "get_profile", "ben"))["profile"]["name"] == "ben"
    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="ana"))).subject
    assert subject.profile["name"] == "Ana"


@over("updates", [None, {}, [], "name"])
async def test_an_empty_profile_update_is_rejected(assistant: Assistant, updates: Any) -> None:
    reply = await send_action(assistant, "update_profile", updates=updates)

    assert reply == error_reply(reply["reason"])


@pytest.mark.system
async def test_the_newest_memories_of_a_person_are_listed_oldest_first(assistant: Assistant) -> None:
    for number in range(12):
        await send_action(assistant, "add_memory", memory={"type": "note", "text": f"number {number}"})
    await send_action(assistant, "add_memory", "ben", memory="of ben")
    await send_action(assistant, "add_reminder", reminder=TEA)
    await send_action(assistant, "add_context", context="in the kitchen")

    by_default = await send_action(assistant, "get_memory")
    two = await send_action(assistant, "get_memory", limit=2)

    assert by_default["status"] == "ok"
    assert [entry["content"] for entry in by_default["memory"]] == [f"number {number}" for number in range(2, 12)]
    assert [entry["memory"] for entry in two["memory"]] == [
        {"type": "note", "text": "number 10"},
        {"type": "note", "text": "number 11"},
    ]
    assert (await send_action(assistant, "get_memory", "nobody"))["memory"] == []
    assert (await send_action(assistant, "get_memory", limit=0))["status"] == "error"


@pytest.mark.system
async def test_a_keyword_finds_the_memories_of_a_person_that_contain_it(assistant: Assistant) -> None:
    await send_action(assistant, "add_memory", memory={"text": "Likes GREEN tea", "room": "kitchen"})
    await send_action(assistant, "add_memory", content="Greenland is cold")
    await send_action(assistant, "add_memory", memory="nothing of it")
    await send_action(assistant, "add_memory", "ben", memory="green with envy")
    await send_action(assistant, "add_reminder", reminder={"message": "green"})

    by_text = await send_action(assistant, "search_memory", keyword="green")
    by_field = await send_action(assistant, "search_memory", keyword="kitchen")
    literal = await send_action(assistant, "search_memory", keyword='"% OR')

    assert by_text["status"] == "ok"
    assert [entry["content"] for entry in by_text["results"]] == ["Greenland is cold", "Likes GREEN tea"]
    assert [entry["content"] for entry in by_field["results"]] == ["Likes GREEN tea"]
    assert literal == {"status": "ok", "results": []}
    assert await send_action(assistant, "search_memory") == error_reply(MISSING_FIELDS)
    for keyword in (5, "x" * 1001, "a\0", "\ud800", ["a"]):
        reply = await send_action(assistant, "search_memory", keyword=keyword)
        assert reply["status"] == "error"
        assert "Skein failed" not in reply["reason"]


async def test_a_context_is_kept_and_cleared_for_one_person(assistant: Assistant, tenant: Tenant) -> None:
    typed = memory_pb2.Memory(type="context", content="of a typed client", subject_id="ana")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))
    for context in ("in the kitchen", {"music": "loud"}):
        assert (await send_action(assistant, "add_context", context=context))["status"] == "ok"
    await send_action(assistant, "add_context", "ben", context="of ben")

    before = await send_action(assistant, "get_context")
    cleared = await send_action(assistant, "clear_context")
    after = await send_action(assistant, "get_context")

    assert before["contexts"] == ["in the kitchen", {"music": "loud"}]
    assert cleared["status"] == "ok"
    assert after["contexts"] == []
    assert (await send_action(assistant, "get_context", "ben"))["contexts"] == ["of ben"]
    remaining = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert {memory.content for memory in remaining} == {"of a typed client", "of ben"}


@over("context", [None, "", {}, []])
async def test_an_empty_context_is_rejected(assistant: Assistant, context: Any) -> None:
    assert await send_action(assistant, "add_context", context=context) == error_reply(MISSING_FIELDS)


@pytest.mark.system
async def test_an_invalid_user_id_is_rejected(assistant: Assistant) -> None:
    for user_id in (5, ["ana"], "x" * 300, "a\0", "\ud800"):
        for action, fields in (
            ("add_reminder", {"reminder": TEA}),
            ("list_reminders", {}),
            ("get_profile", {}),
            ("update_profile", {"updates": {"name": "x"}}),
            ("get_memory", {}),
            ("clear_context", {}),
            ("get_context_summary", {}),
            ("get_recent_context", {}),
        ):
            reply = await send_action(assistant, action, user_id, **fields)  # type: ignore[arg-type]

            assert reply == error_reply(reply["reason"]), action
            assert "Skein failed" not in reply["reason"], action
