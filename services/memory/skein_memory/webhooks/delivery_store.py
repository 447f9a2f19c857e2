"""Deliveries in the database: enqueue, claim, retry and finish."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein_kit import filters
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import new_ids
from skein_kit.json_values import exact
from skein_kit.policies.store import PolicyCache, shared_policy_cache
from skein_memory.errors import DeliveryNotFound
from skein_memory.events.store import read_horizon
from skein_memory.memories import rows
from skein_memory.memories.rows import fields_of
from skein_memory.queries import QUERIES
from skein_memory.webhooks.concurrency import PER_DESTINATION_OF_TENANT
from skein_memory.webhooks.model import (
    DESTINATION_FAILURES,
    MAX_ATTEMPTS,
    Attempt,
    Outcome,
    WebhookDraft,
    destination_pauses,
    retry_delay,
)
from skein_memory.webhooks.store import (
    AFTER_ALL,
    WebhookStore,
    disable_webhooks_of_ended_grants,
    draft_of,
    read_webhook,
    record_webhook_event,
    webhook_of,
)

# Events of one scan of the log for a webhook, and webhooks of one transaction. A tenant with many webhooks gets fewer
# events per scan, so that every scan queues about as many deliveries.
_EVENTS_BATCH_SIZE = 200
_MIN_EVENTS_BATCH_SIZE = 20
_DELIVERIES_BATCH_SIZE = 1000
_WEBHOOKS_BATCH_SIZE = 1000
# Another worker claims a delivery after this time when its worker stopped.
_LEASE = timedelta(seconds=60)
# How long finished deliveries are kept.
RETENTION = timedelta(days=7)
_REMOVED_BATCH_SIZE = 500
# Due deliveries are counted up to this.
MAX_DUE_COUNTED = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueStatus:
    """The state of the queue: active webhooks, events that are left, and due deliveries."""

    has_webhooks: bool = False
    has_more: bool = False
    # Deliveries that are due, MAX_DUE_COUNTED at most, and the time of the oldest.
    due_count: int = 0
    oldest_due_time: datetime | None = None


class DeliveryStore:
    """Reads and writes deliveries, and the health of their webhooks."""

    def __init__(self, database: Database, *, policies: PolicyCache, webhooks: WebhookStore) -> None:
        self._database = database
        # Deliveries are attempted for the webhooks of all spaces.
        self._whole_database = database.for_all_spaces()
        self._policies = policies
        self._webhooks = webhooks

    async def list_deliveries(
        self, tenant_id: UUID, webhook_id: UUID, *, state: str | None, before: UUID | None, count: int
    ) -> list[asyncpg.Record]:
        """Read up to `count` deliveries of a webhook, newest first. Raises WebhookNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            await read_webhook(tx, tenant_id, webhook_id)
            return await tx.rows(
                QUERIES["list_deliveries"],
                tenant_id=tenant_id,
                webhook_id=webhook_id,
                state=state,
                before_id=before or AFTER_ALL,
                count=count,
            )

    async def retry_delivery(
        self, tx: Transaction, tenant_id: UUID, delivery_id: UUID, *, at: datetime
    ) -> asyncpg.Record:
        """Retry a delivery at once. Raises DeliveryNotFound, also for one that succeeded."""
        row = await tx.row(QUERIES["retry_delivery"], tenant_id=tenant_id, delivery_id=delivery_id, at=at)
        if row is None:
            raise DeliveryNotFound
        await tx.execute(QUERIES["probe_now"], tenant_id=tenant_id, webhook_id=row["webhook_id"], at=at)
        return row

    async def enqueue(self, tenant_id: UUID, *, at: datetime) -> QueueStatus:
        """Queue deliveries of the events since the last call, space by space, and count due deliveries."""
        has_more = False
        async with self._whole_database.transaction(tenant_id) as tx:
            # Most tenants have none, and this runs often.
            rows = await tx.rows(QUERIES["list_spaces_of_webhooks"], tenant_id=tenant_id)
            if not rows:
                return QueueStatus()
            await disable_webhooks_of_ended_grants(tx, tenant_id, at)
            newest = await tx.row(QUERIES["newest_change"], tenant_id=tenant_id, horizon=await read_horizon(tx))
        for row in rows:
            # Row-level security shows a webhook the events of its space, and its condition the memories there.
            has_more = await self._enqueue_in(row["space_id"], tenant_id, newest, at=at) or has_more
        count, oldest_time = await self.count_due(tenant_id, at=at)
        return QueueStatus(has_webhooks=True, has_more=has_more, due_count=count, oldest_due_time=oldest_time)

    async def _enqueue_in(
        self, space_id: UUID, tenant_id: UUID, newest: asyncpg.Record | None, *, at: datetime
    ) -> bool:
        """Queue deliveries of the events of a space; return whether there may be more.

        Webhooks that have all of them go on after the `newest` event of any space, and are not due until the next one.
        """
        has_more = False
        async with self._database.for_spaces((space_id,)).transaction(tenant_id) as tx:
            webhooks = await tx.rows(QUERIES["lock_active_webhooks"], tenant_id=tenant_id, count=_WEBHOOKS_BATCH_SIZE)
            batch_size = min(
                _EVENTS_BATCH_SIZE, max(_MIN_EVENTS_BATCH_SIZE, _DELIVERIES_BATCH_SIZE // max(1, len(webhooks)))
            )
            # One scan serves all webhooks at the same position.
            by_position: dict[tuple[int, UUID], list[asyncpg.Record]] = {}
            for row in webhooks:
                by_position.setdefault((row["transaction"], row["change_id"]), []).append(row)
            horizon = await read_horizon(tx)
            for (transaction, change_id), group in by_position.items():
                changes = await tx.rows(
                    QUERIES["changes_after_place"],
                    tenant_id=tenant_id,
                    transaction=transaction,
                    change_id=change_id,
                    horizon=horizon,
                    count=batch_size,
                )
                if changes:
                    await _queue_changes(tx, tenant_id, group, changes, at=at)
                last = changes[-1] if changes else group[0]
                if len(changes) == batch_size:
                    has_more = True
                elif newest is not None and _position(newest) > _position(last):
                    last = newest
                if _position(last) > (transaction, change_id):
                    await tx.execute(
                        QUERIES["advance_webhooks"],
                        tenant_id=tenant_id,
                        webhook_ids=[row["webhook_id"] for row in group],
                        transaction=last["transaction"],
                        change_id=last["change_id"],
                    )
        return has_more

    async def claim(
        self, tenant_id: UUID, *, at: datetime, count: int, failing_destinations: int, free_slots: Mapping[str, int]
    ) -> list[Attempt]:
        """Claim up to `count` due deliveries; no other worker attempts them for a minute.

        At most `failing_destinations` of them go to destinations whose last attempt failed. `free_slots` bounds those
        of single destinations; a destination that it does not name has PER_DESTINATION_OF_TENANT.
        """
        until = at + _LEASE
        async with self._whole_database.transaction(tenant_id) as tx:
            await disable_webhooks_of_ended_grants(tx, tenant_id, at)
            delivery_rows = await tx.rows(
                QUERIES["claim_deliveries"],
                tenant_id=tenant_id,
                at=at,
                until=until,
                count=count,
                per_destination=PER_DESTINATION_OF_TENANT,
                failing_destinations=failing_destinations,
                destinations=list(free_slots),
                free_slots=list(free_slots.values()),
            )
            if not delivery_rows:
                return []
            change_rows = await tx.rows(
                QUERIES["notified_changes"], tenant_id=tenant_id, change_ids=[row["change_id"] for row in delivery_rows]
            )
            webhooks = await tx.rows(
                QUERIES["get_webhooks"],
                tenant_id=tenant_id,
                webhook_ids=list({row["webhook_id"] for row in delivery_rows}),
            )
        changes = {row["change_id"]: row for row in change_rows}
        webhooks_by_id = {row["webhook_id"]: webhook_of(row) for row in webhooks}
        return [
            Attempt(
                delivery_id=row["delivery_id"],
                attempts=row["attempts"],
                webhook=webhooks_by_id[row["webhook_id"]],
                event=_event_of(changes[row["change_id"]]),
                create_time=changes[row["change_id"]]["create_time"],
                until=until,
            )
            for row in delivery_rows
        ]

    async def count_due(self, tenant_id: UUID, *, at: datetime) -> tuple[int, datetime | None]:
        """Return how many deliveries are due, MAX_DUE_COUNTED at most, and the time of the oldest."""
        async with self._whole_database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["due_deliveries"], tenant_id=tenant_id, at=at, count=MAX_DUE_COUNTED)
        return (0, None) if row is None else (row["count"], row["oldest_time"])

    async def release(self, tenant_id: UUID, attempts: Sequence[Attempt], *, at: datetime) -> None:
        """Release deliveries whose attempts were cancelled: another worker may attempt them at once."""
        async with self._whole_database.transaction(tenant_id) as tx:
            await tx.execute(
                QUERIES["release_deliveries"],
                tenant_id=tenant_id,
                at=at,
                delivery_ids=[attempt.delivery_id for attempt in attempts],
                attempts=[attempt.attempts for attempt in attempts],
            )
            for until in sorted({attempt.until for attempt in attempts if attempt.webhook.is_failing}):
                destinations = {attempt.webhook.destination for attempt in attempts if attempt.until == until}
                await tx.execute(
                    QUERIES["release_probes"], tenant_id=tenant_id, at=at, until=until, destinations=list(destinations)
                )

    async def finish(self, tenant_id: UUID, outcomes: Sequence[Outcome], *, at: datetime) -> None:
        """Record the outcomes of attempts: times of retries, dead deliveries, and disabled webhooks."""
        by_webhook: dict[UUID, list[Outcome]] = {}
        by_destination: dict[tuple[str, datetime], list[bool]] = {}
        async with self._whole_database.transaction(tenant_id) as tx:
            policy = await self._policies.get(tx, tenant_id)
            destinations = {outcome.attempt.webhook.destination for outcome in outcomes}
            await tx.rows(QUERIES["lock_destinations"], tenant_id=tenant_id, destinations=list(destinations))
            for outcome in outcomes:
                # Another worker that tried the delivery after the lease counts it itself.
                if await tx.execute(QUERIES["finish_delivery"], tenant_id=tenant_id, **_outcome_columns(outcome, at)):
                    webhook = outcome.attempt.webhook
                    by_webhook.setdefault(webhook.webhook_id, []).append(outcome)
                    if outcome.is_healthy is not None:
                        key = (webhook.destination, outcome.attempt.until)
                        by_destination.setdefault(key, []).append(outcome.is_healthy)
            for (destination, until), results in sorted(by_destination.items()):
                await tx.execute(
                    QUERIES["count_destination"],
                    tenant_id=tenant_id,
                    destination=destination,
                    answered=any(results),
                    failed=results.count(False),
                    until=until,
                    threshold=DESTINATION_FAILURES,
                    # Spread, not secret.
                    retry_times=[at + pause for pause in destination_pauses(random.random())],  # noqa: S311
                )
            for webhook_id, webhook_outcomes in sorted(by_webhook.items()):
                errors = [outcome.error for outcome in webhook_outcomes if outcome.error is not None]
                row = await tx.row(
                    QUERIES["count_attempt"],
                    tenant_id=tenant_id,
                    webhook_id=webhook_id,
                    delivered=len(errors) < len(webhook_outcomes),
                    failed=len(errors),
                    last_error=errors[-1] if errors else None,
                    most=policy.webhook_max_failures,
                    at=at,
                )
                if row is not None and row["is_disabled"]:
                    await record_webhook_event(
                        tx,
                        tenant_id,
                        "webhook_disabled",
                        webhook_id,
                        at=at,
                        by="system:worker",
                        space_id=row["space_id"],
                    )
                await self._webhooks.rewrap(tx, tenant_id, webhook_id)

    async def delete_old(self, tenant_id: UUID, at: datetime) -> int:
        """Remove some of the deliveries that ended a week ago; return how many."""
        async with self._whole_database.transaction(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_old_deliveries"], tenant_id=tenant_id, before=at - RETENTION, count=_REMOVED_BATCH_SIZE
            )


async def _queue_changes(
    tx: Transaction,
    tenant_id: UUID,
    webhooks: Sequence[asyncpg.Record],
    changes: Sequence[asyncpg.Record],
    *,
    at: datetime,
) -> None:
    """Queue the next events for webhooks at one position in the log, as far as they match."""
    deliveries = [
        {"webhook_id": row["webhook_id"], "change_id": change_id, "create_time": at}
        for row in webhooks
        for change_id in await _matching_changes(tx, tenant_id, draft_of(row), changes, at=at)
    ]
    ids = new_ids(at, len(deliveries))
    await tx.insert(
        QUERIES["insert_deliveries"],
        tenant_id,
        [{"delivery_id": delivery_id, **values} for delivery_id, values in zip(ids, deliveries, strict=True)],
    )


def _position(row: asyncpg.Record) -> tuple[int, UUID]:
    """Return the position in the log that a row has."""
    return row["transaction"], row["change_id"]


async def _matching_changes(
    tx: Transaction, tenant_id: UUID, draft: WebhookDraft, changes: Sequence[asyncpg.Record], *, at: datetime
) -> list[UUID]:
    """Return the events that match a webhook; its condition is checked against current memories."""
    matching = [row for row in changes if draft.matches_type(row["event_type"])]
    zone = (await shared_policy_cache(tx.database).get(tx, tenant_id)).zone
    condition = filters.parse(draft.condition, zone=zone)
    if condition is None:
        return [row["change_id"] for row in matching]
    memory_ids = {row["change_id"]: UUID(row["entity_id"]) for row in matching if row["entity_type"] == "memory"}
    memories = await rows.read_memories(tx, tenant_id, list(set(memory_ids.values()))) if memory_ids else {}
    visible_memories = {id_: memory for id_, memory in memories.items() if not memory.is_expired(at)}
    matching_ids = {id_ for id_, memory in visible_memories.items() if filters.matches(condition, fields_of(memory))}
    return [change_id for change_id, memory_id in memory_ids.items() if memory_id in matching_ids]


def _outcome_columns(outcome: Outcome, at: datetime) -> dict[str, object]:
    attempt = outcome.attempt
    is_last = outcome.error is None or attempt.attempts >= MAX_ATTEMPTS
    state = "delivered" if outcome.error is None else "failed" if is_last else "pending"
    # Spread, not secret.
    pause = retry_delay(attempt.attempts, random.random())  # noqa: S311
    return {
        "delivery_id": attempt.delivery_id,
        "attempts": attempt.attempts,
        "state": state,
        "next_time": at if is_last else at + pause,
        "last_error": outcome.error,
        "finish_time": at if is_last else None,
    }


def _event_of(row: asyncpg.Record) -> dict[str, object]:
    payload = row["payload"]
    return {
        "event_type": row["event_type"],
        "entity_type": row["entity_type"],
        "entity_id": row["entity_id"],
        "summary": row["summary"],
        "payload": exact.loads(payload) if payload else {},
    }
