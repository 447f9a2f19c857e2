"""Identities of ZeroMQ peers: a second peer with the first one's identity gets none of its replies.

Attack: a peer connects with the identity of another, while it is connected or after it has left, on every kind of port.
May be seen: its own answers, and no word of the other peer's.
May be spent: one connection each; the other peer loses nothing.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
import zmq.auth
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, DedicatedAssistant, assistant_of

from skein_pc2.transport.curve import SERVER, create_certificate

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


async def send_request(peer: zmq.asyncio.Socket, request_id: str, action: str = "ping") -> None:
    await peer.send(json.dumps({"action": action, "request_id": request_id, "memory_id": "m"}).encode())


async def receive_reply(peer: zmq.asyncio.Socket) -> Any:
    return json.loads((await peer.recv_multipart())[-1])


async def unread_replies(peer: zmq.asyncio.Socket) -> int:
    """Return the number of replies that were not read."""
    count = 0
    while await peer.poll(0):
        await receive_reply(peer)
        count += 1
    return count


async def share_identity(assistant: Assistant, port: int, *secrets: Path) -> tuple[int, int]:
    """Let two peers with one identity send by turns; return the number of extra replies that each of them gets."""
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                peer_of(assistant, port, IDENTITY, secret=secrets[number] if secrets else None)
            )
            for number in range(2)
        ]
        for number in range(REQUESTS):
            for peer in both:
                await send_request(peer, f"{number}")
        for peer in both:
            for _ in range(REQUESTS):
                await receive_reply(peer)
        return await unread_replies(both[0]), await unread_replies(both[1])


@pytest.mark.parametrize("port", PORTS)
async def test_two_peers_with_one_identity_get_their_own_answers(assistant: Assistant, port: int) -> None:
    assert await share_identity(assistant, port) == (0, 0)


async def test_replies_to_one_peer_never_reach_another_with_its_identity(assistant: Assistant) -> None:
    async with peer_of(assistant, 5570, IDENTITY) as first, peer_of(assistant, 5570, IDENTITY) as second:
        for number in range(REQUESTS):
            await send_request(first, f"first-{number}", "read")
            await send_request(second, f"second-{number}", "read")
        heard = {
            name: {(await receive_reply(peer))["request_id"].partition("-")[0] for _ in range(REQUESTS)}
            for name, peer in (("first", first), ("second", second))
        }

    assert heard == {"first": {"first"}, "second": {"second"}}


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
        assert await share_identity(assistant, port, *secrets) == (0, 0)


@pytest.mark.system
async def test_a_reply_to_a_disconnected_peer_does_not_reach_the_next_with_its_identity() -> None:
    # A gateway that accepts calls and never answers, so replies come late and in the order of the requests.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = f"127.0.0.1:{silent.getsockname()[1]}"
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway=gateway) as assistant:
            async with peer_of(assistant, 7140, IDENTITY) as first:
                await send_request(first, "of-the-first", "get_memory")
                # Its reply shows that the message before it has arrived.
                await send_request(first, "")
                await receive_reply(first)
            heard = await reconnect_with_identity(assistant)

    assert heard == "of-the-second"


async def reconnect_with_identity(assistant: DedicatedAssistant) -> Any:
    async with peer_of(assistant, 7140, IDENTITY) as second:
        await send_request(second, "of-the-second", "get_memory")
        return (await receive_reply(second)).get("request_id")


@pytest.mark.parametrize("identity", STRANGE, ids=repr)
async def test_an_identity_of_any_bytes_is_answered_and_harms_no_other(assistant: Assistant, identity: bytes) -> None:
    async with peer_of(assistant, 5570, identity) as strange, assistant.socket(zmq.REQ, 5570) as plain:
        for peer in (strange, plain, strange):
            await send_request(peer, "1")
            assert (await receive_reply(peer))["status"] == "ok"
