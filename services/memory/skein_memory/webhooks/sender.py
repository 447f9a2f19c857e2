"""Sends deliveries: signed requests to addresses that are checked first. No SQL."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from prometheus_client import Counter

from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id, now
from skein_kit.outbound.fetch import OutboundError, SafeHttpClient
from skein_kit.telemetry import logs
from skein_memory.errors import SecretUndecryptable
from skein_memory.events.stream import NOTIFICATION_DELAY
from skein_memory.webhooks.concurrency import WebhookConcurrency
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.model import Attempt, Outcome, Webhook, body_of, headers_of, is_healthy

DELIVERIES = Counter("skein_webhook_deliveries_total", "Attempts to deliver to a webhook, by outcome.", ["outcome"])
TIMEOUT_SECONDS = 10.0
# A call waits no longer than this for attempts: the worker waits for a minute.
_CALL_SECONDS = 30.0
# Why nothing was sent, and what callers are told of it.
_REFUSED = frozenset({"name", "address"})
_UNREACHABLE = "unreachable"
# Seconds for running attempts when the process stops.
DRAIN_SECONDS = 2.0

log = logs.get("memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryCounts:
    """Counts of attempts, whether more deliveries are due, and whether any webhook is active."""

    delivered_count: int
    failed_count: int
    has_more: bool
    has_webhooks: bool
    # Due deliveries without an attempt, and the time of the oldest.
    due_count: int
    oldest_due_time: datetime | None


class WebhookSender:
    """Sends due deliveries. A process has one run per tenant at a time; a call starts it and need not wait for it."""

    def __init__(
        self, store: DeliveryStore, key_of: Callable[[UUID, Webhook], bytes], outbound: SafeHttpClient
    ) -> None:
        """Claim from `store`, sign with the key that `key_of` returns, send through `outbound`."""
        self._store = store
        self._key_of = key_of
        self._outbound = outbound
        self._slots = WebhookConcurrency()
        self._runs: dict[UUID, _TenantSender] = {}
        self._is_stopping = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[WebhookSender]:
        """Send while the block runs; then wait DRAIN_SECONDS, and cancel and release the rest."""
        try:
            yield self
        finally:
            self._is_stopping = True
            tasks = [run.stop() for run in self._runs.values()]
            if tasks:
                await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def check_url(self, url: str) -> None:
        """Reject a URL that is not allowed. Raises FieldInvalid."""
        try:
            self._outbound.require_allowed_url(url)
        except OutboundError:
            raise FieldInvalid(violations=[("webhook.webhook_url", "must be an https URL of a public host")]) from None

    async def deliver(self, tenant_id: UUID, limit: int, *, seconds: float | None = None) -> DeliveryCounts:
        """Queue new events, and attempt up to `limit` due deliveries.

        Wait up to `seconds` for attempts; None: until all have ended, at most 30 s. Attempts go on after the call. A
        slow receiver only blocks its own share of the slots.
        """
        queue = await self._store.enqueue(tenant_id, at=now())
        if not queue.has_webhooks:
            return DeliveryCounts(
                delivered_count=0, failed_count=0, has_more=False, has_webhooks=False, due_count=0, oldest_due_time=None
            )
        run = self._runs.get(tenant_id)
        if queue.due_count and not self._is_stopping:
            run = run or self._start(tenant_id)
            run.extend(limit)
        delivered_count = failed_count = 0
        due_count, oldest_due_time, has_more = queue.due_count, queue.oldest_due_time, queue.has_more
        if run is not None and seconds != 0:
            counts_before = run.delivered_count, run.failed_count
            await asyncio.wait({run.task}, timeout=_CALL_SECONDS if seconds is None else min(seconds, _CALL_SECONDS))
            delivered_count, failed_count = run.delivered_count - counts_before[0], run.failed_count - counts_before[1]
            due_count, oldest_due_time = await self._store.count_due(tenant_id, at=now())
            has_more = has_more or due_count > 0
        return DeliveryCounts(
            delivered_count=delivered_count,
            failed_count=failed_count,
            has_more=has_more,
            has_webhooks=True,
            due_count=due_count,
            oldest_due_time=oldest_due_time,
        )

    def _start(self, tenant_id: UUID) -> _TenantSender:
        run = self._runs[tenant_id] = _TenantSender(self._store, self._slots, self._attempt, tenant_id)
        # The run outlives the call that starts it, so it has a context of its own.
        run.task = asyncio.create_task(self._run(tenant_id, run), context=contextvars.Context())
        return run

    async def _run(self, tenant_id: UUID, run: _TenantSender) -> None:
        try:
            await run.run()
        except Exception as error:  # noqa: BLE001 - another worker tries its deliveries when the lease ends.
            log.warning("webhooks_interrupted", tenant_id=str(tenant_id), error=type(error).__name__)
        finally:
            del self._runs[tenant_id]

    async def _attempt(self, tenant_id: UUID, attempt: Attempt) -> Outcome:
        body = body_of(attempt.webhook.webhook_id, attempt.event, attempt.create_time)
        error, is_working = await self._send(tenant_id, attempt.webhook, attempt.delivery_id, body)
        if error is None:
            NOTIFICATION_DELAY.labels("webhook").observe(max(0.0, (now() - attempt.create_time).total_seconds()))
        return Outcome(attempt=attempt, error=error, is_healthy=is_working)

    async def test(self, tenant_id: UUID, webhook: Webhook) -> str | None:
        """Send a test event; return the error, None for none."""
        if not self._slots.free_by_destination(tenant_id).get(webhook.destination, 1) or not self._slots.reserve(
            tenant_id, 1
        ):
            return "busy"
        self._slots.begin(tenant_id, webhook)
        try:
            at = now()
            event = {
                "event_type": "test",
                "entity_type": "webhook",
                "entity_id": str(webhook.webhook_id),
                "summary": "a test of the webhook",
                "payload": {},
            }
            error, _ = await self._send(tenant_id, webhook, new_id(at), body_of(webhook.webhook_id, event, at))
            return error
        finally:
            self._slots.end(tenant_id, webhook)

    async def _send(
        self, tenant_id: UUID, webhook: Webhook, delivery_id: UUID, body: bytes
    ) -> tuple[str | None, bool | None]:
        """Return the error, None for none; and whether the destination works, None when it was not tried."""
        try:
            headers = headers_of(self._key_of(tenant_id, webhook), delivery_id, body, now())
            await self._outbound.send(
                webhook.draft.webhook_url, body, headers=headers, timeout=TIMEOUT_SECONDS, owner=str(tenant_id)
            )
        except OutboundError as error:
            DELIVERIES.labels("failed").inc()
            # Whether a name resolves to an address of the inner network is nothing for callers.
            return _UNREACHABLE if error.why in _REFUSED else str(error), is_healthy(error.status)
        except SecretUndecryptable:
            DELIVERIES.labels("failed").inc()
            log.warning("webhook_secret_undecryptable", tenant_id=str(tenant_id), webhook_id=str(webhook.webhook_id))
            return "key", None
        except Exception as error:
            DELIVERIES.labels("failed").inc()
            log.exception("webhook_failed", tenant_id=str(tenant_id), webhook_id=str(webhook.webhook_id))
            return f"fault {type(error).__name__}", None
        DELIVERIES.labels("delivered").inc()
        return None, True


class _TenantSender:
    """Claims and attempts due deliveries of one tenant, until none is left or `limit` attempts have begun."""

    task: asyncio.Task[None]

    def __init__(
        self,
        store: DeliveryStore,
        slots: WebhookConcurrency,
        try_delivery: Callable[[UUID, Attempt], Coroutine[object, object, Outcome]],
        tenant_id: UUID,
    ) -> None:
        self._store = store
        self._slots = slots
        self._try = try_delivery
        self._tenant_id = tenant_id
        self._limit = 0
        # More deliveries may be due, or may begin, than at the last claim.
        self._wakeup = asyncio.Event()
        self._attempts: dict[asyncio.Task[Outcome], Attempt] = {}
        self._is_stopping = False
        self.delivered_count = self.failed_count = 0

    def extend(self, limit: int) -> None:
        """Claim again, and begin up to `limit` attempts from now on."""
        self._limit = max(self._limit, limit)
        self._wakeup.set()

    def stop(self) -> asyncio.Task[None]:
        """Begin no more attempts; return the task that ends with the running ones."""
        self._is_stopping = True
        self._wakeup.set()
        return self.task

    async def run(self) -> None:
        """Claim and attempt deliveries until none is due; cancelled ones are released."""
        try:
            while self._attempts or self._wakeup.is_set():
                self._wakeup.clear()
                await self._claim()
                outcomes = await self._wait_for_outcomes()
                if outcomes:
                    await self._finish(outcomes)
                    # Slots are free again.
                    self._wakeup.set()
        finally:
            await self._release_running()

    async def _claim(self) -> None:
        """Begin attempts for due deliveries as far as slots are free."""
        if self._is_stopping:
            return
        slots, tenant_id = self._slots, self._tenant_id
        count = unused_slots = slots.reserve(tenant_id, self._limit)
        if not count:
            return
        try:
            attempts = await self._store.claim(
                tenant_id,
                at=now(),
                count=count,
                failing_destinations=slots.free_for_failing(tenant_id),
                free_slots=slots.free_by_destination(tenant_id),
            )
            unused_slots -= len(attempts)
        finally:
            slots.release(tenant_id, unused_slots)
        self._limit -= len(attempts)
        for attempt in attempts:
            slots.begin(tenant_id, attempt.webhook)
            task = asyncio.create_task(self._try(tenant_id, attempt))
            self._attempts[task] = attempt
            task.add_done_callback(functools.partial(self._on_attempt_end, attempt.webhook))

    def _on_attempt_end(self, webhook: Webhook, _task: object) -> None:
        self._slots.end(self._tenant_id, webhook)

    async def _wait_for_outcomes(self) -> list[Outcome]:
        """Wait until an attempt ends or more deliveries may be due; return the outcomes of ended attempts."""
        if not self._attempts:
            return []
        wakeup = asyncio.create_task(self._wakeup.wait())
        try:
            await asyncio.wait({wakeup, *self._attempts}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wakeup.cancel()
        return self._pop_outcomes()

    def _pop_outcomes(self) -> list[Outcome]:
        tasks = [task for task in self._attempts if task.done()]
        for task in tasks:
            del self._attempts[task]
        return [task.result() for task in tasks]

    async def _finish(self, outcomes: list[Outcome]) -> None:
        await self._store.finish(self._tenant_id, outcomes, at=now())
        failed_count = sum(outcome.error is not None for outcome in outcomes)
        self.failed_count += failed_count
        self.delivered_count += len(outcomes) - failed_count

    async def _release_running(self) -> None:
        """Cancel running attempts, and release their deliveries for another worker."""
        if not self._attempts:
            return
        for task in self._attempts:
            task.cancel()
        await asyncio.wait(self._attempts)
        cancelled_attempts = [attempt for task, attempt in self._attempts.items() if task.cancelled()]
        outcomes = [task.result() for task in self._attempts if not task.cancelled() and task.exception() is None]
        self._attempts.clear()
        if outcomes:
            await self._finish(outcomes)
        if cancelled_attempts:
            await self._store.release(self._tenant_id, cancelled_attempts, at=now())
