"""MemoryClient, the original client of port 7140, with its messages alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import zmq
import zmq.asyncio
from fix_pc2 import Assistant

MEMORY_SERVICE = 7140


class Client:
    """MemoryClient: one REQ socket for all of its life, and the fields of a message in `data`."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._socket = socket

    async def send(self, **message: Any) -> Any:
        """Send one message and return its reply."""
        await self._socket.send_string(json.dumps(message))
        return json.loads(await self._socket.recv_string())

    async def request(self, action: str, **data: Any) -> Any:
        """Send an action that must succeed; return its reply."""
        reply = await self.send(action=action, data=data)
        assert reply["status"] == "success", reply
        return reply

    async def add(self, content: Any, **data: Any) -> str:
        """Add a memory with the defaults of MemoryClient."""
        defaults = {"memory_type": "general", "memory_tier": "short", "importance": 0.5, "metadata": {}, "tags": []}
        return str((await self.request("add_memory", content=content, **{**defaults, **data}))["memory_id"])

    async def session(self, user_id: str = "ana") -> str:
        """Open a session."""
        reply = await self.request(
            "create_session",
            user_id=user_id,
            session_type="conversation",
            metadata={"device": "kitchen"},
            created_by="SessionMemoryAgent",
        )
        return str(reply["session_id"])


@asynccontextmanager
async def memory_client(assistant: Assistant) -> AsyncIterator[Client]:
    """Connect as the deployed agents do."""
    async with assistant.socket(zmq.REQ, MEMORY_SERVICE) as socket:
        yield Client(socket)


def ids(memories: list[dict[str, Any]]) -> list[str]:
    return [memory["memory_id"] for memory in memories]
