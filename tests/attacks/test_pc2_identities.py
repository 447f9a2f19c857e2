"""Identities of ZeroMQ peers: a second peer with the first one's identity gets none of its answers.

Attack: a peer connects with the identity of another, while it is connected or after it has left, on every kind of port.
May be seen: its own answers, and no word of the other peer's.
May be spent: one connection each; the other peer loses nothing.
"""

from __future__ import annotations

import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import zmq
import zmq.asyncio
import zmq.auth
from fix_attacks import attack_size
from fix_pc2 import Assistant, OwnAssistant, assistant_of

from skein_pc2.transport.curve import SERVER, create_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fix_cluster import Cluster, Tenant

IDENTITY = b"kitchen"
# Ports that answer alone, and ports that publish as well.
PORTS = (5570, 5596, 5574, 7140, 5617, 5598, 5599, 6583, 7240)
REQUESTS = attack_size(40, 1000)
# Identities that libzmq makes itself for peers that have none begin with a zero.
STRANGE = (b"\0", b"\0\0\0\0\1", b"\0" * 255, b"\xff" * 255, b"kitchen\0")


@asynccontextmanager
async def peer_of(
    assistant: Assistant, port: int, identity: bytes, *, secret: Path | None = None
) -> AsyncIterator[zmq.asyncio.Socket]:
    """Connect under an identity; with the certificate of a client if one is named."""
    async with assistant.socket(zmq.DEALER, port) as peer:
        # Options count for connections that are made after them.
        peer.disconnect(f"tcp://{assistant.ports[port]}")
        peer.setsockopt(zmq.ROUTING_ID, identity)
        if secret is not None:
            peer.curve_publickey, peer.curve_secretkey = zmq.auth.load_certificate(secret)
            peer.curve_serverkey = zmq.auth.load_certificate(secret.with_name(f"{SERVER}.key"))[0]
        peer.connect(f"tcp://{assistant.ports[port]}")
        yield peer


async def ask(peer: zmq.asyncio.Socket, request_id: str, action: str = "ping") -> None:
    await peer.send(json.dumps({"action": action, "request_id": request_id, "memory_id": "m"}).encode())


async def answer(peer: zmq.asyncio.Socket) -> Any:
    return json.loads((await peer.recv_multipart())[-1])


async def left_over(peer: zmq.asyncio.Socket) -> int:
    """Return how many answers are there that were not read."""
    count = 0
    while await peer.poll(0):
        await answer(peer)
        count += 1
    return count


async def share_an_identity(assistant: Assistant, port: int, *secrets: Path) -> tuple[int, int]:
    """Let two peers with one identity ask by turns; return how many answers each of them gets beyond its own."""
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                peer_of(assistant, port, IDENTITY, secret=secrets[number] if secrets else None)
            )
            for number in range(2)
        ]
        for number in range(REQUESTS):
            for peer in both:
                await ask(peer, f"{number}")
        for peer in both:
            for _ in range(REQUESTS):
                await answer(peer)
        return await left_over(both[0]), await left_over(both[1])


@pytest.mark.parametrize("port", PORTS)
async def test_two_peers_with_one_identity_get_their_own_answers(assistant: Assistant, port: int) -> None:
    assert await share_an_identity(assistant, port) == (0, 0)


async def test_answers_of_one_peer_never_reach_the_other_of_its_identity(assistant: Assistant) -> None:
    async with peer_of(assistant, 5570, IDENTITY) as first, peer_of(assistant, 5570, IDENTITY) as second:
        for number in range(REQUESTS):
            await ask(first, f"first-{number}", "read")
            await ask(second, f"second-{number}", "read")
        received = {
            name: {(await answer(peer))["request_id"].partition("-")[0] for _ in range(REQUESTS)}
            for name, peer in (("first", first), ("second", second))
        }

    assert received == {"first": {"first"}, "second": {"second"}}


@pytest.mark.parametrize("port", [5570, 5617])
async def test_two_admitted_clients_with_one_identity_get_their_own_answers(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, port: int
) -> None:
    folder = tmp_path / "certificates"
    secrets = [create_certificate(folder, name) for name in (SERVER, "kitchen", "hall")][1:]
    environment = {
        "SKEIN_PC2_API_KEY": tenant.api_key,
        "SECURE_ZMQ": "1",
        "SKEIN_PC2_CERTIFICATES": str(folder),
    }
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        assert await share_an_identity(assistant, port, *secrets) == (0, 0)


async def test_the_answer_to_a_peer_that_left_is_not_for_the_next_of_its_identity() -> None:
    # A gateway that accepts calls and never answers: what is asked is answered in the order of its asking, late.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = f"127.0.0.1:{silent.getsockname()[1]}"
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway=gateway) as assistant:
            async with peer_of(assistant, 7140, IDENTITY) as first:
                await ask(first, "of-the-first", "get_memory")
                # Its answer shows that the message before it has arrived.
                await ask(first, "")
                await answer(first)
            received = await after_the_first(assistant)

    assert received == "of-the-second"


async def after_the_first(assistant: OwnAssistant) -> Any:
    async with peer_of(assistant, 7140, IDENTITY) as second:
        await ask(second, "of-the-second", "get_memory")
        return (await answer(second)).get("request_id")


@pytest.mark.parametrize("identity", STRANGE, ids=repr)
async def test_an_identity_of_any_bytes_is_answered_and_harms_no_other(assistant: Assistant, identity: bytes) -> None:
    async with peer_of(assistant, 5570, identity) as strange, assistant.socket(zmq.REQ, 5570) as plain:
        for peer in (strange, plain, strange):
            await ask(peer, "1")
            assert (await answer(peer))["status"] == "ok"
