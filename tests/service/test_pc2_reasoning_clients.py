"""Port 5596 as its original clients use it: what each sends, and the fields that it reads of the replies."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest
import zmq
from fix_cluster import Tenant
from fix_pc2 import Assistant, assistant_of, error_reply

from skein.session.v1 import session_pb2

PORT = 5596
HEALTH_PORTS = (5597, 5617)


async def send(assistant: Assistant, *messages: dict[str, Any], port: int = PORT) -> list[Any]:
    """Send messages over one REQ socket, as a client that keeps its socket does, and return the replies."""
    async with assistant.socket(zmq.REQ, port) as peer:
        replies = []
        for message in messages:
            await peer.send_json(message)
            replies.append(await peer.recv_json())
        return replies


async def send_action(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Send one action and return its reply."""
    (reply,) = await send(assistant, {"action": action, **fields})
    return reply


async def test_the_model_router_records_interactions_and_reads_a_summary(assistant: Assistant) -> None:
    ana = {"user_id": "ana", "project": "boat"}
    added = await send(
        assistant,
        {"action": "add_interaction", **ana, "type": "user_query", "content": "Which paint?", "metadata": None},
        {"action": "add_interaction", **ana, "type": "system_response", "content": "Blue", "metadata": {"model": "m"}},
        {"action": "add_interaction", "user_id": "ben", "project": "boat", "type": "user_query", "content": "Hush"},
        {"action": "add_interaction", "user_id": "ana", "type": "user_query", "content": "Of today"},
    )

    of_project = await send_action(assistant, "get_summary", **ana, max_tokens=500)
    of_today = await send_action(assistant, "get_summary", user_id="ana", project=None, max_tokens=500)
    failed = await send_action(assistant, "get_summary", max_tokens=500)

    assert [reply["status"] for reply in added] == ["ok"] * 4
    assert of_project == {"status": "ok", "summary": "User: Which paint?\nAssistant: Blue"}
    assert of_today["summary"] == "User: Of today"
    assert failed["status"] == "error"
    assert failed["message"] == failed["reason"] == failed["error"] == "Missing user_id"


@pytest.mark.system
async def test_a_summary_of_a_person_holds_nothing_of_another_whose_session_has_the_same_name(
    assistant: Assistant, tenant: Tenant
) -> None:
    ana = {"user_id": "ana", "project": "boat_race"}
    other = {"user_id": "ana_boat", "project": "race"}
    for person, text in ((ana, "of ana"), (other, "of the other")):
        await send_action(assistant, "add_interaction", **person, type="user_query", content=text)
    update = session_pb2.UpdateSessionRequest(
        session=session_pb2.Session(session_id="ana_boat_race", summary="of both of them")
    )
    update.update_mask.paths.append("summary")
    await tenant.sessions.UpdateSession(update)

    summaries = [await send_action(assistant, "get_summary", **person) for person in (ana, other)]
    short = await send_action(assistant, "get_summary", **ana, max_tokens=3)
    cleared = await send_action(assistant, "clear_session", **ana)
    after = [await send_action(assistant, "get_summary", **person) for person in (ana, other)]

    assert [reply["summary"] for reply in summaries] == ["User: of ana", "User: of the other"]
    assert "both" not in short["summary"]
    assert cleared["status"] == "ok"
    assert [reply["summary"] for reply in after] == ["", "User: of the other"]


async def test_the_reasoning_agents_own_test_passes(assistant: Assistant) -> None:
    session = {"session_id": "test_session"}
    replies = await send(
        assistant,
        {"action": "add_interaction", **session, "type": "user_query", "content": "How do I sort?", "metadata": None},
        {"action": "add_interaction", **session, "type": "code", "content": "sorted(x)", "metadata": {"lang": "py"}},
        {"action": "add_interaction", **session, "type": "error", "content": "TypeError: not comparable"},
        {"action": "add_interaction", **session, "type": "decision", "content": "use a key"},
        {"action": "get_context", **session, "max_tokens": 1000},
        {"action": "add_error_pattern", "error_type": "t", "pattern": "not comparable", "solution": "give a key"},
        {"action": "get_error_solution", "error_message": "TypeError: not comparable"},
        {"action": "update_twin", "user_id": "ana", "twin_data": {"mood": "calm"}},
        {"action": "get_twin", "user_id": "ana"},
        {"action": "get_twin", "user_id": "stranger"},
        {"action": "delete_twin", "user_id": "ana"},
    )

    context, solution, twin, stranger = replies[4], replies[6], replies[8], replies[9]
    assert {reply["status"] for reply in replies} == {"ok"}
    for name in ("context", "summary"):
        document = context[name]
        assert "conversation_summary" in document
        assert "How do I sort?" in document["conversation_summary"]
        assert document["code_context"] == "sorted(x)"
        assert document["errors_encountered"] == [{"type": "TypeError", "message": "TypeError: not comparable"}]
        (decision,) = document["key_decisions"]
        assert decision["decision"] == "use a key"
        datetime.fromisoformat(decision["timestamp"])
        datetime.fromisoformat(document["last_updated"])
    assert solution["solution"] == "give a key"
    assert twin["twin"] == {"mood": "calm"}
    assert stranger["twin"] == {}


async def test_the_type_of_an_error_is_the_one_that_its_metadata_names(assistant: Assistant) -> None:
    await send_action(
        assistant,
        "add_interaction",
        session_id="s",
        type="error",
        content="disk: full",
        metadata={"error_type": "OSError"},
    )

    reply = await send_action(assistant, "get_context", session_id="s")

    assert reply["context"]["errors_encountered"] == [{"type": "OSError", "message": "disk: full"}]


@pytest.mark.parametrize("port", HEALTH_PORTS)
async def test_a_health_port_has_the_numbers_of_the_agents_test(assistant: Assistant, port: int) -> None:
    for session_id in ("a", "b"):
        await send_action(assistant, "add_interaction", session_id=session_id, type="user_query", content="c")
    await send_action(assistant, "add_interaction", session_id="a", type="error", content="TypeError: e")
    await send_action(assistant, "add_error_pattern", error_type="t", pattern="p", solution="s")
    await send_action(assistant, "dance")

    # A health port answers with the last counts where new ones take long.
    async with asyncio.timeout(60):
        while True:
            (health,) = await send(assistant, {"action": "health_check"}, port=port)
            if health["error_patterns_count"] and health["sessions_count"]:
                break
            await asyncio.sleep(0.1)

    assert health["status"] == "ok"
    assert health["uptime_seconds"] > 0
    assert (health["total_requests"], health["successful_requests"], health["failed_requests"]) == (5, 4, 1)
    assert (health["request_count"], health["error_count"]) == (5, 1)
    assert (health["error_patterns_count"], health["error_history_count"], health["sessions_count"]) == (1, 1, 2)
    assert (health["health_status"], health["health_checks"], health["health_details"]) == (
        "healthy",
        {"initialized": True},
        {},
    )


@pytest.mark.parametrize("action", ["health_check", "ping", "health"])
async def test_the_main_port_has_the_same_numbers(assistant: Assistant, action: str) -> None:
    await send_action(assistant, "dance")

    health = await send_action(assistant, action)

    assert (health["status"], health["total_requests"], health["failed_requests"]) == ("ok", 1, 1)


async def test_health_is_answered_with_its_numbers_while_the_cluster_is_away() -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway="127.0.0.1:1") as assistant:
        await send_action(assistant, "get_recent_context")
        documents = [(await send(assistant, {"action": "health_check"}, port=port))[0] for port in (5596, 5597, 5617)]
        (checked,) = await send(assistant, {"request_type": "health_check"})

    for health in documents:
        assert (health["status"], health["sessions_count"], health["error_patterns_count"]) == ("ok", 0, 0)
        assert health["failed_requests"] == 1
    assert checked["status"] == "success"


async def test_health_checkers_get_their_fields(assistant: Assistant) -> None:
    (by_request_type, by_action, context, ping) = await send(
        assistant,
        {"request_type": "health_check"},
        {"action": "health_check"},
        {"action": "get_context", "session_id": "test"},
        {"command": "TEST_PING"},
    )

    assert (by_request_type["status"], by_action["status"]) == ("success", "ok")
    assert by_request_type["agent"] == "UnifiedMemoryReasoningAgent"
    assert by_request_type["timestamp"]
    assert "context" in json.dumps(context)
    assert ping["status"] == "SUCCESS"


async def test_the_simple_test_reads_a_summary_of_nothing(assistant: Assistant) -> None:
    reply = await send_action(assistant, "get_summary", user_id="test_user", project="test_project", max_tokens=100)

    assert reply == {"status": "ok", "summary": ""}


@pytest.mark.system
async def test_the_test_of_contextual_memory_passes(assistant: Assistant) -> None:
    user = {"user_id": "test_user", "project": "test_project"}
    code = "import sqlite3\ndef open_database(path):\n    return sqlite3.connect(path)"
    interactions = [
        ("user_query", "Make me a web application"),
        ("system_response", "With Flask, then"),
        ("code", code),
        ("error", "ImportError: no module named flask"),
        ("decision", "keep everything in a database"),
    ]
    cleared = await send_action(assistant, "clear_session", **user)
    for interaction_type, content in interactions:
        added = await send_action(
            assistant, "add_interaction", **user, type=interaction_type, content=content, metadata={}
        )
        assert added["status"] == "ok"

    summary = (await send_action(assistant, "get_summary", **user, max_tokens=1000))["summary"]
    config = await send_action(assistant, "get_memory_config", user_id="test_user")
    again = await send_action(assistant, "clear_session", **user)
    after = await send_action(assistant, "get_summary", **user, max_tokens=1000)
    more = await send_action(assistant, "add_interaction", **user, type="user_query", content="anew")

    assert cleared["status"] == again["status"] == more["status"] == "ok"
    assert all(word in summary for word in ("database", "web"))
    assert config["status"] == "ok"
    assert config["hierarchy"] == {"short_term": 50, "medium_term": 200, "long_term": 1000}
    assert after == {"status": "ok", "summary": ""}
    assert (await send_action(assistant, "get_summary", **user))["summary"] == "User: anew"


@pytest.mark.system
async def test_clearing_a_session_leaves_the_others(assistant: Assistant, tenant: Tenant) -> None:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="word") for _ in range(600)]
    request = session_pb2.AppendMessagesRequest(session_id="long", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)
    await send_action(assistant, "add_interaction", session_id="other", type="user_query", content="stays")

    reply = await send_action(assistant, "clear_session", session_id="long")

    remaining = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="long"))
    assert reply == {"status": "ok"}
    assert not remaining.messages
    assert (await send_action(assistant, "get_summary", session_id="other"))["summary"] == "User: stays"
    assert await send_action(assistant, "clear_session") == error_reply("Missing session_id")


async def test_the_suggestion_system_reads_the_latest_session_of_a_person(assistant: Assistant) -> None:
    for person, project, text in (
        ("ana", "boat", "Which paint?"),
        ("ana", "house", "How warm is it?"),
        ("ben", "car", "of ben alone"),
    ):
        await send_action(
            assistant, "add_interaction", user_id=person, project=project, type="user_query", content=text
        )

    latest = await send_action(assistant, "get_context_summary", user_id="ana")
    await send_action(assistant, "add_interaction", user_id="ana", project="boat", type="user_query", content="Blue?")
    now = await send_action(assistant, "get_context_summary", user_id="ana")
    stranger = await send_action(assistant, "get_context_summary", user_id="nobody")

    assert latest["status"] == now["status"] == stranger["status"] == "ok"
    assert latest["context"]["conversation_summary"] == "User: How warm is it?"
    assert now["context"]["conversation_summary"] == "User: Which paint?\nUser: Blue?"
    assert stranger["context"]["conversation_summary"] == ""
    assert "of ben" not in json.dumps([latest, now, stranger])
    assert await send_action(assistant, "get_context_summary") == error_reply("Missing user_id")


async def test_the_latest_session_may_be_one_that_another_port_opened_for_the_person(assistant: Assistant) -> None:
    await send_action(
        assistant, "add_interaction", user_id="ana", project="boat", type="user_query", content="Which paint?"
    )
    await send(
        assistant,
        {"action": "create_session", "session_id": "kitchen", "user_id": "ana"},
        {"action": "add_interaction", "session_id": "kitchen", "role": "user", "content": "Is there tea?"},
        port=5574,
    )

    reply = await send_action(assistant, "get_context_summary", user_id="ana")

    assert reply["context"]["conversation_summary"] == "User: Is there tea?"


async def test_the_older_web_agent_reads_the_newest_interactions_as_one_text(assistant: Assistant) -> None:
    for number in range(4):
        for session_id in ("a", "b"):
            content = f"{session_id}{number}"
            await send_action(assistant, "add_interaction", session_id=session_id, type="user_query", content=content)

    recent = await send_action(assistant, "get_recent_context", limit=3)
    by_default = await send_action(assistant, "get_recent_context")
    of_session = await send_action(assistant, "get_recent_context", session_id="a", limit=2)

    assert recent == {"status": "success", "context": "User: b2\nUser: a3\nUser: b3"}
    assert len(by_default["context"].splitlines()) == 5
    assert of_session["context"] == "User: a2\nUser: a3"
    assert (await send_action(assistant, "get_recent_context", limit=0))["status"] == "error"


async def test_what_is_recent_for_a_person_is_the_persons_own(assistant: Assistant) -> None:
    for person in ("ana", "ben"):
        await send_action(
            assistant, "add_interaction", user_id=person, project="p", type="user_query", content=f"of {person}"
        )

    by_person = await send_action(assistant, "get_recent_context", user_id="ana")
    by_project = await send_action(assistant, "get_recent_context", user_id="ana", project="p")
    stranger = await send_action(assistant, "get_recent_context", user_id="nobody")

    assert by_person["context"] == by_project["context"] == "User: of ana"
    assert stranger == {"status": "success", "context": ""}


async def test_recent_interactions_of_nothing_are_an_empty_text(assistant: Assistant) -> None:
    assert await send_action(assistant, "get_recent_context", limit=5) == {"status": "success", "context": ""}


async def test_the_newer_web_agent_gets_back_what_it_stored(assistant: Assistant) -> None:
    data = {
        "content": " The sky is blue\n",
        "type": "Web-Data",
        "url": "https://sky.example",
        "title": None,
        "source_agent": "UnifiedWebAgent",
        "metadata": {"lang": "en", "scores": [0.5, 1], "pc2": "own"},
        "tags": ["weather", "air"],
        "fetched_at": 1795219611.51,
        "number": 12345678901234567890,
        "links": [{"href": "/a", "text": None}],
        "priority": "HIGH",
    }
    before = datetime.now().timestamp()  # noqa: DTZ005 - as the client has it.

    (stored, by_words) = await send(
        assistant,
        {"command": "STORE_MEMORY", "data": data},
        {"command": "QUERY_MEMORY", "query": {"keywords": ["sky"], "min_strength": 0.1}},
    )
    memory_id = stored["data"]["memory_id"]
    (by_id, unknown) = await send(
        assistant,
        {"command": "QUERY_MEMORY", "query": {"id": memory_id}},
        {"command": "QUERY_MEMORY", "query": {"id": "mem_nothing"}},
    )

    assert stored["status"] == by_words["status"] == by_id["status"] == "SUCCESS"
    for reply in (by_words, by_id):
        (record,) = reply["data"]["memories"]
        assert {name: record[name] for name in data} == data
        assert record["id"] == memory_id
        assert before - 60 <= record["created_at"] <= before + 60
        assert before - 60 <= record["last_accessed"] <= before + 60
        assert (record["strength"], record["forgotten"], record["source"]) == (1, False, "UnifiedWebAgent")
    assert unknown == error_reply("Memory mem_nothing not found", status="ERROR")


@pytest.mark.system
@pytest.mark.parametrize("content", ["The sky is blue", {"page": {"title": "The blue sky", "links": [1, None]}}])
async def test_a_record_can_be_sent_back_unchanged(assistant: Assistant, content: Any) -> None:
    data = {"content": content, "source_agent": "UnifiedWebAgent", "depth": 3}
    (stored,) = await send(assistant, {"command": "STORE_MEMORY", "data": data})
    query = {"command": "QUERY_MEMORY", "query": {"id": stored["data"]["memory_id"]}}
    (record_reply,) = await send(assistant, query)
    (record,) = record_reply["data"]["memories"]
    later = {**record, "last_accessed": record["last_accessed"] + 0.5, "depth": 4, "seen": True}

    (same, newer) = await send(
        assistant,
        {"command": "SYNC_MEMORIES", "memories": [record]},
        {"command": "SYNC_MEMORIES", "memories": [later]},
    )
    (changed,) = await send(assistant, query)

    assert same["data"]["synced_count"] == newer["data"]["synced_count"] == 1
    (by_words,) = await send(assistant, {"command": "QUERY_MEMORY", "query": {"keywords": ["blue"]}})
    (after,) = changed["data"]["memories"]
    assert record["content"] == after["content"] == content
    assert by_words["data"]["memories"] == [after]
    assert (after["depth"], after["seen"], after["source_agent"]) == (4, True, "UnifiedWebAgent")
    assert after["created_at"] == record["created_at"]


async def test_the_handler_of_custom_commands_keeps_lists_and_deletes_them(assistant: Assistant) -> None:
    command = {
        "type": "custom_command",
        "trigger_phrase": "lights out",
        "action_type": "scene",
        "action_value": {"room": "all", "level": 0},
    }
    await send_action(assistant, "add_reminder", user_id="ana", reminder={"id": 1, "time": "09:00", "message": "tea"})
    await send_action(assistant, "add_context", user_id="ana", context={"room": "kitchen"})
    added = await send_action(assistant, "add_memory", user_id="ana", memory=command)
    await send_action(assistant, "add_memory", user_id="ben", memory={**command, "trigger_phrase": "of ben"})

    listed = await send_action(assistant, "get_memories", user_id="ana")
    # It distinguishes the commands by the type of each memory.
    result = [entry for entry in listed["memories"] if entry["memory"]["type"] == "custom_command"]
    deleted = await send_action(assistant, "delete_memory", user_id="ana", memory_id=result[0]["id"])
    after = await send_action(assistant, "get_memories", user_id="ana")

    assert added["status"] == listed["status"] == deleted["status"] == "ok"
    assert [entry["memory"] for entry in result] == [command]
    assert "of ben" not in json.dumps(listed)
    assert [entry["memory"]["type"] for entry in after["memories"]] == ["reminder", "context"]
