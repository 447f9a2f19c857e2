"""The messages that a language model has still to read: leased one by one, delayed between attempts, and failed ones.

Rules have read them before. So neither a slow model nor one that is down holds up rules, corrections and deletions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.policies.store import Policy, PolicyCache
from skein_session.extractions.store import DueMessage, delete_queued, queue_changed, read_due, record_read
from skein_session.messages.model import LAST_ID

_QUERIES = Queries.load("skein_session")
# Messages of one lease, and the seconds of a lease beside the calls of the model.
MAX_LEASED = 8
_MARGIN_SECONDS = 60
# Attempts at one message, within some hours.
_MAX_ATTEMPTS = 16
_MIN_DELAY_SECONDS, _MAX_DELAY_SECONDS = 5.0, 3600.0
# Counts of waiting messages stop here.
_MAX_COUNTED = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoints:
    """The endpoints of language models that a worker may use."""

    # One of the operator.
    has_own: bool
    # Those that tenants name.
    allows_tenants: bool

    def serve(self, policy: Policy) -> bool:
        """Return whether a model reads the messages of a tenant."""
        return policy.extraction == "model" and (self.allows_tenants if policy.extraction_url else self.has_own)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A message that a model did not read, and why."""

    message_id: UUID
    reason: str
    # The endpoint asks for this pause.
    delay_seconds: float
    # Another attempt would fail too.
    is_final: bool
    # 0: it was not sent.
    attempt_count: int


class ModelQueue:
    """Leases messages to workers with a language model."""

    def __init__(self, database: Database, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def lease(
        self, tenant_id: UUID, endpoints: Endpoints, *, message_seconds: float, at: datetime
    ) -> list[DueMessage]:
        """Lease messages, each for longer than a model takes for all of them; none where no endpoint serves the tenant.

        They leave the queue where the tenant wants no model any more.
        """
        async with self._database.transaction(tenant_id) as tx:
            policy = await self._policies.get(tx, tenant_id)
            if policy.extraction == "model" and not endpoints.serve(policy):
                return []
            rows = await tx.rows(
                _QUERIES["lease_model_messages"],
                tenant_id=tenant_id,
                at=at,
                lease_end_time=at + timedelta(seconds=_MARGIN_SECONDS + MAX_LEASED * message_seconds),
                count=MAX_LEASED,
            )
            if policy.extraction != "model":
                await delete_queued(tx, tenant_id, {row["message_id"]: row["change_time"] for row in rows})
                return []
            return await read_due(tx, tenant_id, sorted(rows, key=lambda row: row["message_id"]), policy)

    async def complete(
        self,
        tenant_id: UUID,
        extractor: str,
        change_times: Mapping[UUID, datetime],
        failures: Sequence[Failure],
        read_revisions: Mapping[UUID, int],
        *,
        at: datetime,
    ) -> int:
        """Delete messages from the queue, by their change_times; return how many messages remain, up to 10,000.

        Those that failed wait for a later attempt, or are recorded after their last one. Those that changed while the
        model read them, by `read_revisions`, are read again from the beginning: what was stored of them is of before.
        """
        done = dict(change_times)
        read = {*change_times} - {failure.message_id for failure in failures}
        async with self._database.transaction(tenant_id) as tx:
            for failure in failures:
                if not await _has_no_attempt_left(tx, tenant_id, failure, change_times[failure.message_id], at):
                    del done[failure.message_id]
            await delete_queued(tx, tenant_id, done)
            rows = await tx.rows(
                _QUERIES["read_present_revisions"], tenant_id=tenant_id, message_ids=list(read_revisions)
            )
            for row in rows:
                if not row["is_active"] or row["revision"] != read_revisions[row["message_id"]]:
                    read.discard(row["message_id"])
                    await queue_changed(tx, tenant_id, row["session_id"], row["message_id"], at=at)
            await record_read(tx, tenant_id, extractor, sorted(read))
            return await _count(tx, tenant_id)

    async def count(self, tenant_id: UUID) -> int:
        """Return how many messages wait, up to 10,000."""
        async with self._database.transaction(tenant_id) as tx:
            return await _count(tx, tenant_id)

    async def list_failures(self, tenant_id: UUID, *, before: UUID | None, count: int) -> list[Record]:
        """Read messages that no attempt could read, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.rows(
                _QUERIES["list_failures"], tenant_id=tenant_id, before_id=before or LAST_ID, count=count
            )


async def _count(tx: Transaction, tenant_id: UUID) -> int:
    return int(await tx.value(_QUERIES["count_model_messages"], tenant_id=tenant_id, count=_MAX_COUNTED))


async def _has_no_attempt_left(
    tx: Transaction, tenant_id: UUID, failure: Failure, change_time: datetime, at: datetime
) -> bool:
    """Delay a message that failed, and return whether that was the last attempt; then record it as a failure."""
    key = {"tenant_id": tenant_id, "message_id": failure.message_id}
    attempt_count = await tx.value(
        _QUERIES["count_attempts"], **key, change_time=change_time, attempt_count=failure.attempt_count
    )
    if attempt_count is None:
        # It changed meanwhile, so it is another message.
        return False
    if not (failure.is_final or attempt_count >= _MAX_ATTEMPTS):
        backoff = _MIN_DELAY_SECONDS * 2 ** max(0, attempt_count - 1) if failure.attempt_count else _MIN_DELAY_SECONDS
        delay = timedelta(seconds=max(failure.delay_seconds, min(backoff, _MAX_DELAY_SECONDS)))
        await tx.execute(_QUERIES["delay_message"], **key, retry_time=at + delay)
        return False
    message = await tx.row(_QUERIES["read_messages"], tenant_id=tenant_id, message_ids=[failure.message_id])
    if message is not None:
        await tx.execute(
            _QUERIES["put_failure"],
            **key,
            session_id=message["session_id"],
            reason=failure.reason,
            attempt_count=attempt_count,
            at=at,
        )
    return True
