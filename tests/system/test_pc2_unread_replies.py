"""Replies that a peer does not read: bounded, and without effect on later replies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import zmq
import zmq.asyncio
from fix_pc2 import Assistant

from skein_pc2.protocol.frames import Frames
from skein_pc2.transport import router
from skein_pc2.transport.listener import listen
from skein_pc2.transport.router import REPLIES, PortConfig, Router


class Echo:
    """A dialect whose replies have the size that the message names."""

    async def answer(self, frames: Frames, *, deadline: float) -> dict[str, Any]:
        return {"status": "ok", "text": "x" * int(frames.body[0])}

    def error_reply(self, code: str, text: str) -> dict[str, Any]:
        return {"status": code}


async def answers_to(peer: zmq.asyncio.Socket, sizes: Sequence[int]) -> int:
    """Request replies of some sizes, and read after all were sent; return their number."""
    reply_counter = REPLIES.labels("1", "ok")
    expected = reply_counter._value.get() + len(sizes)
    for size in sizes:
        await peer.send(str(size).encode())
    async with asyncio.timeout(60):
        while reply_counter._value.get() < expected:
            await asyncio.sleep(0.01)
    count = 0
    while await peer.poll(500):
        await peer.recv_multipart()
        count += 1
    return count


@pytest.mark.parametrize(
    ("waves", "unread_bytes", "identity"),
    [([[10_000] * 4000] * 2, 32 << 20, b"k"), ([[0] * 1000], 128 << 10, b"k" * 255)],
    ids=["answers-beyond-the-queue", "long-identity"],
)
async def test_dropped_replies_do_not_reduce_later_capacity(
    monkeypatch: pytest.MonkeyPatch, waves: list[list[int]], unread_bytes: int, identity: bytes
) -> None:
    # So few that one test can fill them.
    monkeypatch.setattr(router, "_MAX_UNREAD_BYTES", unread_bytes)
    last = [unread_bytes // 40] * 39
    config = PortConfig(number=1, host="127.0.0.1", port=0, networks=())
    context = zmq.asyncio.Context()
    context.rcvhwm = 1
    try:
        async with (
            listen(config, router=Router(context, config, Echo(), max_queued_messages=100_000)) as listener,
            Assistant(context, {1: listener.address}).socket(zmq.DEALER, 1) as peer,
        ):
            peer.disconnect(f"tcp://{listener.address}")
            peer.setsockopt(zmq.ROUTING_ID, identity)
            peer.connect(f"tcp://{listener.address}")
            for sizes in waves:
                await answers_to(peer, sizes)

            read = await answers_to(peer, last)
    finally:
        context.term()

    assert read == len(last)
