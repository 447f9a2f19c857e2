"""Ports 5570 and 5576 as their clients use them: what each sends, and the fields that it reads of the replies."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import zmq
import zmq.asyncio
from fix_pc2 import Assistant


@dataclass
class MemoryClient:
    """What the orchestrator's own client keeps: one REQ socket, and the session that it adopted."""

    socket: zmq.asyncio.Socket
    agent_id: str
    session_id: str = ""

    async def send(self, action: str, **payload: Any) -> Any:
        """Send a request as the client does; return the data of its reply."""
        message: dict[str, Any] = {
            "action": action,
            "payload": {**payload, "metadata": {"agent_id": self.agent_id}},
            "request_id": f"req-{uuid4().hex[:8]}",
            "timestamp": datetime.now(UTC).isoformat(),
        }
        if action != "create_session":
            message["session_id"] = self.session_id
        await self.socket.send(json.dumps(message).encode())
        reply = json.loads(await self.socket.recv())
        assert (reply["action"], reply["request_id"]) == (action, message["request_id"])
        assert datetime.fromisoformat(reply["timestamp"]).tzinfo is not None
        assert reply["status"] == "success", reply
        return reply["data"]

    async def batch_read(self, **conditions: Any) -> Any:
        """List as the client does: every condition is sent, those that are not set as null."""
        unset = {"memory_type": None, "time_range": None, "tags": None, "limit": 10, "offset": 0}
        order = {"field": "created_at", "order": "desc"}
        return await self.send("batch_read", filter={**unset, "sort": order, **conditions})


@dataclass
class SessionMemoryAgent:
    """The session agent that uses that client: its session ids differ from the orchestrator's."""

    client: MemoryClient

    async def open(self, user_id: str) -> None:
        created = await self.client.send("create_session", user_id=user_id, session_type="conversation")
        assert created["session_id"] != ""
        self.client.session_id = str(uuid4())

    async def add(self, role: str, text: str) -> str:
        content = {"text": text, "role": role, "timestamp": time.time(), "source_agent": "SessionMemoryAgent"}
        created = await self.client.send(
            "create", memory_type="conversation", content=content, tags=["interaction", role], priority=5
        )
        return str(created["memory_id"])

    async def context(self) -> list[tuple[str, str]]:
        listed = await self.client.batch_read(memory_type="conversation", limit=50)
        return [(memory["content"]["role"], memory["content"]["text"]) for memory in reversed(listed["memories"])]


@pytest.fixture
def session_agents(assistant: Assistant) -> Any:
    """Return a function that connects session agents, each with its own socket."""

    async def connect(count: int, act: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number, act))

    async def one(number: int, act: Any) -> None:
        async with assistant.socket(zmq.REQ, 5576) as socket:
            await act(number, SessionMemoryAgent(MemoryClient(socket, agent_id=f"agent-{number}")))

    return connect


@pytest.mark.system
async def test_session_agents_of_two_people_keep_their_conversations_apart(session_agents: Any) -> None:
    contexts: dict[int, list[tuple[str, str]]] = {}
    cleared: dict[int, int] = {}

    async def converse(number: int, agent: SessionMemoryAgent) -> None:
        await agent.open(f"person-{number}")
        for turn in range(3):
            await agent.add("user", f"question {turn} of person {number}")
            await agent.add("assistant", f"answer {turn} to person {number}")
        if number:
            reply = await agent.client.send("bulk_delete", filter={"memory_type": "conversation"})
            cleared[number] = reply["deleted_count"]
        contexts[number] = await agent.context()

    await session_agents(3, converse)

    assert cleared == {1: 6, 2: 6}
    assert contexts[1] == contexts[2] == []
    assert contexts[0] == [
        turn
        for number in range(3)
        for turn in (("user", f"question {number} of person 0"), ("assistant", f"answer {number} to person 0"))
    ]


async def test_a_session_agent_deletes_its_session_by_ending_and_clearing_it(session_agents: Any) -> None:
    deleted = []

    async def act(_number: int, agent: SessionMemoryAgent) -> None:
        await agent.open("ana")
        await agent.add("user", "forget me")
        ended = await agent.client.send("end_session", summary="", archive=True)
        cleared = await agent.client.send("bulk_delete", filter={"memory_type": "conversation"})
        deleted.append((ended["is_archived"], cleared["deleted_count"], await agent.context()))

    await session_agents(1, act)

    assert deleted == [(True, 1, [])]


async def test_the_orchestrators_client_succeeds_in_every_call(assistant: Assistant) -> None:
    async with assistant.socket(zmq.REQ, 5576) as socket:
        client = MemoryClient(socket, agent_id="CoordinatorAgent")
        client.session_id = (await client.send("create_session", user_id="ana", session_metadata={}))["session_id"]
        content = {"text": "Ana drinks green tea at four", "source_agent": "CoordinatorAgent", "cups": [1, 2.5]}
        created = await client.send(
            "create", memory_type="user_preference", content=content, tags=["tea", "habit"], ttl=3600, priority=7
        )
        other = await client.send("create", memory_type="context", content={"text": "It rains"})
        memory_id = created["memory_id"]

        record = await client.send("read", memory_id=memory_id)
        updated = await client.send("update", memory_id=memory_id, tags=["evening"], ttl=60, priority=5)
        listed = await client.batch_read()
        named = await client.send(
            "batch_read", memory_ids=[other["memory_id"], memory_id], filter={"limit": 10, "offset": 0}
        )
        filters = {"memory_types": None, "time_range": None, "tags": None, "min_similarity": 0.7, "limit": 5}
        result = await client.send("search", query="green tea", search_type="hybrid", filters=filters)
        summary = await client.send("summarize", memory_type="user_preference", time_range=None)
        deleted = await client.send("delete", memory_id=other["memory_id"])
        ended = await client.send("end_session", summary="tea", archive=False)

    assert (record["content"], record["priority"], record["session_id"]) == (content, 7, client.session_id)
    assert record["source_agent"] == "CoordinatorAgent"
    expires = datetime.fromisoformat(updated["expires_at"])
    assert timedelta(0) < expires - datetime.now(UTC) <= timedelta(seconds=60)
    assert [memory["priority"] for memory in listed["memories"]] == [5, 5]
    assert (listed["total_count"], listed["page_info"]["has_more"]) == (2, False)
    assert [memory["memory_id"] for memory in named["memories"]] == [other["memory_id"], memory_id]
    assert result["results"][0]["memory_id"] == memory_id
    assert 0 < result["results"][0]["similarity_score"] <= 1
    assert result["total_count"] == len(result["results"])
    assert result["search_metadata"]["search_type"] == "hybrid"
    assert ("green tea" in summary["summary"], summary["memory_count"]) == (True, 1)
    assert deleted["deleted"] is True
    assert (ended["session_id"], ended["is_archived"]) == (client.session_id, False)
    assert datetime.fromisoformat(ended["ended_at"]).tzinfo is not None
