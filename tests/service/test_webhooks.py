"""Webhooks: signed, tried until a receiver says that it has them, never sent into a private network."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import grpc
import pytest
from fix_cluster import refused
from fix_database import all_told
from fix_memory import MemoryServer
from fix_metrics import sample

from skein.memory.v1 import history_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.memory.v1 import webhooks_pb2 as pb
from skein_memory.webhooks import sender
from skein_memory.webhooks.model import signature_of

MASTER_KEY = "11" * 32


@dataclass
class Receiver:
    """A real HTTP server that keeps what it is told, and answers as the test says."""

    url: str = ""
    answers: list[bytes] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    # What happens once while a sender waits.
    meanwhile: Callable[[], Awaitable[None]] | None = None

    @property
    def origin(self) -> str:
        return self.url.rsplit("/", 1)[0]

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["type"] for _headers, body in self.received]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head if line)}
        self.received.append((headers, await reader.readexactly(int(headers["content-length"]))))
        status = self.answers.pop(0) if self.answers else b"204 No Content"
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        extra = b"location: http://127.0.0.1:9/\r\n" if status.startswith(b"302") else b""
        writer.write(b"HTTP/1.1 " + status + b"\r\n" + extra + b"content-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    async with server:
        yield made


@dataclass
class Deployment:
    """A memory service that may send to one receiver, and the calls of a test."""

    server: MemoryServer
    receiver: Receiver

    async def create_webhook(self, **values: object) -> pb.CreateWebhookResponse:
        fields = {"display_name": "w", "event_types": ["*"], "webhook_url": self.receiver.url} | values
        async with self.server.channel() as channel:
            stub = history_pb2_grpc.HistoryServiceStub(channel)
            return await stub.CreateWebhook(pb.CreateWebhookRequest(webhook=pb.Webhook(**fields)))  # type: ignore[arg-type]

    async def remember(self, **values: object) -> str:
        async with self.server.channel() as channel:
            memory = memory_pb2.Memory(**({"content": "bread"} | values))  # type: ignore[arg-type]
            stub = memory_pb2_grpc.MemoryServiceStub(channel)
            return (await stub.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id

    async def deliver(self, *, limit: int = 0) -> memory_pb2.DeliverWebhooksResponse:
        await all_told(self.server.database.server)
        async with self.server.channel(system=True) as channel:
            stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
            return await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(limit=limit))

    @asynccontextmanager
    async def history(self) -> AsyncIterator[history_pb2_grpc.HistoryServiceAsyncStub]:
        async with self.server.channel() as channel:
            yield history_pb2_grpc.HistoryServiceStub(channel)

    async def get_webhook(self, webhook_id: str) -> pb.Webhook:
        async with self.history() as history:
            return (await history.GetWebhook(pb.GetWebhookRequest(webhook_id=webhook_id))).webhook

    async def deliveries(self, webhook_id: str) -> list[pb.WebhookDelivery]:
        async with self.history() as history:
            return list(
                (await history.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest(webhook_id=webhook_id))).deliveries
            )

    async def let_time_pass(self) -> None:
        async with self.server.database.superuser() as connection:
            await connection.execute("UPDATE memory.deliveries SET next_time = now() WHERE state = 'pending'")


@pytest.fixture
async def deployment(memory_server: MemoryServer, receiver: Receiver) -> AsyncIterator[Deployment]:
    async with memory_server.serving(SKEIN_MASTER_KEY=MASTER_KEY, SKEIN_OUTBOUND_ALLOW=receiver.origin):
        yield Deployment(memory_server, receiver)


@pytest.mark.system
async def test_a_webhook_gets_each_chosen_event_once(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    memory_id = await deployment.remember()

    first, again = await deployment.deliver(), await deployment.deliver()

    assert (first.delivered_count, again.delivered_count) == (1, 0)
    ((headers, body),) = receiver.received
    payload = json.loads(body)
    assert payload["data"]["entity_id"] == memory_id
    assert payload["data"]["webhook_id"] == created.webhook.webhook_id
    assert "bread" not in body.decode()
    assert headers["content-type"] == "application/json"


@pytest.mark.system
async def test_a_webhook_takes_the_names_that_memoryvault_gives_to_events(
    deployment: Deployment, receiver: Receiver
) -> None:
    created = await deployment.create_webhook(event_types=["memory_saved", "link_created"])
    first, second = await deployment.remember(), await deployment.remember()
    async with deployment.server.channel() as channel:
        link = memory_pb2.Link(from_memory_id=first, to_memory_id=second)
        await memory_pb2_grpc.LinkServiceStub(channel).CreateLink(memory_pb2.CreateLinkRequest(link=link))

    await deployment.deliver()

    assert sorted(receiver.events) == ["memory_created", "memory_created", "memory_link_created"]
    kept = await deployment.get_webhook(created.webhook.webhook_id)
    assert sorted(kept.event_types) == ["link_created", "memory_saved"]


@pytest.mark.system
async def test_the_worker_learns_how_many_deliveries_are_due_and_since_when(deployment: Deployment) -> None:
    await deployment.create_webhook(event_types=["memory_created"])
    before = datetime.now(UTC) - timedelta(seconds=1)
    for _ in range(3):
        await deployment.remember()

    first, last = await deployment.deliver(limit=2), await deployment.deliver()

    assert (first.delivered_count, first.due_count) == (2, 1)
    assert before <= first.oldest_due_time.ToDatetime(UTC) <= datetime.now(UTC)
    assert (last.delivered_count, last.due_count, last.HasField("oldest_due_time")) == (1, 0, False)


@pytest.mark.system
async def test_it_is_measured_how_soon_a_receiver_hears_of_a_change(deployment: Deployment) -> None:
    name, channel = "skein_change_notification_delay_seconds_count", {"channel": "webhook"}
    before = sample(name, **channel) or 0
    await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()

    await deployment.deliver()

    assert sample(name, **channel) == before + 1


@pytest.mark.system
async def test_a_receiver_can_tell_that_it_comes_from_here(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()

    await deployment.deliver()

    key = base64.b64decode(created.secret.removeprefix("whsec_"))
    ((headers, body),) = receiver.received
    expected = signature_of(key, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == expected


async def test_the_key_is_shown_once_and_lies_nowhere_in_the_clear(deployment: Deployment) -> None:
    async with deployment.history() as history:
        webhook = pb.Webhook(display_name="w", event_types=["*"], webhook_url=deployment.receiver.url)
        request = pb.CreateWebhookRequest(webhook=webhook, request_id="r1")
        first, again = await history.CreateWebhook(request), await history.CreateWebhook(request)

    key = base64.b64decode(first.secret.removeprefix("whsec_"))
    assert (again.secret, again.webhook) == ("", first.webhook)
    rows = await deployment.server.rows(
        "SELECT w::text AS text FROM memory.webhooks w UNION SELECT r::text FROM memory.requests r"
    )
    assert not any(key.hex() in row["text"] or first.secret in row["text"] for row in rows)


@pytest.mark.system
async def test_a_failed_delivery_is_tried_again_later_under_the_same_id(
    deployment: Deployment, receiver: Receiver
) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers[:] = [b"503 Service Unavailable"]

    failed, at_once = await deployment.deliver(), await deployment.deliver()
    waiting = await deployment.deliveries(created.webhook.webhook_id)
    await deployment.let_time_pass()
    later = await deployment.deliver()

    assert (failed.failed_count, at_once.failed_count + at_once.delivered_count, later.delivered_count) == (1, 0, 1)
    assert (waiting[0].state, waiting[0].last_error) == (pb.DELIVERY_STATE_PENDING, "status 503")
    first, second = (headers["webhook-id"] for headers, _body in receiver.received)
    assert first == second == waiting[0].delivery_id


@pytest.mark.system
async def test_a_webhook_tells_when_it_was_last_delivered_and_what_went_wrong_last(
    deployment: Deployment, receiver: Receiver
) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers[:] = [b"503 Service Unavailable"]

    await deployment.deliver()
    failed = await deployment.get_webhook(created.webhook.webhook_id)
    await deployment.let_time_pass()
    await deployment.deliver()
    delivered = await deployment.get_webhook(created.webhook.webhook_id)

    assert (failed.last_error, failed.HasField("last_delivery_time")) == ("status 503", False)
    age = datetime.now(UTC) - delivered.last_delivery_time.ToDatetime(UTC)
    assert timedelta() <= age < timedelta(minutes=1)


@pytest.mark.system
async def test_a_redirect_is_a_failure_and_is_not_followed(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers[:] = [b"302 Found"]

    await deployment.deliver()

    assert (await deployment.deliveries(created.webhook.webhook_id))[0].last_error == "redirect 302"
    assert len(receiver.received) == 1


@pytest.mark.system
@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://[::1]/", "https://10.0.0.1/"],
)
async def test_nothing_is_sent_into_a_private_network(deployment: Deployment, url: str) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"], webhook_url=url)
    await deployment.remember()

    await deployment.deliver()

    assert (await deployment.deliveries(created.webhook.webhook_id))[0].last_error == "unreachable"


@pytest.mark.parametrize("url", ["http://example.com/", "ftp://example.com/", "hook", "https://user:pw@example.com/"])
async def test_a_place_that_nothing_could_be_sent_to_is_refused(deployment: Deployment, url: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await deployment.create_webhook(webhook_url=url)


@pytest.mark.system
async def test_a_webhook_that_fails_too_often_is_switched_off_and_says_why(
    deployment: Deployment, receiver: Receiver
) -> None:
    async with deployment.server.database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, webhook_max_failures, update_time) VALUES ($1, 2, now())",
            deployment.server.tenant_id,
        )
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers[:] = [b"500 Oh"] * 5

    for _ in range(3):
        await deployment.deliver()
        await deployment.let_time_pass()

    webhook = await deployment.get_webhook(created.webhook.webhook_id)
    assert (webhook.active, webhook.consecutive_failures, webhook.last_error) == (False, 2, "status 500")
    assert webhook.HasField("disable_time")
    assert len(receiver.received) == 2


async def test_a_webhook_switched_on_again_goes_on_with_what_happens_from_then_on(
    deployment: Deployment, receiver: Receiver
) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])

    async with deployment.history() as history:
        for active in (False, True):
            if active:
                await deployment.remember(content="unseen")
                await deployment.deliver()
            webhook = pb.Webhook(webhook_id=created.webhook.webhook_id, active=active)
            await history.UpdateWebhook(pb.UpdateWebhookRequest(webhook=webhook, update_mask={"paths": ["active"]}))
    seen = await deployment.remember(content="seen")
    await deployment.deliver()

    assert [json.loads(body)["data"]["entity_id"] for _headers, body in receiver.received] == [seen]


async def test_a_condition_lets_through_what_passes_it(deployment: Deployment, receiver: Receiver) -> None:
    await deployment.create_webhook(event_types=["memory_created"], where='type = "journal" AND importance > 0.8')
    expected = await deployment.remember(type="journal", importance=0.9)
    await deployment.remember(type="journal", importance=0.1)
    await deployment.remember(importance=0.9)

    await deployment.deliver()

    assert [json.loads(body)["data"]["entity_id"] for _headers, body in receiver.received] == [expected]


async def test_a_delivery_that_was_cut_off_is_tried_again(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers[:] = [b"500 Oh"]
    await deployment.deliver()
    async with deployment.server.database.superuser() as connection:
        # As a worker that was killed leaves it: claimed, and nothing said of the outcome.
        await connection.execute("UPDATE memory.deliveries SET next_time = now() - interval '1 second'")

    await deployment.deliver()

    (delivery,) = await deployment.deliveries(created.webhook.webhook_id)
    assert (delivery.state, delivery.attempt_count) == (pb.DELIVERY_STATE_DELIVERED, 2)


@pytest.mark.system
async def test_a_worker_that_comes_too_late_takes_nothing_back(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers.append(b"500 Too Late")

    async def another_worker() -> None:
        await deployment.let_time_pass()
        await deployment.deliver()

    receiver.meanwhile = another_worker
    await deployment.deliver()

    (delivery,) = await deployment.deliveries(created.webhook.webhook_id)
    assert delivery.state == pb.DELIVERY_STATE_DELIVERED
    assert len(receiver.received) == 2


@pytest.mark.system
async def test_a_receiver_that_hangs_takes_nothing_back(
    deployment: Deployment, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "TIMEOUT_SECONDS", 60.0)
    created = await deployment.create_webhook(event_types=["memory_created"])
    for _ in range(12):
        await deployment.remember()
    released = asyncio.Event()

    async def hang() -> None:
        receiver.meanwhile = hang
        if len(receiver.received) > 8:
            await released.wait()

    receiver.meanwhile = hang
    await all_told(deployment.server.database.server)
    async with deployment.server.channel(system=True) as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        with pytest.raises(grpc.RpcError):
            await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), timeout=8.0)
    states = [delivery.state for delivery in await deployment.deliveries(created.webhook.webhook_id)]
    released.set()
    later = await deployment.deliver()

    # What hung has its answer, although the call that began it is gone.
    assert states.count(pb.DELIVERY_STATE_DELIVERED) == 8
    assert (later.more, len(receiver.received)) == (False, 12)
    states = [delivery.state for delivery in await deployment.deliveries(created.webhook.webhook_id)]
    assert states.count(pb.DELIVERY_STATE_DELIVERED) == 12


@pytest.mark.system
async def test_several_workers_deliver_everything_once(deployment: Deployment, receiver: Receiver) -> None:
    await deployment.create_webhook(event_types=["memory_created"])
    ids = {await deployment.remember(content=f"memory {number}") for number in range(12)}

    while any(answer.more for answer in await asyncio.gather(*(deployment.deliver() for _ in range(4)))):
        pass

    entity_ids = [json.loads(body)["data"]["entity_id"] for _headers, body in receiver.received]
    assert (len(entity_ids), set(entity_ids)) == (12, ids)


async def test_a_dead_delivery_can_be_had_again(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    receiver.answers[:] = [b"500 Oh"]
    async with deployment.server.database.superuser() as connection:
        await deployment.deliver()
        await connection.execute("UPDATE memory.deliveries SET attempts = 11, next_time = now()")
        receiver.answers[:] = [b"500 Oh"]
        await deployment.deliver()
    (dead,) = await deployment.deliveries(created.webhook.webhook_id)

    async with deployment.history() as history:
        await history.RetryWebhookDelivery(pb.RetryWebhookDeliveryRequest(delivery_id=dead.delivery_id))
    (waiting,) = await deployment.deliveries(created.webhook.webhook_id)
    answer = await deployment.deliver()

    assert (dead.state, dead.attempt_count) == (pb.DELIVERY_STATE_FAILED, 12)
    assert (waiting.state, waiting.attempt_count) == (pb.DELIVERY_STATE_PENDING, 0)
    assert answer.delivered_count == 1


async def test_a_test_says_what_came_of_it_and_stores_nothing(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook()
    receiver.answers[:] = [b"200 OK", b"418 I'm a teapot"]

    async with deployment.history() as history:
        request = pb.TestWebhookRequest(webhook_id=created.webhook.webhook_id)
        good, bad = await history.TestWebhook(request), await history.TestWebhook(request)

    assert (good.delivered, bad.delivered, bad.error) == (True, False, "status 418")
    assert receiver.events == ["test", "test"]
    assert await deployment.deliveries(created.webhook.webhook_id) == []


@pytest.mark.system
async def test_another_key_signs_from_then_on(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    async with deployment.history() as history:
        rotated = await history.RotateWebhookSecret(
            pb.RotateWebhookSecretRequest(webhook_id=created.webhook.webhook_id)
        )
    await deployment.remember()

    await deployment.deliver()

    key = base64.b64decode(rotated.secret.removeprefix("whsec_"))
    ((headers, body),) = receiver.received
    assert rotated.secret != created.secret
    assert headers["webhook-signature"] == signature_of(
        key, headers["webhook-id"], int(headers["webhook-timestamp"]), body
    )


async def test_a_deleted_webhook_gets_nothing_more(deployment: Deployment, receiver: Receiver) -> None:
    created = await deployment.create_webhook(event_types=["memory_created"])
    await deployment.remember()
    async with deployment.history() as history:
        await history.DeleteWebhook(pb.DeleteWebhookRequest(webhook_id=created.webhook.webhook_id))
        with refused(grpc.StatusCode.NOT_FOUND, "WEBHOOK_NOT_FOUND"):
            await history.DeleteWebhook(pb.DeleteWebhookRequest(webhook_id=created.webhook.webhook_id))

    await deployment.deliver()

    assert receiver.received == []


async def test_a_stale_revision_and_unknown_ids_are_refused(deployment: Deployment) -> None:
    created = await deployment.create_webhook()
    stale = pb.Webhook(webhook_id=created.webhook.webhook_id, display_name="x", revision=7)

    async with deployment.history() as history:
        with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
            await history.UpdateWebhook(pb.UpdateWebhookRequest(webhook=stale, update_mask={"paths": ["display_name"]}))
        with refused(grpc.StatusCode.NOT_FOUND, "WEBHOOK_NOT_FOUND"):
            await history.GetWebhook(pb.GetWebhookRequest(webhook_id=str(uuid4())))
        with refused(grpc.StatusCode.NOT_FOUND, "DELIVERY_NOT_FOUND"):
            await history.RetryWebhookDelivery(pb.RetryWebhookDeliveryRequest(delivery_id=str(uuid4())))


async def test_without_a_master_key_no_webhook_is_made(memory_server: MemoryServer, receiver: Receiver) -> None:
    async with memory_server.serving(SKEIN_OUTBOUND_ALLOW=receiver.origin):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "MASTER_KEY_MISSING"):
            await Deployment(memory_server, receiver).create_webhook()
