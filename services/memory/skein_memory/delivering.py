"""Telling watches what happened: signed requests to addresses that are judged first. No SQL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Counter

from skein_kit import logs
from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id, now
from skein_kit.outbound import OutboundRefused
from skein_memory.errors import SecretSealed
from skein_memory.watches import Outcome, body_of, headers_of
from skein_memory.watching import TOLD

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein_kit.outbound import Outbound
    from skein_memory.store.watches import WatchStore
    from skein_memory.watches import Attempt, Watch

DELIVERIES = Counter("skein_webhook_deliveries_total", "Attempts to deliver to a webhook.", ["outcome"])
TIMEOUT_SECONDS = 10.0
# What an attempt comes to whose receiver did not answer in that time.
_OUT_OF_TIME = "time"
# Attempts of one call that wait for their receivers at the same time.
_AT_ONCE = 8
# A call begins no other attempts after this: the worker waits for a minute.
_TURN_SECONDS = 30.0

log = logs.get("memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivered:
    """How many attempts reached their receivers and how many failed, whether more is due, and whether anybody waits."""

    delivered: int
    failed: int
    more: bool
    active: bool
    # Deliveries that are due and were not tried, and since when the oldest of them is.
    due: int
    oldest_due: datetime | None


class Delivering:
    """Sends what is due."""

    def __init__(self, store: WatchStore, outbound: Outbound) -> None:
        """Claim from `store`, send through `outbound`."""
        self._store = store
        self._outbound = outbound

    def must_take(self, url: str) -> None:
        """Refuse a webhook that nothing could ever be sent to. Raises FieldInvalid."""
        try:
            self._outbound.must_take(url)
        except OutboundRefused:
            raise FieldInvalid(violations=[("watch.webhook_url", "must be an https URL of a public host")]) from None

    async def deliver(self, tenant_id: UUID, limit: int) -> Delivered:
        """Queue what happened, and try up to `limit` deliveries that are due.

        What came of them is kept a few at a time, so that a receiver which hangs takes nothing back. It is waited for
        once, and the others get theirs.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + _TURN_SECONDS
        watched, more = await self._store.queue(tenant_id, at=now())
        if not watched:
            return Delivered(delivered=0, failed=0, more=False, active=False, due=0, oldest_due=None)
        tried = failed = 0
        slow: set[UUID] = set()
        while tried < limit and loop.time() < ends:
            asked = min(_AT_ONCE, limit - tried)
            attempts = await self._store.claim(tenant_id, at=now(), count=asked, slow=slow)
            if attempts:
                outcomes = await asyncio.gather(*(self._tried(tenant_id, attempt) for attempt in attempts))
                await self._store.finish(tenant_id, outcomes, at=now())
                tried += len(outcomes)
                failed += sum(outcome.error is not None for outcome in outcomes)
                slow |= {outcome.attempt.watch.watch_id for outcome in outcomes if outcome.error == _OUT_OF_TIME}
            if len(attempts) < asked:
                # What the slow ones have left is for the next time.
                more = more or bool(slow)
                break
        else:
            more = True
        due, oldest = await self._store.due(tenant_id, at=now())
        return Delivered(delivered=tried - failed, failed=failed, more=more, active=True, due=due, oldest_due=oldest)

    async def _tried(self, tenant_id: UUID, attempt: Attempt) -> Outcome:
        body = body_of(attempt.watch.watch_id, attempt.event, attempt.create_time)
        error = await self._send(tenant_id, attempt.watch, attempt.delivery_id, body)
        if error is None:
            TOLD.labels("webhook").observe(max(0.0, (now() - attempt.create_time).total_seconds()))
        return Outcome(attempt=attempt, error=error)

    async def test(self, tenant_id: UUID, watch: Watch) -> str | None:
        """Send an event that never happened; return what went wrong, None for nothing."""
        at = now()
        event = {
            "event_type": "test",
            "entity_type": "watch",
            "entity_id": str(watch.watch_id),
            "summary": "a test of the watch",
            "payload": {},
        }
        return await self._send(tenant_id, watch, new_id(at), body_of(watch.watch_id, event, at))

    async def _send(self, tenant_id: UUID, watch: Watch, delivery_id: UUID, body: bytes) -> str | None:
        try:
            headers = headers_of(self._store.key_of(tenant_id, watch), delivery_id, body, now())
            await self._outbound.send(watch.draft.webhook_url, body, headers=headers, timeout=TIMEOUT_SECONDS)
        except OutboundRefused as refused:
            DELIVERIES.labels("failed").inc()
            return str(refused)
        except SecretSealed:
            DELIVERIES.labels("failed").inc()
            log.warning("webhook_key_sealed", tenant_id=str(tenant_id), watch_id=str(watch.watch_id))
            return "key"
        DELIVERIES.labels("delivered").inc()
        return None
