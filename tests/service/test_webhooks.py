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
from fix_memory import Alone
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
    told: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    # What happens once while a sender waits.
    meanwhile: Callable[[], Awaitable[None]] | None = None

    @property
    def origin(self) -> str:
        return self.url.rsplit("/", 1)[0]

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["type"] for _headers, body in self.told]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head if line)}
        self.told.append((headers, await reader.readexactly(int(headers["content-length"]))))
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
class House:
    """A memory service that may send to one receiver, and the calls of a test."""

    alone: Alone
    receiver: Receiver

    async def create_webhook(self, **values: object) -> pb.CreateWebhookResponse:
        said = {"display_name": "w", "event_types": ["*"], "webhook_url": self.receiver.url} | values
        async with self.alone.channel() as channel:
            stub = history_pb2_grpc.HistoryServiceStub(channel)
            return await stub.CreateWebhook(pb.CreateWebhookRequest(webhook=pb.Webhook(**said)))  # type: ignore[arg-type]

    async def remember(self, **values: object) -> str:
        async with self.alone.channel() as channel:
            memory = memory_pb2.Memory(**({"content": "bread"} | values))  # type: ignore[arg-type]
            stub = memory_pb2_grpc.MemoryServiceStub(channel)
            return (await stub.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id

    async def deliver(self, *, limit: int = 0) -> memory_pb2.DeliverWebhooksResponse:
        await all_told(self.alone.database.server)
        async with self.alone.channel(system=True) as channel:
            stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
            return await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(limit=limit))

    @asynccontextmanager
    async def history(self) -> AsyncIterator[history_pb2_grpc.HistoryServiceAsyncStub]:
        async with self.alone.channel() as channel:
            yield history_pb2_grpc.HistoryServiceStub(channel)

    async def get_webhook(self, webhook_id: str) -> pb.Webhook:
        async with self.history() as history:
            return (await history.GetWebhook(pb.GetWebhookRequest(webhook_id=webhook_id))).webhook

    async def deliveries(self, webhook_id: str) -> list[pb.Delivery]:
        async with self.history() as history:
            return list(
                (await history.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest(webhook_id=webhook_id))).deliveries
            )

    async def let_time_pass(self) -> None:
        async with self.alone.database.superuser() as connection:
            await connection.execute("UPDATE memory.deliveries SET next_time = now() WHERE state = 'pending'")


@pytest.fixture
async def house(alone: Alone, receiver: Receiver) -> AsyncIterator[House]:
    async with alone.serving(SKEIN_MASTER_KEY=MASTER_KEY, SKEIN_OUTBOUND_ALLOW=receiver.origin):
        yield House(alone, receiver)


async def test_a_webhook_is_told_once_of_what_it_waits_for(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    memory_id = await house.remember()

    first, again = await house.deliver(), await house.deliver()

    assert (first.delivered_count, again.delivered_count) == (1, 0)
    ((headers, body),) = receiver.told
    told = json.loads(body)
    assert told["data"]["entity_id"] == memory_id
    assert told["data"]["webhook_id"] == created.webhook.webhook_id
    assert "bread" not in body.decode()
    assert headers["content-type"] == "application/json"


async def test_a_webhook_takes_the_names_that_memoryvault_gives_to_events(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_saved", "link_created"])
    first, second = await house.remember(), await house.remember()
    async with house.alone.channel() as channel:
        link = memory_pb2.Link(from_memory_id=first, to_memory_id=second)
        await memory_pb2_grpc.LinkServiceStub(channel).CreateLink(memory_pb2.CreateLinkRequest(link=link))

    await house.deliver()

    assert sorted(receiver.events) == ["memory_created", "memory_created", "memory_link_created"]
    kept = await house.get_webhook(created.webhook.webhook_id)
    assert sorted(kept.event_types) == ["link_created", "memory_saved"]


async def test_the_worker_learns_how_many_deliveries_are_due_and_since_when(house: House) -> None:
    await house.create_webhook(event_types=["memory_created"])
    before = datetime.now(UTC) - timedelta(seconds=1)
    for _ in range(3):
        await house.remember()

    first, last = await house.deliver(limit=2), await house.deliver()

    assert (first.delivered_count, first.due_count) == (2, 1)
    assert before <= first.oldest_due_time.ToDatetime(UTC) <= datetime.now(UTC)
    assert (last.delivered_count, last.due_count, last.HasField("oldest_due_time")) == (1, 0, False)


async def test_it_is_measured_how_soon_a_receiver_hears_of_a_change(house: House) -> None:
    name, channel = "skein_change_notification_delay_seconds_count", {"channel": "webhook"}
    before = sample(name, **channel) or 0
    await house.create_webhook(event_types=["memory_created"])
    await house.remember()

    await house.deliver()

    assert sample(name, **channel) == before + 1


async def test_a_receiver_can_tell_that_it_comes_from_here(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()

    await house.deliver()

    key = base64.b64decode(created.secret.removeprefix("whsec_"))
    ((headers, body),) = receiver.told
    expected = signature_of(key, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == expected


async def test_the_key_is_shown_once_and_lies_nowhere_in_the_clear(house: House) -> None:
    async with house.history() as history:
        webhook = pb.Webhook(display_name="w", event_types=["*"], webhook_url=house.receiver.url)
        request = pb.CreateWebhookRequest(webhook=webhook, request_id="r1")
        first, again = await history.CreateWebhook(request), await history.CreateWebhook(request)

    key = base64.b64decode(first.secret.removeprefix("whsec_"))
    assert (again.secret, again.webhook) == ("", first.webhook)
    rows = await house.alone.rows(
        "SELECT w::text AS text FROM memory.webhooks w UNION SELECT r::text FROM memory.requests r"
    )
    assert not any(key.hex() in row["text"] or first.secret in row["text"] for row in rows)


async def test_what_failed_is_tried_again_later_under_the_same_id(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers[:] = [b"503 Service Unavailable"]

    failed, at_once = await house.deliver(), await house.deliver()
    waiting = await house.deliveries(created.webhook.webhook_id)
    await house.let_time_pass()
    later = await house.deliver()

    assert (failed.failed_count, at_once.failed_count + at_once.delivered_count, later.delivered_count) == (1, 0, 1)
    assert (waiting[0].state, waiting[0].last_error) == (pb.DELIVERY_STATE_PENDING, "status 503")
    first, second = (headers["webhook-id"] for headers, _body in receiver.told)
    assert first == second == waiting[0].delivery_id


async def test_a_webhook_tells_when_it_was_last_delivered_and_what_went_wrong_last(
    house: House, receiver: Receiver
) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers[:] = [b"503 Service Unavailable"]

    await house.deliver()
    failed = await house.get_webhook(created.webhook.webhook_id)
    await house.let_time_pass()
    await house.deliver()
    delivered = await house.get_webhook(created.webhook.webhook_id)

    assert (failed.last_error, failed.HasField("last_delivery_time")) == ("status 503", False)
    age = datetime.now(UTC) - delivered.last_delivery_time.ToDatetime(UTC)
    assert timedelta() <= age < timedelta(minutes=1)


async def test_a_redirect_is_a_failure_and_is_not_followed(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers[:] = [b"302 Found"]

    await house.deliver()

    assert (await house.deliveries(created.webhook.webhook_id))[0].last_error == "redirect 302"
    assert len(receiver.told) == 1


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://[::1]/", "https://10.0.0.1/"],
)
async def test_nothing_is_sent_into_a_private_network(house: House, url: str) -> None:
    created = await house.create_webhook(event_types=["memory_created"], webhook_url=url)
    await house.remember()

    await house.deliver()

    assert (await house.deliveries(created.webhook.webhook_id))[0].last_error == "address"


@pytest.mark.parametrize("url", ["http://example.com/", "ftp://example.com/", "hook", "https://user:pw@example.com/"])
async def test_a_place_that_nothing_could_be_sent_to_is_refused(house: House, url: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await house.create_webhook(webhook_url=url)


async def test_a_webhook_that_fails_too_often_is_switched_off_and_says_why(house: House, receiver: Receiver) -> None:
    async with house.alone.database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, webhook_max_failures, update_time) VALUES ($1, 2, now())",
            house.alone.tenant_id,
        )
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers[:] = [b"500 Oh"] * 5

    for _ in range(3):
        await house.deliver()
        await house.let_time_pass()

    webhook = await house.get_webhook(created.webhook.webhook_id)
    assert (webhook.active, webhook.consecutive_failures, webhook.last_error) == (False, 2, "status 500")
    assert webhook.HasField("disable_time")
    assert len(receiver.told) == 2


async def test_a_webhook_switched_on_again_goes_on_with_what_happens_from_then_on(
    house: House, receiver: Receiver
) -> None:
    created = await house.create_webhook(event_types=["memory_created"])

    async with house.history() as history:
        for active in (False, True):
            if active:
                await house.remember(content="unseen")
                await house.deliver()
            webhook = pb.Webhook(webhook_id=created.webhook.webhook_id, active=active)
            await history.UpdateWebhook(pb.UpdateWebhookRequest(webhook=webhook, update_mask={"paths": ["active"]}))
    seen = await house.remember(content="seen")
    await house.deliver()

    assert [json.loads(body)["data"]["entity_id"] for _headers, body in receiver.told] == [seen]


async def test_a_condition_lets_through_what_passes_it(house: House, receiver: Receiver) -> None:
    await house.create_webhook(event_types=["memory_created"], where='type = "journal" AND importance > 0.8')
    wanted = await house.remember(type="journal", importance=0.9)
    await house.remember(type="journal", importance=0.1)
    await house.remember(importance=0.9)

    await house.deliver()

    assert [json.loads(body)["data"]["entity_id"] for _headers, body in receiver.told] == [wanted]


async def test_a_delivery_that_was_cut_off_is_tried_again(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers[:] = [b"500 Oh"]
    await house.deliver()
    async with house.alone.database.superuser() as connection:
        # As a worker that was killed leaves it: claimed, and nothing said of the outcome.
        await connection.execute("UPDATE memory.deliveries SET next_time = now() - interval '1 second'")

    await house.deliver()

    (delivery,) = await house.deliveries(created.webhook.webhook_id)
    assert (delivery.state, delivery.attempts) == (pb.DELIVERY_STATE_DELIVERED, 2)


async def test_a_worker_that_comes_too_late_takes_nothing_back(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers.append(b"500 Too Late")

    async def another_worker() -> None:
        await house.let_time_pass()
        await house.deliver()

    receiver.meanwhile = another_worker
    await house.deliver()

    (delivery,) = await house.deliveries(created.webhook.webhook_id)
    assert delivery.state == pb.DELIVERY_STATE_DELIVERED
    assert len(receiver.told) == 2


async def test_a_receiver_that_hangs_takes_nothing_back(
    house: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "TIMEOUT_SECONDS", 60.0)
    created = await house.create_webhook(event_types=["memory_created"])
    for _ in range(12):
        await house.remember()
    released = asyncio.Event()

    async def hang() -> None:
        receiver.meanwhile = hang
        if len(receiver.told) > 8:
            await released.wait()

    receiver.meanwhile = hang
    await all_told(house.alone.database.server)
    async with house.alone.channel(system=True) as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        with pytest.raises(grpc.RpcError):
            await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), timeout=8.0)
    states = [delivery.state for delivery in await house.deliveries(created.webhook.webhook_id)]
    released.set()
    later = await house.deliver()

    # What hung has its answer, although the call that began it is gone.
    assert states.count(pb.DELIVERY_STATE_DELIVERED) == 8
    assert (later.more, len(receiver.told)) == (False, 12)
    states = [delivery.state for delivery in await house.deliveries(created.webhook.webhook_id)]
    assert states.count(pb.DELIVERY_STATE_DELIVERED) == 12


async def test_several_workers_deliver_everything_once(house: House, receiver: Receiver) -> None:
    await house.create_webhook(event_types=["memory_created"])
    ids = {await house.remember(content=f"memory {number}") for number in range(12)}

    while any(answer.more for answer in await asyncio.gather(*(house.deliver() for _ in range(4)))):
        pass

    told = [json.loads(body)["data"]["entity_id"] for _headers, body in receiver.told]
    assert (len(told), set(told)) == (12, ids)


async def test_a_dead_delivery_can_be_had_again(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    receiver.answers[:] = [b"500 Oh"]
    async with house.alone.database.superuser() as connection:
        await house.deliver()
        await connection.execute("UPDATE memory.deliveries SET attempts = 11, next_time = now()")
        receiver.answers[:] = [b"500 Oh"]
        await house.deliver()
    (dead,) = await house.deliveries(created.webhook.webhook_id)

    async with house.history() as history:
        await history.RetryWebhookDelivery(pb.RetryWebhookDeliveryRequest(delivery_id=dead.delivery_id))
    answer = await house.deliver()

    assert (dead.state, dead.attempts) == (pb.DELIVERY_STATE_DEAD, 12)
    assert answer.delivered_count == 1


async def test_a_test_says_what_came_of_it_and_stores_nothing(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook()
    receiver.answers[:] = [b"200 OK", b"418 I'm a teapot"]

    async with house.history() as history:
        request = pb.TestWebhookRequest(webhook_id=created.webhook.webhook_id)
        good, bad = await history.TestWebhook(request), await history.TestWebhook(request)

    assert (good.delivered, bad.delivered, bad.error) == (True, False, "status 418")
    assert receiver.events == ["test", "test"]
    assert await house.deliveries(created.webhook.webhook_id) == []


async def test_another_key_signs_from_then_on(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    async with house.history() as history:
        rotated = await history.RotateWebhookSecret(
            pb.RotateWebhookSecretRequest(webhook_id=created.webhook.webhook_id)
        )
    await house.remember()

    await house.deliver()

    key = base64.b64decode(rotated.secret.removeprefix("whsec_"))
    ((headers, body),) = receiver.told
    assert rotated.secret != created.secret
    assert headers["webhook-signature"] == signature_of(
        key, headers["webhook-id"], int(headers["webhook-timestamp"]), body
    )


async def test_a_deleted_webhook_is_told_nothing_more(house: House, receiver: Receiver) -> None:
    created = await house.create_webhook(event_types=["memory_created"])
    await house.remember()
    async with house.history() as history:
        await history.DeleteWebhook(pb.DeleteWebhookRequest(webhook_id=created.webhook.webhook_id))
        with refused(grpc.StatusCode.NOT_FOUND, "WEBHOOK_NOT_FOUND"):
            await history.DeleteWebhook(pb.DeleteWebhookRequest(webhook_id=created.webhook.webhook_id))

    await house.deliver()

    assert receiver.told == []


async def test_a_stale_revision_and_unknown_ids_are_refused(house: House) -> None:
    created = await house.create_webhook()
    stale = pb.Webhook(webhook_id=created.webhook.webhook_id, display_name="x", revision=7)

    async with house.history() as history:
        with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
            await history.UpdateWebhook(pb.UpdateWebhookRequest(webhook=stale, update_mask={"paths": ["display_name"]}))
        with refused(grpc.StatusCode.NOT_FOUND, "WEBHOOK_NOT_FOUND"):
            await history.GetWebhook(pb.GetWebhookRequest(webhook_id=str(uuid4())))
        with refused(grpc.StatusCode.NOT_FOUND, "DELIVERY_NOT_FOUND"):
            await history.RetryWebhookDelivery(pb.RetryWebhookDeliveryRequest(delivery_id=str(uuid4())))


async def test_without_a_master_key_no_webhook_is_made(alone: Alone, receiver: Receiver) -> None:
    async with alone.serving(SKEIN_OUTBOUND_ALLOW=receiver.origin):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "MASTER_KEY_MISSING"):
            await House(alone, receiver).create_webhook()
