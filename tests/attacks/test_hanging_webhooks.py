"""Webhooks that hang: tenants point many webhooks at receivers that accept connections and never answer.

Attack: every webhook of several tenants waits for the same events, and no receiver ever says a word.
May be seen: the deliveries of other tenants arrive while all of these still hang.
May be spent: eight connections for a tenant, four for its every destination, none while a destination is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from uuid import uuid4

import grpc
import pytest
from fix_attacks import attack_size
from fix_cluster import refused
from fix_database import all_told
from fix_memory import MemoryServer
from google.protobuf.duration_pb2 import Duration

from skein.memory.v1 import history_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.memory.v1 import webhooks_pb2 as pb
from skein_memory.webhooks import sender

TENANTS, WEBHOOKS = attack_size(3, 8), attack_size(12, 30)
QUOTA = 50
SLOTS_OF_TENANT, SLOTS_OF_DESTINATION = 8, 4
SETTINGS = {"SKEIN_MASTER_KEY": "11" * 32}
pytestmark = pytest.mark.usefixtures("long_waits")


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that hangs ends before the test does, however slow the machine is."""
    monkeypatch.setattr(sender, "TIMEOUT_SECONDS", 50.0)
    monkeypatch.setattr(sender, "DRAIN_SECONDS", 0.1)


@dataclass
class Receiver:
    """Listens, counts who comes, and answers 204 unless it hangs or fails."""

    hangs: bool = False
    answer: bytes = b"204 No Content"
    origin: str = ""
    open: int = 0
    request_count: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.changed:
            self.open += 1
            self.request_count += 1
            self.changed.notify_all()
        try:
            if self.hangs:
                await reader.read()
            else:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(b"HTTP/1.1 " + self.answer + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def wait_asked(self, count: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.request_count >= count)


@asynccontextmanager
async def listening(**values: object) -> AsyncIterator[Receiver]:
    receiver = Receiver(**values)  # type: ignore[arg-type]
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0)
    receiver.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()


async def other_tenant(memory_server: MemoryServer) -> MemoryServer:
    """Another tenant of the same service."""
    tenant_id = uuid4()
    async with memory_server.database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
            "SELECT $1, organization_id, 't', $2, now(), now() FROM tenancy.organizations LIMIT 1",
            tenant_id,
            tenant_id.hex,
        )
    return replace(memory_server, tenant_id=tenant_id)


async def create_webhooks(tenant: MemoryServer, *origins: str) -> list[str]:
    async with tenant.channel() as channel:
        history = history_pb2_grpc.HistoryServiceStub(channel)
        webhooks = [
            pb.Webhook(display_name="w", event_types=["memory_created"], webhook_url=f"{origin}/hook/{number}")
            for number, origin in enumerate(origins)
        ]
        made = [await history.CreateWebhook(pb.CreateWebhookRequest(webhook=one)) for one in webhooks]
    return [one.webhook.webhook_id for one in made]


async def remember(tenant: MemoryServer, count: int = 1) -> None:
    memories = [memory_pb2.Memory(content=f"bread {number}") for number in range(count)]
    async with tenant.channel() as channel:
        await memory_pb2_grpc.MemoryServiceStub(channel).BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=memories)
        )
    await all_told(tenant.database.server)


async def deliver(tenant: MemoryServer, *, wait: Duration | None = None) -> memory_pb2.DeliverWebhooksResponse:
    async with tenant.channel(system=True) as channel:
        request = memory_pb2.DeliverWebhooksRequest(wait=wait)
        return await memory_pb2_grpc.MemoryInternalServiceStub(channel).DeliverWebhooks(request)


async def read(tenant: MemoryServer, webhook_id: str) -> pb.Webhook:
    async with tenant.channel() as channel:
        history = history_pb2_grpc.HistoryServiceStub(channel)
        return (await history.GetWebhook(pb.GetWebhookRequest(webhook_id=webhook_id))).webhook


async def let_pause_pass(tenant: MemoryServer) -> None:
    async with tenant.database.superuser() as connection:
        await connection.execute("UPDATE memory.webhooks SET retry_time = now() WHERE retry_time IS NOT NULL")
        await connection.execute("UPDATE memory.deliveries SET next_time = now() WHERE state = 'pending'")


async def test_webhooks_are_delivered_while_every_webhook_of_other_tenants_hangs(memory_server: MemoryServer) -> None:
    async with (
        listening(hangs=True) as one,
        listening(hangs=True) as another,
        listening() as good,
        memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=f"{one.origin} {another.origin} {good.origin}"),
    ):
        attackers = [await other_tenant(memory_server) for _ in range(TENANTS)]
        for attacker in attackers:
            webhook_ids = await create_webhooks(attacker, *[one.origin, another.origin] * (WEBHOOKS // 2))
            await remember(attacker, 2)
        await create_webhooks(memory_server, good.origin)
        await remember(memory_server)

        for attacker in attackers:
            await deliver(attacker, wait=Duration())
        expected = min(SLOTS_OF_DESTINATION, 16 // TENANTS) * TENANTS
        await asyncio.gather(one.wait_asked(expected), another.wait_asked(expected))
        answer = await deliver(memory_server)
        async with attackers[-1].channel() as channel:
            history = history_pb2_grpc.HistoryServiceStub(channel)
            busy = await history.TestWebhook(pb.TestWebhookRequest(webhook_id=webhook_ids[0]))

        assert (answer.delivered_count, good.request_count) == (1, 1)
        assert one.open == one.request_count
        assert another.open == another.request_count
        assert one.open + another.open <= SLOTS_OF_TENANT * TENANTS
        assert max(one.open, another.open) <= SLOTS_OF_DESTINATION * TENANTS
        assert busy == pb.TestWebhookResponse(error="busy")


@pytest.mark.system
async def test_a_destination_shared_with_attackers_has_a_slot_for_everybody(memory_server: MemoryServer) -> None:
    async with (
        listening(hangs=True) as shared,
        memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=shared.origin),
    ):
        for _ in range(5):
            attacker = await other_tenant(memory_server)
            await create_webhooks(attacker, *[shared.origin] * 4)
            await remember(attacker)
            await deliver(attacker, wait=Duration())
        await shared.wait_asked(4 * 4 + 1)
        await create_webhooks(memory_server, shared.origin)
        await remember(memory_server)
        await deliver(memory_server, wait=Duration())

        await shared.wait_asked(4 * 4 + 2)


@pytest.mark.system
@pytest.mark.parametrize("answer", [b"503 Service Unavailable", b"not http"])
async def test_a_destination_that_fails_is_left_alone_until_one_delivery_finds_it_well(
    memory_server: MemoryServer, answer: bytes
) -> None:
    async with (
        listening(answer=answer) as failing,
        memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=failing.origin),
    ):
        (webhook_id, _) = await create_webhooks(memory_server, failing.origin, failing.origin)
        await remember(memory_server, 10)
        first = await deliver(memory_server)
        request_count, paused = failing.request_count, await read(memory_server, webhook_id)
        again = await deliver(memory_server)
        asked_again = failing.request_count
        await let_pause_pass(memory_server)
        result = await read(memory_server, webhook_id)
        probe = await deliver(memory_server)
        asked_by_probe, probed = failing.request_count - asked_again, await read(memory_server, webhook_id)
        failing.answer = b"204 No Content"
        await let_pause_pass(memory_server)
        last = await deliver(memory_server)

        # A few were under way when it failed for the third time.
        assert 3 <= first.failed_count <= 3 + SLOTS_OF_DESTINATION
        assert first.failed_count == request_count
        assert paused.HasField("retry_time")
        assert (again.failed_count, again.due_count, asked_again) == (0, 0, request_count)
        assert (probe.failed_count, asked_by_probe) == (1, 1)
        # Another pause follows. Its length is random: it may end before the first would have.
        assert probed.retry_time.ToDatetime() > result.retry_time.ToDatetime()
        assert last.delivered_count == 20
        assert not (await read(memory_server, webhook_id)).HasField("retry_time")


@pytest.mark.system
async def test_a_request_that_is_refused_does_not_hold_up_other_webhooks_of_its_receiver(
    memory_server: MemoryServer,
) -> None:
    async with (
        listening(answer=b"404 Not Found") as receiver,
        memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=receiver.origin),
    ):
        (webhook_id,) = await create_webhooks(memory_server, receiver.origin)
        await remember(memory_server, 10)
        answer = await deliver(memory_server)

        assert answer.failed_count == 10
        assert not (await read(memory_server, webhook_id)).HasField("retry_time")


@pytest.mark.system
async def test_another_address_and_a_retry_by_hand_end_the_pause(memory_server: MemoryServer) -> None:
    async with (
        listening(answer=b"503 Oh") as failing,
        listening() as good,
        memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=f"{failing.origin} {good.origin}"),
        memory_server.channel() as channel,
    ):
        history = history_pb2_grpc.HistoryServiceStub(channel)
        (webhook_id,) = await create_webhooks(memory_server, failing.origin)
        await remember(memory_server, 5)
        failed_count = (await deliver(memory_server)).failed_count
        deliveries = (
            await history.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest(webhook_id=webhook_id))
        ).deliveries
        await history.RetryWebhookDelivery(pb.RetryWebhookDeliveryRequest(delivery_id=deliveries[0].delivery_id))
        probe = await deliver(memory_server)
        moved = pb.Webhook(webhook_id=webhook_id, webhook_url=f"{good.origin}/hook")
        await history.UpdateWebhook(pb.UpdateWebhookRequest(webhook=moved, update_mask={"paths": ["webhook_url"]}))
        await let_pause_pass(memory_server)
        last = await deliver(memory_server)

        assert (probe.failed_count, failing.request_count) == (1, failed_count + 1)
        assert (last.delivered_count, good.request_count) == (5, 5)


@pytest.mark.system
async def test_a_process_that_stops_gives_back_what_hangs(memory_server: MemoryServer) -> None:
    async with listening(hangs=True) as receiver:
        async with memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=receiver.origin):
            (webhook_id,) = await create_webhooks(memory_server, receiver.origin)
            await remember(memory_server)
            await deliver(memory_server, wait=Duration())
            await receiver.wait_asked(1)
        receiver.hangs = False
        async with (
            memory_server.serving(**SETTINGS, SKEIN_OUTBOUND_ALLOW=receiver.origin),
            memory_server.channel() as channel,
        ):
            answer = await deliver(memory_server)
            history = history_pb2_grpc.HistoryServiceStub(channel)
            (delivery,) = (
                await history.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest(webhook_id=webhook_id))
            ).deliveries

        assert (answer.delivered_count, delivery.attempt_count) == (1, 1)


@pytest.mark.system
async def test_a_tenant_has_no_more_than_its_quota_of_webhooks(memory_server: MemoryServer) -> None:
    async with memory_server.serving(**SETTINGS), memory_server.channel() as channel:
        history = history_pb2_grpc.HistoryServiceStub(channel)
        webhook_ids = await create_webhooks(memory_server, *["https://hooks.example.com"] * QUOTA)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
            await create_webhooks(memory_server, "https://hooks.example.com")
        listed = await history.ListWebhooks(pb.ListWebhooksRequest(page_size=1000))
        await history.DeleteWebhook(pb.DeleteWebhookRequest(webhook_id=webhook_ids[0]))
        await create_webhooks(memory_server, "https://hooks.example.com")

        assert len(listed.webhooks) == QUOTA
        other = await other_tenant(memory_server)
        await create_webhooks(other, "https://hooks.example.com")
