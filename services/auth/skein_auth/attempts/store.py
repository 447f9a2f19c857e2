"""Attempts in the database. They count before their outcome is known, so that no burst passes a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRequest:
    """An attempt of one subject to be counted."""

    kind: str
    # SHA-256 of kind and subject.
    subject_hash: bytes
    # The end of a window that begins now.
    expire_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptCount:
    """The attempts of one subject in its window, the current one included."""

    kind: str
    subject_hash: bytes
    expire_time: datetime
    count: int
    # Those of the count whose outcome is not known yet.
    pending: int


class AttemptStore:
    """Attempts by kind and subject."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def reserve(
        self, requests: Sequence[AttemptRequest], at: datetime, *, pending: bool
    ) -> AsyncIterator[Sequence[AttemptCount]]:
        """Count an attempt of each subject and yield the counts; an error in the block takes all of them back.

        The outcome of `pending` attempts is recorded later; others count whatever their outcome.
        """
        # In one order for all transactions, so that they cannot deadlock.
        requests = sorted(requests, key=lambda request: (request.kind, request.subject_hash))
        async with self._database.global_transaction() as tx:
            rows = await tx.rows(
                QUERIES["reserve_attempts"],
                kinds=[request.kind for request in requests],
                subject_hashes=[request.subject_hash for request in requests],
                expire_times=[request.expire_time for request in requests],
                pending=int(pending),
                at=at,
            )
            yield [AttemptCount(**row) for row in rows]

    async def use_once(self, kind: str, subject_hash: bytes, expire_time: datetime, at: datetime) -> bool:
        """Record the use of something that works once until it expires; return whether this is the first use."""
        request = AttemptRequest(kind=kind, subject_hash=subject_hash, expire_time=expire_time)
        async with self.reserve([request], at, pending=False) as counts:
            return counts[0].count == 1

    async def record_attempt_outcomes(self, counts: Sequence[AttemptCount], *, has_failed: bool) -> None:
        """Record the outcome of pending attempts; those that did not fail are taken back."""
        async with self._database.global_transaction() as tx:
            await tx.execute(
                QUERIES["record_attempt_outcomes"],
                kinds=[count.kind for count in counts],
                subject_hashes=[count.subject_hash for count in counts],
                expire_times=[count.expire_time for count in counts],
                returned=int(not has_failed),
            )
