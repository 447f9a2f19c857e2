"""Clients of pc2's ports as the voice assistants have them, and a pc2 for one test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import zmq
import zmq.asyncio
from fix_cluster import Cluster, Tenant, test_environment

from skein_cluster import registry
from skein_kit.host.process import RunningServices, run_services
from skein_kit.settings import ProcessSettings
from skein_pc2 import service
from skein_pc2.service import SERVICE

# Deployed agents wait for three and five seconds; a machine that runs tests may be slower.
CLIENT_MILLISECONDS = 30_000
# The deadline of replies that ports then have.
LONG_REPLY_SECONDS = 25.0
ORCHESTRATOR_PORTS = (5570, 5576)
MAIN_PORTS = (5570, 5576, 5596, 5574, 7140)
HEALTH_PORTS = (5617, 5597, 5599, 5575, 7141, 8140)
# The session of messages to the orchestrator's ports without a session_id.
SESSION = "session-kitchen"


class OpenPorts(Mapping[int, str]):
    """The addresses of the open ports, such as "127.0.0.1:41234", by the protocol's port. More may open later."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses

    def __getitem__(self, port: int) -> str:
        return self._addresses[f"pc2:{port}"]

    def __iter__(self) -> Iterator[int]:
        return (int(name.removeprefix("pc2:")) for name in self._addresses if name.startswith("pc2:"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Assistant:
    """A client of pc2's ports, as the voice assistants have it."""

    context: zmq.asyncio.Context
    # "127.0.0.1:41234" by the protocol's port.
    ports: Mapping[int, str]

    @asynccontextmanager
    async def socket(self, kind: int, port: int) -> AsyncIterator[zmq.asyncio.Socket]:
        """Connect as the deployed agents do."""
        peer = self.context.socket(kind)
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.RCVTIMEO, CLIENT_MILLISECONDS)
        try:
            peer.connect(f"tcp://{self.ports[port]}")
            yield peer
        finally:
            peer.close()

    async def send(self, port: int, body: bytes) -> Any:
        """Send one frame over REQ and return the reply."""
        async with self.socket(zmq.REQ, port) as peer:
            await peer.send(body)
            return json.loads(await peer.recv())

    async def request(self, action: str, *, port: int = 5570, **envelope: Any) -> Any:
        """Send an orchestrator's request, in a session as its client does; return the whole reply."""
        message: dict[str, Any] = {"action": action, **envelope}
        if port in ORCHESTRATOR_PORTS:
            if action != "create_session":
                message.setdefault("session_id", SESSION)
            if action == "create":
                message["payload"] = {"memory_type": "conversation", **message.get("payload", {})}
        return await self.send(port, json.dumps(message).encode())

    async def create(self, text: str, **payload: Any) -> str:
        """Store a memory and return its id."""
        reply = await self.request("create", payload={"content": {"text": text}, **payload})
        assert reply["status"] == "success", reply
        return str(reply["data"]["memory_id"])


@dataclass(frozen=True)
class DedicatedAssistant(Assistant):
    """An assistant with its own pc2."""

    environment: dict[str, str]
    running: RunningServices


@asynccontextmanager
async def assistant_of(
    environment: Mapping[str, str], *, patient: bool = False, **addresses: str
) -> AsyncIterator[DedicatedAssistant]:
    """Run a pc2 for one test in front of a gateway; `patient` gives its replies a long deadline."""
    values = {**test_environment(), **environment}
    host = registry.host_of(ProcessSettings.read(values), values)
    host.addresses.update(addresses)
    context = zmq.asyncio.Context()
    try:
        async with AsyncExitStack() as stack:
            # The constants are read at the start: other pc2 services of the process keep theirs.
            with pytest.MonkeyPatch.context() as patched:
                for name in ("REPLY_SECONDS", "LONG_REPLY_SECONDS") if patient else ():
                    patched.setattr(service, name, LONG_REPLY_SECONDS)
                pc2 = await stack.enter_async_context(run_services([SERVICE], host))
            yield DedicatedAssistant(context, OpenPorts(host.addresses), values, pc2)
    finally:
        context.term()


@pytest.fixture
async def assistant(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Assistant]:
    """Run a pc2 that acts as the test's tenant."""
    async with assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, patient=True, gateway=cluster.endpoint) as result:
        yield result


def error_reply(text: str, *, status: str = "error") -> dict[str, str]:
    """Return an error of port 5596, which has each name that one of its clients reads."""
    return {"status": status, "reason": text, "message": text, "error": text}


def assert_healthy(document: Mapping[str, Any], *, status: str = "ok") -> None:
    """Assert that a health document is complete; port 5574 has the status "success", except for a ping."""
    assert (document["status"], document["ready"], document["initialized"]) == (status, True, True)
    assert document["message"].endswith("is healthy")
    assert document["timestamp"].endswith("Z")
    assert document["uptime"] >= 0
    assert document["active_threads"] >= 1
