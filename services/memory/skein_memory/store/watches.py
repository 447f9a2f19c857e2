"""Watches and deliveries in the database."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit import exact_json, filtering
from skein_kit.errors import RevisionStale
from skein_kit.ids import new_ids
from skein_memory.conditions import fields_of
from skein_memory.errors import DeliveryNotFound, SecretSealed, WatchNotFound
from skein_memory.sealing import Sealed, TenantKey, WrappedKey
from skein_memory.store import entries
from skein_memory.store.queries import QUERIES
from skein_memory.store.tables import Store
from skein_memory.store.watch_events import end_watches_with_grants, record_watch_event
from skein_memory.watches import MAX_ATTEMPTS, Attempt, Outcome, Watch, WatchDraft, pause_after

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    import asyncpg

    from skein_kit.database import Transaction
    from skein_kit.requests import Once
    from skein_memory.store.tables import Tables

Response = TypeVar("Response", bound=Message)

# Events that one look at the log takes for a watch, and watches that one transaction looks at.
_EVENTS_AT_ONCE = 200
_WATCHES_AT_ONCE = 1000
# A worker that claimed a delivery and went silent holds it up for so long.
_LEASE = timedelta(seconds=60)
_KEPT = timedelta(days=7)
_REMOVED_AT_ONCE = 500
# Due deliveries are counted up to this.
MOST_COUNTED = 1000
_AFTER_ALL = UUID(int=(1 << 128) - 1)


class WatchStore(Store):
    """Reads and writes watches and their deliveries."""

    def __init__(self, tables: Tables) -> None:
        """Use what all stores share, and seal signing keys with the master key."""
        super().__init__(tables)
        self._master_keys = tables.vault.master_keys

    async def create_watch(
        self,
        tenant_id: UUID,
        once: Once,
        draft: WatchDraft,
        key: TenantKey,
        respond: Callable[[Watch], Response],
        *,
        grant_ids: Sequence[UUID],
        at: datetime,
    ) -> Response | bytes:
        """Store a watch whose id is its key's, or return the request's first answer. Raises MasterKeyMissing."""
        wrapped = self._master_keys.wrap(key, tenant_id=tenant_id)
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            await tx.execute(
                QUERIES["insert_watch"],
                tenant_id=tenant_id,
                watch_id=key.key_id,
                create_time=at,
                created_by=once.principal,
                grant_ids=list(grant_ids),
                **_said(draft),
                **_columns(wrapped),
            )
            await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped.master_key, amount=1)
            watch = await _watch(tx, tenant_id, key.key_id)
            await record_watch_event(tx, tenant_id, "watch_created", watch.watch_id, at=at, by=once.principal)
            response = respond(watch)
            await self._requests.answer(tx, tenant_id, once, response)
        return response

    async def get_watch(self, tenant_id: UUID, watch_id: UUID) -> Watch:
        """Read a watch. Raises WatchNotFound."""
        async with self._database.tenant(tenant_id) as tx:
            return await _watch(tx, tenant_id, watch_id)

    async def list_watches(self, tenant_id: UUID, *, before: UUID | None, count: int) -> list[Watch]:
        """Read up to `count` watches older than `before`, newest first."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_watches"], tenant_id=tenant_id, before_id=before or _AFTER_ALL, count=count
            )
        return [_watch_of(row) for row in rows]

    async def update_watch(
        self,
        tenant_id: UUID,
        once: Once,
        watch_id: UUID,
        change: Callable[[WatchDraft], WatchDraft],
        respond: Callable[[Watch], Response],
        *,
        makers: Callable[[Sequence[UUID]], list[UUID]],
        revision: int,
        at: datetime,
    ) -> Response | bytes:
        """Replace what a watch says, and the grants that it ends with. Raises WatchNotFound, RevisionStale."""
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            before = await _watch(tx, tenant_id, watch_id, query="lock_watch")
            if revision and revision != before.revision:
                raise RevisionStale(given=revision, current=before.revision)
            after = change(before.draft)
            await tx.execute(
                QUERIES["update_watch"],
                tenant_id=tenant_id,
                watch_id=watch_id,
                is_active=after.is_active,
                at=at,
                updated_by=once.principal,
                grant_ids=makers(before.grant_ids),
                **_said(after),
            )
            await record_watch_event(tx, tenant_id, "watch_updated", watch_id, at=at, by=once.principal)
            response = respond(await _watch(tx, tenant_id, watch_id))
            await self._requests.answer(tx, tenant_id, once, response)
        return response

    async def rekey_watch(
        self, tenant_id: UUID, once: Once, key: TenantKey, respond: Callable[[Watch], Response], *, at: datetime
    ) -> Response | bytes:
        """Sign what a watch is told with another key from here on. Raises WatchNotFound and MasterKeyMissing."""
        wrapped = self._master_keys.wrap(key, tenant_id=tenant_id)
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            before = await _watch(tx, tenant_id, key.key_id, query="lock_watch")
            await self._rekey(tx, tenant_id, before, wrapped)
            await record_watch_event(tx, tenant_id, "watch_updated", key.key_id, at=at, by=once.principal)
            response = respond(before)
            await self._requests.answer(tx, tenant_id, once, response)
        return response

    async def delete_watch(
        self, tenant_id: UUID, once: Once, watch_id: UUID, response: Message, *, at: datetime
    ) -> None:
        """Remove a watch with its deliveries, once for each request. Raises WatchNotFound."""
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return
            master_key = await tx.value(QUERIES["delete_watch"], tenant_id=tenant_id, watch_id=watch_id)
            if master_key is None:
                raise WatchNotFound
            await tx.execute(QUERIES["count_master_key"], fingerprint=master_key, amount=-1)
            await record_watch_event(tx, tenant_id, "watch_deleted", watch_id, at=at, by=once.principal)

    def key_of(self, tenant_id: UUID, watch: Watch) -> bytes:
        """Return what a watch's deliveries are signed with. Raises SecretSealed."""
        return self._master_keys.unwrap(watch.key, tenant_id=tenant_id).secret

    async def list_deliveries(
        self, tenant_id: UUID, watch_id: UUID, *, state: str | None, before: UUID | None, count: int
    ) -> list[asyncpg.Record]:
        """Read up to `count` deliveries of a watch, newest first. Raises WatchNotFound."""
        async with self._database.tenant(tenant_id) as tx:
            await _watch(tx, tenant_id, watch_id)
            return await tx.rows(
                QUERIES["list_deliveries"],
                tenant_id=tenant_id,
                watch_id=watch_id,
                state=state,
                before_id=before or _AFTER_ALL,
                count=count,
            )

    async def retry_delivery(
        self,
        tenant_id: UUID,
        once: Once,
        delivery_id: UUID,
        respond: Callable[[asyncpg.Record], Response],
        *,
        at: datetime,
    ) -> Response | bytes:
        """Have a delivery tried again at once. Raises DeliveryNotFound, also for one that was delivered."""
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return first
            row = await tx.row(QUERIES["retry_delivery"], tenant_id=tenant_id, delivery_id=delivery_id, at=at)
            if row is None:
                raise DeliveryNotFound
            response = respond(row)
            await self._requests.answer(tx, tenant_id, once, response)
        return response

    async def queue(self, tenant_id: UUID, *, at: datetime) -> tuple[bool, bool]:
        """Queue deliveries of what happened since the last look; say whether anybody watches, and whether to go on."""
        more = False
        async with self._database.tenant(tenant_id) as tx:
            # Most tenants have none, and are asked again and again.
            if not await tx.value(QUERIES["has_active_watch"], tenant_id=tenant_id):
                return False, False
            await end_watches_with_grants(tx, tenant_id, at)
            for row in await tx.rows(QUERIES["lock_active_watches"], tenant_id=tenant_id, count=_WATCHES_AT_ONCE):
                changes = await tx.rows(
                    QUERIES["changes_after_place"],
                    tenant_id=tenant_id,
                    transaction=row["transaction"],
                    change_id=row["change_id"],
                    count=_EVENTS_AT_ONCE,
                )
                if not changes:
                    continue
                chosen = await _chosen(tx, tenant_id, _draft_of(row), changes, at=at)
                await tx.insert(
                    QUERIES["insert_deliveries"],
                    tenant_id,
                    [
                        {
                            "delivery_id": delivery_id,
                            "watch_id": row["watch_id"],
                            "change_id": change_id,
                            "create_time": at,
                        }
                        for delivery_id, change_id in zip(new_ids(at, len(chosen)), chosen, strict=True)
                    ],
                )
                await tx.execute(
                    QUERIES["advance_watch"],
                    tenant_id=tenant_id,
                    watch_id=row["watch_id"],
                    transaction=changes[-1]["transaction"],
                    change_id=changes[-1]["change_id"],
                )
                more = more or len(changes) == _EVENTS_AT_ONCE
        return True, more

    async def claim(self, tenant_id: UUID, *, at: datetime, count: int, slow: Collection[UUID] = ()) -> list[Attempt]:
        """Take up to `count` deliveries that are due, of watches not `slow`; nobody else tries them for a minute."""
        async with self._database.tenant(tenant_id) as tx:
            await end_watches_with_grants(tx, tenant_id, at)
            claimed = await tx.rows(
                QUERIES["claim_deliveries"],
                tenant_id=tenant_id,
                at=at,
                until=at + _LEASE,
                count=count,
                slow=list(slow),
            )
            if not claimed:
                return []
            told = await tx.rows(
                QUERIES["told_changes"], tenant_id=tenant_id, change_ids=[row["change_id"] for row in claimed]
            )
            watches = await tx.rows(
                QUERIES["get_watches"], tenant_id=tenant_id, watch_ids=list({row["watch_id"] for row in claimed})
            )
        changes = {row["change_id"]: row for row in told}
        known = {row["watch_id"]: _watch_of(row) for row in watches}
        return [
            Attempt(
                delivery_id=row["delivery_id"],
                attempts=row["attempts"],
                watch=known[row["watch_id"]],
                event=_told(changes[row["change_id"]]),
                create_time=changes[row["change_id"]]["create_time"],
            )
            for row in claimed
        ]

    async def due(self, tenant_id: UUID, *, at: datetime) -> tuple[int, datetime | None]:
        """Return how many deliveries are due, MOST_COUNTED at most, and since when the oldest of them is."""
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["due_deliveries"], tenant_id=tenant_id, at=at, count=MOST_COUNTED)
        return (0, None) if row is None else (row["count"], row["oldest_time"])

    async def finish(self, tenant_id: UUID, outcomes: Sequence[Outcome], *, at: datetime) -> None:
        """Say what came of attempts: when they are tried again, which are dead, which watches are switched off."""
        by_watch: dict[UUID, list[Outcome]] = {}
        async with self._database.tenant(tenant_id) as tx:
            policy = await self._policies.of(tx, tenant_id)
            for outcome in outcomes:
                # What somebody else tried since, as this took too long, is theirs to count.
                if await tx.execute(QUERIES["finish_delivery"], tenant_id=tenant_id, **_finished(outcome, at)):
                    by_watch.setdefault(outcome.attempt.watch.watch_id, []).append(outcome)
            for watch_id, ended in sorted(by_watch.items()):
                errors = [outcome.error for outcome in ended if outcome.error is not None]
                row = await tx.row(
                    QUERIES["count_attempt"],
                    tenant_id=tenant_id,
                    watch_id=watch_id,
                    delivered=len(errors) < len(ended),
                    failed=len(errors),
                    last_error=errors[-1] if errors else None,
                    most=policy.watch_max_failures,
                    at=at,
                )
                if row is not None and row["is_disabled"]:
                    await record_watch_event(tx, tenant_id, "watch_disabled", watch_id, at=at, by="system:worker")
                await self._rewrap(tx, tenant_id, watch_id)

    async def delete_old(self, tenant_id: UUID, at: datetime) -> int:
        """Remove some of the deliveries that ended a week ago; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            return await tx.execute(
                QUERIES["delete_old_deliveries"], tenant_id=tenant_id, before=at - _KEPT, count=_REMOVED_AT_ONCE
            )

    async def keep_wrapped(self, tenant_id: UUID) -> int:
        """Bring watches' keys under the current master key, also of those that deliver nothing; return how many."""
        current = self._master_keys.current
        if not current:
            return 0
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_older_watches"], tenant_id=tenant_id, master_key=current, count=_REMOVED_AT_ONCE
            )
            for row in rows:
                await self._rewrap(tx, tenant_id, row["watch_id"])
        return len(rows)

    async def _rewrap(self, tx: Transaction, tenant_id: UUID, watch_id: UUID) -> None:
        """Bring a watch's key, as it is now, under the current master key, unless nobody can open it."""
        row = await tx.row(QUERIES["lock_watch"], tenant_id=tenant_id, watch_id=watch_id)
        watch = None if row is None else _watch_of(row)
        if watch is None or not self._master_keys.current or watch.key.master_key == self._master_keys.current:
            return
        with suppress(SecretSealed):
            key = self._master_keys.unwrap(watch.key, tenant_id=tenant_id)
            await self._rekey(tx, tenant_id, watch, self._master_keys.wrap(key, tenant_id=tenant_id))

    @staticmethod
    async def _rekey(tx: Transaction, tenant_id: UUID, watch: Watch, wrapped: WrappedKey) -> None:
        columns = _columns(wrapped)
        await tx.execute(QUERIES["rekey_watch"], tenant_id=tenant_id, watch_id=watch.watch_id, **columns)
        if wrapped.master_key != watch.key.master_key:
            await tx.execute(QUERIES["count_master_key"], fingerprint=watch.key.master_key, amount=-1)
            await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped.master_key, amount=1)


async def _watch(tx: Transaction, tenant_id: UUID, watch_id: UUID, *, query: str = "get_watch") -> Watch:
    row = await tx.row(QUERIES[query], tenant_id=tenant_id, watch_id=watch_id)
    if row is None:
        raise WatchNotFound
    return _watch_of(row)


async def _chosen(
    tx: Transaction, tenant_id: UUID, draft: WatchDraft, changes: Sequence[asyncpg.Record], *, at: datetime
) -> list[UUID]:
    """Return the events that a watch is told of; of a condition only memories are judged, as they are now."""
    waited = [row for row in changes if draft.waits_for(row["event_type"])]
    condition = filtering.read(draft.condition)
    if condition is None:
        return [row["change_id"] for row in waited]
    about = {row["change_id"]: UUID(row["entity_id"]) for row in waited if row["entity_type"] == "memory"}
    memories = await entries.read(tx, tenant_id, list(set(about.values()))) if about else {}
    visible = {id_: memory for id_, memory in memories.items() if not memory.is_expired(at)}
    passing = {id_ for id_, memory in visible.items() if filtering.holds(condition, fields_of(memory))}
    return [change_id for change_id, memory_id in about.items() if memory_id in passing]


def _finished(outcome: Outcome, at: datetime) -> dict[str, object]:
    attempt = outcome.attempt
    is_last = outcome.error is None or attempt.attempts >= MAX_ATTEMPTS
    state = "delivered" if outcome.error is None else "dead" if is_last else "waiting"
    # Spread, not secret.
    pause = pause_after(attempt.attempts, random.random())  # noqa: S311
    return {
        "delivery_id": attempt.delivery_id,
        "attempts": attempt.attempts,
        "state": state,
        "next_time": at if is_last else at + pause,
        "last_error": outcome.error,
        "finish_time": at if is_last else None,
    }


def _told(row: asyncpg.Record) -> dict[str, object]:
    payload = row["payload"]
    return {
        "event_type": row["event_type"],
        "entity_type": row["entity_type"],
        "entity_id": row["entity_id"],
        "summary": row["summary"],
        "payload": exact_json.loads(payload) if payload else {},
    }


def _said(draft: WatchDraft) -> dict[str, object]:
    return {
        "display_name": draft.display_name,
        "event_types": list(draft.event_types),
        "condition": draft.condition,
        "webhook_url": draft.webhook_url,
    }


def _columns(wrapped: WrappedKey) -> dict[str, object]:
    return {
        "master_key": wrapped.master_key,
        "nonce": wrapped.sealed.nonce,
        "ciphertext": wrapped.sealed.ciphertext,
    }


def _draft_of(row: asyncpg.Record) -> WatchDraft:
    return WatchDraft(
        display_name=row["display_name"],
        event_types=tuple(row["event_types"]),
        condition=row["condition"],
        webhook_url=row["webhook_url"],
        is_active=row["is_active"],
    )


def _watch_of(row: asyncpg.Record) -> Watch:
    return Watch(
        watch_id=row["watch_id"],
        draft=_draft_of(row),
        key=WrappedKey(
            key_id=row["watch_id"],
            master_key=row["master_key"],
            sealed=Sealed(nonce=row["nonce"], ciphertext=row["ciphertext"]),
        ),
        failures=row["failures"],
        last_delivery_time=row["last_delivery_time"],
        last_error=row["last_error"],
        disable_time=row["disable_time"],
        revision=row["revision"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        grant_ids=tuple(row["grant_ids"]),
    )
