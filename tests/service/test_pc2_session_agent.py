"""Port 5574, the Session Memory Agent, and its heartbeats on port 6583."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import grpc
import pytest
import zmq
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assert_healthy, assistant_of

from skein.session.v1 import session_pb2
from skein_pc2 import service as pc2_service

PORT, PULSE = 5574, 6583


@pytest.fixture(autouse=True)
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the session agent publish every 50 ms."""
    monkeypatch.setattr(pc2_service, "HEARTBEAT_SECONDS", 0.05)


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Assistant]:
    """Run one pc2 for the tests that store nothing that others would meet."""
    tenant = await cluster.new_tenant()
    async with assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, patient=True, gateway=cluster.endpoint) as result:
        yield result


async def send_action(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Ask the session agent."""
    return await assistant.request(action, port=PORT, **fields)


async def run_action(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Send an action that must succeed; return its reply."""
    reply = await send_action(assistant, action, **fields)
    assert reply["status"] == "success", reply
    return reply


async def add_conversation(assistant: Assistant, session_id: str, *turns: str) -> None:
    for number, content in enumerate(turns):
        role = "user" if number % 2 == 0 else "assistant"
        await run_action(assistant, "add_interaction", session_id=session_id, role=role, content=content)


async def context_of(assistant: Assistant, session_id: str, **fields: Any) -> list[tuple[str, str]]:
    reply = await run_action(assistant, "get_context", session_id=session_id, **fields)
    return [(turn["role"], turn["content"]) for turn in reply["context"]]


async def test_a_session_of_its_own_id_is_what_a_typed_client_reads(assistant: Assistant, tenant: Tenant) -> None:
    own = str(uuid.uuid4())

    reply = await run_action(
        assistant, "create_session", session_id=own, user_id="ana", metadata={"room": "kitchen"}, request_id="req-1"
    )

    assert (reply["session_id"], reply["request_id"]) == (own, "req-1")
    stored = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=own))).session
    assert (stored.subject_id, stored.metadata["room"]) == ("ana", "kitchen")


async def test_a_session_without_an_id_gets_one_and_the_default_user(assistant: Assistant, tenant: Tenant) -> None:
    reply = await run_action(assistant, "create_session")

    stored = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=reply["session_id"]))
    assert stored.session.subject_id == "default"
    assert "request_id" not in reply


async def test_a_session_that_is_made_again_stays_as_it_is(assistant: Assistant) -> None:
    await run_action(assistant, "create_session", session_id="s")
    await add_conversation(assistant, "s", "hello")

    repeated = await run_action(assistant, "create_session", session_id="s")

    assert repeated["session_id"] == "s"
    assert await context_of(assistant, "s") == [("user", "hello")]


async def test_a_request_sent_again_makes_one_session_and_one_turn(assistant: Assistant) -> None:
    first = await run_action(assistant, "create_session", request_id="r1")
    repeated = await run_action(assistant, "create_session", request_id="r1")
    turn = {"session_id": first["session_id"], "role": "user", "content": "once", "request_id": "r2"}
    await run_action(assistant, "add_interaction", **turn)
    await run_action(assistant, "add_interaction", **turn)

    assert repeated["session_id"] == first["session_id"]
    assert await context_of(assistant, first["session_id"]) == [("user", "once")]


async def test_a_typed_client_reads_messages_of_an_assistant_and_the_reverse(
    assistant: Assistant, tenant: Tenant
) -> None:
    await run_action(
        assistant, "add_interaction", session_id="s", role="user", content="Is there tea?", metadata={"mood": "calm"}
    )
    request = session_pb2.AppendMessagesRequest(
        session_id="s",
        messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, content="In the cupboard.")],
    )
    await tenant.sessions.AppendMessages(request)

    reply = await run_action(assistant, "get_context", session_id="s")
    stored = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s"))).messages

    assert reply["session_id"] == "s"
    assert [turn["content"] for turn in reply["context"]] == ["Is there tea?", "In the cupboard."]
    assert [turn["role"] for turn in reply["context"]] == ["user", "assistant"]
    assert all(turn["timestamp"].endswith("Z") for turn in reply["context"])
    assert stored[0].role == session_pb2.MESSAGE_ROLE_USER
    assert dict(stored[0].metadata) == {"mood": "calm"}


@pytest.mark.system
async def test_messages_sent_without_waiting_take_effect_in_order(assistant: Assistant, tenant: Tenant) -> None:
    turns = [f"turn {number}" for number in range(12)]
    messages: list[dict[str, Any]] = [
        {"action": "create_session", "user_id": "ana"},
        *({"action": "add_interaction", "role": "user", "content": turn} for turn in turns),
    ]
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        for message in messages:
            await peer.send_json({**message, "session_id": "in-order"})
        replies = [json.loads((await peer.recv_multipart())[0]) for _ in messages]

    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="in-order"))).session
    assert {reply["status"] for reply in replies} == {"success"}
    assert session.subject_id == "ana"
    assert [content for _, content in await context_of(assistant, "in-order")] == turns


async def test_a_role_unknown_to_skein_is_returned_as_sent(assistant: Assistant, tenant: Tenant) -> None:
    for role in ("tool", "system", "human", "CoordinatorAgent"):
        await run_action(assistant, "add_interaction", session_id="s", role=role, content="x")

    stored = (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s"))).messages

    assert [role for role, _ in await context_of(assistant, "s")] == ["tool", "system", "human", "CoordinatorAgent"]
    assert [message.role for message in stored] == [
        session_pb2.MESSAGE_ROLE_TOOL,
        session_pb2.MESSAGE_ROLE_SYSTEM,
        session_pb2.MESSAGE_ROLE_USER,
        session_pb2.MESSAGE_ROLE_ASSISTANT,
    ]


async def test_a_context_keeps_the_newest_turns_within_its_budget_oldest_first(assistant: Assistant) -> None:
    await add_conversation(assistant, "s", "a" * 40, "b" * 40, "c" * 40)

    assert [text[0] for _, text in await context_of(assistant, "s", max_tokens=20)] == ["b", "c"]
    assert [text[0] for _, text in await context_of(assistant, "s", max_tokens=29)] == ["b", "c"]
    assert [text[0] for _, text in await context_of(assistant, "s", max_tokens=30)] == ["a", "b", "c"]
    assert await context_of(assistant, "s", max_tokens=9) == []
    assert await context_of(assistant, "s", max_tokens=0) == []


async def test_a_context_of_many_turns_is_bounded_by_tokens_alone(assistant: Assistant, tenant: Tenant) -> None:
    turns = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"{n:04d}") for n in range(250)]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=turns, create_session=True)
    )

    assert [text for _, text in await context_of(assistant, "s", max_tokens=220)] == [
        f"{n:04d}" for n in range(30, 250)
    ]


async def test_a_cleared_session_is_empty_and_goes_on(assistant: Assistant, tenant: Tenant) -> None:
    await add_conversation(assistant, "s", "one", "two")

    reply = await run_action(assistant, "clear_session", session_id="s", request_id=7)
    await add_conversation(assistant, "s", "three")

    assert (reply["session_id"], reply["request_id"]) == ("s", 7)
    assert await context_of(assistant, "s") == [("user", "three")]
    stored = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s"))
    assert [message.content for message in stored.messages] == ["three"]


async def test_a_deleted_session_is_gone_and_its_id_stays_taken(assistant: Assistant, tenant: Tenant) -> None:
    await add_conversation(assistant, "s", "one")

    await run_action(assistant, "delete_session", session_id="s")
    replies = [
        await send_action(assistant, "delete_session", session_id="s"),
        await send_action(assistant, "get_context", session_id="s"),
        await send_action(assistant, "add_interaction", session_id="s", role="user", content="two"),
        await send_action(assistant, "create_session", session_id="s"),
    ]

    assert [reply["status"] for reply in replies] == ["error"] * 4
    assert "choose another" in replies[3]["message"]
    with pytest.raises(grpc.aio.AioRpcError):
        await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))


async def test_an_ended_session_takes_no_more_turns_and_says_so(assistant: Assistant, tenant: Tenant) -> None:
    await add_conversation(assistant, "s", "one")
    await tenant.sessions.EndSession(session_pb2.EndSessionRequest(session_id="s"))

    reply = await send_action(assistant, "add_interaction", session_id="s", role="user", content="two", request_id="r")

    assert (reply["status"], reply["request_id"]) == ("error", "r")
    assert "ended" in reply["message"]
    assert await context_of(assistant, "s") == [("user", "one")]


@over(
    ("action", "fields", "word"),
    [
        ("dance", {}, "Unknown action"),
        (["create_session"], {}, "Unknown action"),
        (None, {}, "Unknown action"),
        ("get_context", {}, "session_id"),
        ("get_context", {"session_id": ""}, "session_id"),
        ("get_context", {"session_id": 5}, "session_id"),
        ("get_context", {"session_id": "s" * 300}, "session_id"),
        ("get_context", {"session_id": "never"}, "session"),
        ("get_context", {"session_id": "a\0b"}, ""),
        ("get_context", {"session_id": "\ud800"}, "surrogate"),
        ("get_context", {"session_id": "s", "max_tokens": "many"}, "max_tokens"),
        ("get_context", {"session_id": "s", "max_tokens": -1}, "max_tokens"),
        ("get_context", {"session_id": "s", "max_tokens": True}, "max_tokens"),
        ("add_interaction", {"session_id": "s", "content": "x"}, "role"),
        ("add_interaction", {"session_id": "s", "role": "user"}, "content"),
        ("add_interaction", {"session_id": "s", "role": "user", "content": " "}, "content"),
        ("add_interaction", {"session_id": "s", "role": "user", "content": {"a": 1}}, "content"),
        ("add_interaction", {"session_id": "s", "role": "user", "content": "a\0b"}, "NUL"),
        ("add_interaction", {"session_id": "s", "role": "user", "content": "x" * 200_000}, "long"),
        ("add_interaction", {"session_id": "s", "role": "user", "content": "x", "metadata": []}, "metadata"),
        ("create_session", {"session_id": 5}, "session_id"),
        ("create_session", {"user_id": {}}, "user_id"),
        ("create_session", {"metadata": "x"}, "metadata"),
        ("create_session", {"metadata": {"a": "\0"}}, ""),
        ("clear_session", {"session_id": "never"}, "session"),
        ("create_session", {"data": 7}, "data"),
    ],
)
async def test_an_impossible_request_is_an_error_with_a_reason(
    shared: Assistant, action: Any, fields: dict[str, Any], word: str
) -> None:
    reply = await send_action(shared, action, request_id="r", **fields)

    assert (reply["status"], reply["request_id"]) == ("error", "r")
    assert word in reply["message"]
    assert set(reply) == {"status", "message", "request_id"}


@over("request_id", [{"deep": 1}, [1], "x" * 5000])
async def test_an_invalid_request_id_is_not_returned(shared: Assistant, request_id: Any) -> None:
    reply = await run_action(shared, "create_session", request_id=request_id)

    assert "request_id" not in reply


@over("field", ["metadata", "request_id", "content"])
@over("depth", [300, 900, 20_000])
async def test_deep_nesting_is_answered(shared: Assistant, field: str, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    body = f'{{"action":"add_interaction","session_id":"s","role":"user","content":"x","{field}":{nested}}}'

    reply = await shared.send(PORT, body.encode())

    assert reply["status"] in {"success", "error"}
    assert reply["status"] == "error" or field == "request_id"


async def test_a_dealer_is_answered_in_its_own_framing(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        await peer.send(b'{"action": "create_session", "session_id": "d"}')
        plain = await peer.recv_multipart()
        await peer.send_multipart([b"", b'{"action": "get_context", "session_id": "d"}'])
        delimited = await peer.recv_multipart()

    assert len(plain) == 1
    assert json.loads(plain[0])["session_id"] == "d"
    assert delimited[0] == b""
    assert json.loads(delimited[1])["context"] == []


async def test_services_that_are_down_are_an_error_within_the_clients_time() -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway="127.0.0.1:1") as dedicated:
        reply = await send_action(dedicated, "get_context", session_id="s", request_id="r")
        health = await send_action(dedicated, "health_check")

    assert (reply["status"], reply["request_id"]) == ("error", "r")
    assert "try again" in reply["message"]
    assert_healthy(health, status="success")
    assert (health["agent"], health["healthy"]) == ("SessionMemoryAgent", True)


async def test_the_agent_publishes_heartbeats(cluster: Cluster, tenant: Tenant) -> None:
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key}
    async with (
        assistant_of(environment, patient=True, gateway=cluster.endpoint) as dedicated,
        dedicated.socket(zmq.SUB, PULSE) as listener,
    ):
        listener.subscribe(b"")
        async with asyncio.timeout(30):
            # While the cluster does not answer, the number of sessions is unknown.
            while json.loads((first := await listener.recv_multipart())[0])["status"] != "running":
                pass
        for name in ("s1", "s2", "s3"):
            await run_action(dedicated, "create_session", session_id=name)
        await run_action(dedicated, "delete_session", session_id="s3")
        await tenant.sessions.EndSession(session_pb2.EndSessionRequest(session_id="s2"))
        async with asyncio.timeout(30):
            while json.loads(await listener.recv())["metrics"]["active_sessions"] != 1:
                pass

    assert len(first) == 1
    document = json.loads(first[0])
    # Local time without a zone, as the original agent has it.
    assert abs(datetime.now() - datetime.fromisoformat(document["timestamp"])) < timedelta(minutes=5)  # noqa: DTZ005
    assert document == {
        "component": "session_memory_agent",
        "status": "running",
        "timestamp": document["timestamp"],
        "metrics": {"active_sessions": 0, "db_path": "skein"},
    }


async def test_an_unknown_session_count_is_null() -> None:
    environment = {"SKEIN_PC2_API_KEY": "sk"}
    async with (
        assistant_of(environment, gateway="127.0.0.1:1") as dedicated,
        dedicated.socket(zmq.SUB, PULSE) as listener,
    ):
        listener.subscribe(b"")
        document = json.loads(await listener.recv())

    assert (document["status"], document["metrics"]) == ("degraded", {"active_sessions": None, "db_path": "skein"})
