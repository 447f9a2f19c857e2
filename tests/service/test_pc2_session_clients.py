"""Port 5574 as the clients of its earlier and its later agent use it, in the fields that they read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import zmq
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import Assistant

from skein.session.v1 import archives_pb2, session_pb2

PORT = 5574


class Client:
    """One REQ socket for all of a client's life, with the fields beside the action."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._socket = socket

    async def send(self, **message: Any) -> Any:
        """Send one message and return its reply."""
        await self._socket.send_string(json.dumps(message))
        return json.loads(await self._socket.recv_string())

    async def request(self, action: str, **fields: Any) -> Any:
        """Send an action that must succeed; return its reply."""
        reply = await self.send(action=action, **fields)
        assert reply["status"] == "success", reply
        return reply

    async def add_conversation(self, session_id: str, *turns: str) -> None:
        """Say something in turn, the person first."""
        for number, content in enumerate(turns):
            role = ("user", "assistant")[number % 2]
            await self.request("add_interaction", session_id=session_id, role=role, content=content)


@pytest.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    async with assistant.socket(zmq.REQ, PORT) as socket:
        yield Client(socket)


def turns(reply: Any) -> list[tuple[str, str]]:
    return [(turn["role"], turn["content"]) for turn in reply["context"]]


@pytest.mark.system
async def test_the_later_agent_keeps_a_conversation_and_returns_the_newest_turns(client: Client) -> None:
    session_id = (await client.request("create_session", user_id="ana", metadata={"device": "kitchen"}))["session_id"]
    for number in range(25):
        added = await client.request(
            "add_interaction", session_id=session_id, role="user", content=f"turn {number}", metadata={"n": number}
        )
        assert added["interaction_id"]
        assert added["message"]

    reply = await client.request("get_context", session_id=session_id, limit=20)

    assert turns(reply) == [("user", f"turn {number}") for number in range(5, 25)]


async def test_a_context_is_bounded_by_what_is_sent(client: Client) -> None:
    await client.add_conversation("s", *("x" * 3000 for _ in range(4)))

    async def count(**bounds: Any) -> int:
        return len((await client.request("get_context", session_id="s", **bounds))["context"])

    # 3,000 characters are 750 tokens; without any bound 2,000 tokens fit.
    assert await count() == 2
    assert await count(max_tokens=3000) == 4
    assert await count(limit=20) == 4
    assert await count(limit=3) == 3
    assert await count(limit=3, max_tokens=800) == 1
    assert await count(limit=1, max_tokens=3000) == 1
    assert await count(limit=0) == 0
    for wrong in (-1, "many", True):
        assert (await client.send(action="get_context", session_id="s", limit=wrong))["status"] == "error"


async def test_search_results_have_role_session_and_time(client: Client) -> None:
    await client.request(
        "add_interaction", session_id="s", role="user", content="The boiler leaks", metadata={"mood": "cross"}
    )
    added = await client.request("add_interaction", session_id="s", role="Plumber", content="I will mend the boiler")

    reply = await client.request("search_interactions", query="mend boiler", session_id="s", request_id="r1")

    assert reply["request_id"] == "r1"
    first, second = reply["results"]
    assert (first["memory_id"], first["content"]) == (added["interaction_id"], "I will mend the boiler")
    assert first["metadata"] == {"role": "Plumber", "session_id": "s", "timestamp": first["metadata"]["timestamp"]}
    assert (second["metadata"]["role"], second["metadata"]["mood"]) == ("user", "cross")


async def test_a_search_is_limited_to_its_session_and_user(client: Client) -> None:
    for session_id, user_id in (("a1", "ana"), ("a2", "ana"), ("b1", "ben")):
        await client.request("create_session", session_id=session_id, user_id=user_id)
        await client.add_conversation(session_id, f"the password of {session_id}")

    async def search(**scope: Any) -> set[str]:
        reply = await client.request("search_interactions", query="password", **scope)
        return {result["metadata"]["session_id"] for result in reply["results"]}

    assert await search(session_id="a1") == {"a1"}
    assert await search(user_id="ana") == {"a1", "a2"}
    assert await search(user_id="ben") == {"b1"}
    assert await search(user_id="eve") == set()
    assert await search(user_id="ben", session_id="a1") == set()
    assert await search() == {"a1", "a2", "b1"}


async def test_a_search_returns_ten_unless_it_says_otherwise(client: Client) -> None:
    await client.add_conversation("s", *(f"tea number {number}" for number in range(12)))

    assert len((await client.request("search_interactions", query="tea"))["results"]) == 10
    assert len((await client.request("search_interactions", query="tea", limit=2))["results"]) == 2


@over("fields", [{}, {"query": ""}, {"query": " ", "session_id": "s"}])
async def test_a_search_without_a_query_is_rejected(client: Client, fields: dict[str, Any]) -> None:
    reply = await client.send(action="search_interactions", **fields)

    assert reply == {"status": "error", "message": "Missing query"}


async def test_the_earlier_agents_answers_echo_the_request(client: Client) -> None:
    session_id = (await client.request("create_session", user_id="ana", metadata={}, request_id="r1"))["session_id"]
    added = await client.request(
        "add_interaction", session_id=session_id, role="user", content="hello", metadata={}, request_id="r2"
    )
    context = await client.request("get_context", session_id=session_id, max_tokens=2000, request_id="r3")
    cleared = await client.request("clear_session", session_id=session_id, request_id="r4")
    deleted = await client.request("delete_session", session_id=session_id, request_id="r5")

    assert [one["request_id"] for one in (added, context, cleared, deleted)] == ["r2", "r3", "r4", "r5"]
    assert turns(context) == [("user", "hello")]


async def test_an_interaction_sent_again_has_one_id(client: Client) -> None:
    turn = {"session_id": "s", "role": "user", "content": "once", "request_id": "r"}

    first, again = [await client.request("add_interaction", **turn) for _ in range(2)]

    assert first["interaction_id"] == again["interaction_id"]


async def test_the_agent_tells_its_health_with_the_status_of_its_actions(client: Client) -> None:
    health = await client.send(action="health_check")

    assert (health["status"], health["agent"], health["healthy"]) == ("success", "SessionMemoryAgent", True)
    assert health["ready"] is True


async def test_an_unknown_action_is_named(client: Client) -> None:
    reply = await client.send(action="dance", request_id="r")

    assert reply == {"status": "error", "message": "Unknown action: dance", "request_id": "r"}


@pytest.mark.system
async def test_a_session_in_cold_storage_is_read_searched_and_cleared(client: Client, tenant: Tenant) -> None:
    for session_id in ("old", "new"):
        await client.request("create_session", session_id=session_id, user_id="ana")
        await client.add_conversation(session_id, f"the {session_id} boat")
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="old"))
    await tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id="old"))

    context = await client.request("get_context", session_id="old")
    search_reply = await client.request("search_interactions", query="boat", user_id="ana")
    error_reply = await client.send(action="search_interactions", query="boat", session_id="old")
    await client.request("clear_session", session_id="old")
    cleared = await client.request("get_context", session_id="old")

    assert turns(context) == [("user", "the old boat")]
    assert [result["content"] for result in search_reply["results"]] == ["the new boat"]
    assert (error_reply["status"], "cold storage" in error_reply["message"]) == ("error", True)
    assert cleared["context"] == []
