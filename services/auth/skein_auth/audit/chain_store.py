"""Checkpoints of audit events in the database: their signing day by day, and the expiry of what they cover."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from skein_auth.queries import QUERIES
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_kit.audit_log import chain
from skein_kit.audit_log.chain import Checkpoint, CheckpointInvalid, Statement
from skein_kit.database.transactions import NO_TENANT, Database
from skein_kit.erasure_certificates import key_set
from skein_kit.ids import min_id_at
from skein_kit.telemetry import logs

# Events of one checkpoint: half a megabyte of text.
CHECKPOINT_EVENTS = 2_000
# Events are inserted within an hour, and no transaction lasts another one.
SETTLE = timedelta(hours=2)
# Checkpoints whose events one call of the expiry removes.
_EXPIRED_AT_ONCE = 3
# Days of the cluster that one call closes.
_DAYS_AT_ONCE = 31
_DAY = timedelta(days=1)

log = logs.get("auth")


class AuditChain:
    """The chains of checkpoints, one for each tenant and one for NO_TENANT, which has a checkpoint of every day."""

    def __init__(self, database: Database, keyring: Keyring, signing_keys: SigningKeyStore) -> None:
        self._database = database
        self._keyring = keyring
        self._signing_keys = signing_keys

    async def extend(self, tenant_id: UUID, at: datetime) -> tuple[int, bool]:
        """Sign the next checkpoint of a tenant, if a day is over; return its number of events and if there are more.

        Several workers may call it at once: the number of a checkpoint is unique.
        """
        keys = await self._public_keys(at)
        previous, events = await self._read_next(tenant_id, first_open_day(at))
        if not events or not _is_valid(previous, keys):
            return 0, False
        day = chain.day_of(events[0]["audit_event_id"])
        return await self._append(tenant_id, previous, day, events, at), True

    async def close_days(self, at: datetime) -> datetime | None:
        """Sign checkpoints of NO_TENANT for every day of which no tenant has events without a checkpoint.

        Return the end of the last such day; None before the first one.
        """
        keys = await self._public_keys(at)
        end = first_open_day(at)
        for _ in range(_DAYS_AT_ONCE):
            previous, events = await self._read_next(NO_TENANT, end)
            day = _next_day(previous, events, end)
            is_due = day < end and not await self.due_tenants(previous, day + _DAY)
            if not is_due or not _is_valid(previous, keys):
                return None if previous is None else _midnight(_closed_day(previous)) + _DAY
            await self._append(NO_TENANT, previous, day, events, at)
        return _midnight(day) + _DAY

    async def due_tenants(self, closed: asyncpg.Record | None, end: date) -> Sequence[UUID]:
        """Return one tenant with events before a day that no checkpoint covers, if any has them."""
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(
                QUERIES["list_unchained_tenants"],
                first_id=_first_id(closed),
                end_id=min_id_at(_midnight(end)),
                after=NO_TENANT,
                size=1,
            )
        return [row["tenant_id"] for row in rows]

    async def first_unclosed_id(self) -> UUID:
        """Return the lowest id of an event that the chain of NO_TENANT does not declare covered in all tenants."""
        async with self._database.transaction(NO_TENANT) as tx:
            return _first_id(await tx.row(QUERIES["last_audit_checkpoint"], tenant_id=NO_TENANT))

    async def expire(self, tenant_id: UUID, before: date, at: datetime) -> int:
        """Remove the events of checkpoints of days before this one, if they are unchanged; return how many."""
        keys = await self._public_keys(at)
        deleted_count = expired_count = 0
        last_day, last_number = date.min, 0
        # Those that were changed stay, and keep no others from expiring.
        while expired_count < _EXPIRED_AT_ONCE:
            async with self._database.transaction(tenant_id) as tx:
                rows = await tx.rows(
                    QUERIES["list_expired_checkpoints"],
                    tenant_id=tenant_id,
                    before=before,
                    after_day=last_day,
                    after_number=last_number,
                    size=_EXPIRED_AT_ONCE - expired_count,
                )
            if not rows:
                break
            for row in rows:
                count = await self._expire_checkpoint(tenant_id, row, keys)
                if count is not None:
                    deleted_count, expired_count = deleted_count + count, expired_count + 1
            last_day, last_number = rows[-1]["day"], rows[-1]["number"]
        return deleted_count

    async def _expire_checkpoint(
        self, tenant_id: UUID, row: asyncpg.Record, keys: Mapping[str, Ed25519PublicKey]
    ) -> int | None:
        """Remove the events of a checkpoint; return how many, None if it or one of them was changed."""
        statement = _verified(row, keys)
        if statement is None:
            return None
        ids = {"first_event_id": statement.first_event_id, "last_event_id": statement.last_event_id}
        async with self._database.transaction(tenant_id) as tx:
            events = [dict(event) for event in await tx.rows(QUERIES["read_audit_events"], tenant_id=tenant_id, **ids)]
        if not statement.covers(await asyncio.to_thread(chain.join_events, events)):
            log.error("audit_events_altered", tenant=str(tenant_id), day=statement.day.isoformat())
            return None
        # A transaction of its own: on Citus a transaction acts as one role, here as the owner.
        async with self._database.transaction(tenant_id) as tx:
            return await tx.execute(
                QUERIES["expire_audit_checkpoint"], tenant_id=tenant_id, number=row["number"], **ids
            )

    async def _read_next(self, tenant_id: UUID, end: date) -> tuple[asyncpg.Record | None, list[dict[str, Any]]]:
        """Return the last checkpoint, and events after it up to a day: one more than a checkpoint has."""
        async with self._database.transaction(tenant_id) as tx:
            previous = await tx.row(QUERIES["last_audit_checkpoint"], tenant_id=tenant_id)
            events = await tx.rows(
                QUERIES["read_unchained_events"],
                tenant_id=tenant_id,
                first_id=_first_id(previous),
                end_id=min_id_at(_midnight(end)),
                size=CHECKPOINT_EVENTS + 1,
            )
        return previous, [dict(event) for event in events]

    async def _append(
        self,
        tenant_id: UUID,
        previous: asyncpg.Record | None,
        day: date,
        events: Sequence[Mapping[str, Any]],
        at: datetime,
    ) -> int:
        """Sign and insert a checkpoint of a day's first events; return their number, 0 if another worker was first."""
        of_day = [event for event in events if chain.day_of(event["audit_event_id"]) == day]
        covered = of_day[:CHECKPOINT_EVENTS]
        is_complete = len(of_day) == len(covered)
        key_id, key = await self._keyring.certificate_key()
        # Hashing thousands of events would stop other calls. No connection waits for it.
        checkpoint, event_digests = await asyncio.to_thread(
            _sign, key, key_id, tenant_id, previous, day, covered, is_complete, at
        )
        covered_id = UUID(int=min_id_at(_midnight(day) + _DAY).int - 1)
        async with self._database.transaction(tenant_id) as tx:
            inserted_count = await tx.execute(
                QUERIES["create_audit_checkpoint"],
                **dataclasses.asdict(checkpoint),
                day=day,
                covered_id=covered_id if is_complete else covered[-1]["audit_event_id"],
                event_digests=event_digests,
                create_time=at,
            )
        return len(covered) if inserted_count else 0

    async def _public_keys(self, at: datetime) -> Mapping[str, Ed25519PublicKey]:
        keys = await self._signing_keys.list_signing_keys(at, "certificate")
        return key_set.read(key_set.write(key.public_jwk for key in keys))


def first_open_day(at: datetime) -> date:
    """Return the first day that may still get events."""
    return (at.astimezone(UTC) - SETTLE).date()


def _sign(
    key: Ed25519PrivateKey,
    key_id: str,
    tenant_id: UUID,
    previous: asyncpg.Record | None,
    day: date,
    events: Sequence[Mapping[str, Any]],
    is_complete: bool,  # noqa: FBT001 - of the checkpoint.
    at: datetime,
) -> tuple[Checkpoint, bytes]:
    event_digests = chain.join_events(events)
    checkpoint = Checkpoint.sign(
        key,
        key_id,
        tenant_id=tenant_id,
        previous=None if previous is None else _checkpoint(previous),
        day=day,
        event_digests=event_digests,
        is_complete=is_complete,
        at=at,
    )
    return checkpoint, event_digests


def _checkpoint(row: asyncpg.Record) -> Checkpoint:
    return Checkpoint(
        tenant_id=row["tenant_id"],
        number=row["number"],
        statement=row["statement"],
        key_id=row["key_id"],
        signature=row["signature"],
    )


def _is_valid(previous: asyncpg.Record | None, keys: Mapping[str, Ed25519PublicKey]) -> bool:
    """Return whether a chain may be continued; one that something else wrote into is left as it is."""
    if previous is None:
        return True
    return _verified(previous, keys) is not None


def _verified(row: asyncpg.Record, keys: Mapping[str, Ed25519PublicKey]) -> Statement | None:
    """Return what a checkpoint states; None, and a line of the log, for one that was changed."""
    try:
        return _checkpoint(row).verify(keys)
    except CheckpointInvalid as error:
        reason = str(error)
    log.error("audit_checkpoint_invalid", tenant=str(row["tenant_id"]), number=row["number"], reason=reason)
    return None


def _next_day(previous: asyncpg.Record | None, events: Sequence[Mapping[str, Any]], end: date) -> date:
    """Return the day that the next checkpoint of NO_TENANT covers."""
    if previous is None:
        return chain.day_of(events[0]["audit_event_id"]) if events else end - _DAY
    statement = Statement.parse(previous["statement"])
    return statement.day + _DAY if statement.is_complete else statement.day


def _closed_day(previous: asyncpg.Record) -> date:
    statement = Statement.parse(previous["statement"])
    return statement.day if statement.is_complete else statement.day - _DAY


def _first_id(previous: asyncpg.Record | None) -> UUID:
    """Return the lowest id that a checkpoint does not cover."""
    return NO_TENANT if previous is None else UUID(int=previous["covered_id"].int + 1)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
