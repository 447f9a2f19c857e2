"""A receiver of webhooks that hangs delays only its own deliveries."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fix_database import all_told
from fix_memory import MemoryServer

from skein.memory.v1 import history_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.memory.v1 import webhooks_pb2 as pb
from skein_memory.webhooks import sender

EVENTS = 20
NO_CONTENT = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def receiving(says: bytes | bytearray, bodies: list[bytes]) -> AsyncIterator[str]:
    """Listen, and answer byte by byte; what ends without a line's end is never finished."""
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            bodies.append(await reader.readuntil(b"\r\n\r\n"))
            for number in range(len(says)):
                writer.write(says[number : number + 1])
                await writer.drain()
            if not says.endswith(b"\n"):
                await over.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        over.set()
        server.close()


async def test_deliveries_go_on_while_other_receivers_hang(
    memory_server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "TIMEOUT_SECONDS", 5.0)
    requests: list[bytes] = []
    good_calls: list[bytes] = []
    async with (
        receiving(b"", requests) as silent,
        receiving(b"HTTP/1.1 2", requests) as trickling,
        receiving(NO_CONTENT, good_calls) as good,
        memory_server.serving(SKEIN_MASTER_KEY="11" * 32, SKEIN_OUTBOUND_ALLOW=f"{silent} {trickling} {good}") as _,
        memory_server.channel() as channel,
        memory_server.channel(system=True) as worker,
    ):
        history = history_pb2_grpc.HistoryServiceStub(channel)
        for origin in (silent, trickling, good):
            webhook = pb.Webhook(display_name="w", event_types=["memory_created"], webhook_url=f"{origin}/hook")
            await history.CreateWebhook(pb.CreateWebhookRequest(webhook=webhook))
        memories = [memory_pb2.Memory(content=f"bread {number}") for number in range(EVENTS)]
        await memory_pb2_grpc.MemoryServiceStub(channel).BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=memories)
        )
        await all_told(memory_server.database.server)

        deliver = memory_pb2.DeliverWebhooksRequest(limit=3 * EVENTS)
        answer = await memory_pb2_grpc.MemoryInternalServiceStub(worker).DeliverWebhooks(deliver)

    assert len(good_calls) == EVENTS
    # Their destinations are left alone after a few attempts, and what is due there waits.
    assert 0 < len(requests) < 2 * EVENTS
    assert (answer.delivered_count, answer.failed_count, answer.due_count) == (EVENTS, len(requests), 0)


@pytest.mark.essential
async def test_a_destination_that_recovers_is_tried_although_others_fill_the_claim(
    memory_server: MemoryServer,
) -> None:
    answer, good_calls, failing_calls = bytearray(UNAVAILABLE), list[bytes](), list[bytes]()
    async with (
        receiving(NO_CONTENT, good_calls) as good,
        receiving(answer, failing_calls) as failing,
        memory_server.serving(SKEIN_MASTER_KEY="11" * 32, SKEIN_OUTBOUND_ALLOW=f"{good} {failing}"),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as worker,
    ):
        history = history_pb2_grpc.HistoryServiceStub(channel)
        memories = memory_pb2_grpc.MemoryServiceStub(channel)
        internal = memory_pb2_grpc.MemoryInternalServiceStub(worker)

        async def create_webhook(origin: str) -> str:
            created = pb.Webhook(display_name="w", event_types=["memory_created"], webhook_url=f"{origin}/hook")
            return (await history.CreateWebhook(pb.CreateWebhookRequest(webhook=created))).webhook.webhook_id

        async def remember(count: int) -> None:
            for number in range(count):
                memory = memory_pb2.Memory(content=f"bread {number}")
                await memories.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

        async def deliver(limit: int) -> memory_pb2.DeliverWebhooksResponse:
            return await internal.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(limit=limit))

        await create_webhook(good)
        await remember(1)
        webhook_id = await create_webhook(failing)
        await remember(3)
        await all_told(memory_server.database.server)
        # Three of each are tried: the good one has an older one left, and the failing one is left alone.
        await deliver(6)
        call_counts = len(good_calls), len(failing_calls)
        answer[:] = NO_CONTENT
        failed = (
            await history.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest(webhook_id=webhook_id))
        ).deliveries
        await history.RetryWebhookDelivery(pb.RetryWebhookDeliveryRequest(delivery_id=failed[0].delivery_id))

        await deliver(1)
        asked_next = len(good_calls), len(failing_calls)
        await deliver(1)

    assert call_counts == (3, 3)
    assert asked_next == (4, 3)
    assert len(failing_calls) == 4
