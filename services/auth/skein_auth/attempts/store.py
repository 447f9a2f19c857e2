"""Attempts in the database: counted before it is known how they end, so that no burst gets past a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_auth.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from skein_kit.database.transactions import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRequest:
    """An attempt that a subject wants to make."""

    kind: str
    # SHA-256 of kind and subject.
    subject_hash: bytes
    # When a window that begins now ends.
    expire_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptCount:
    """What a subject has come to with the attempt at hand."""

    kind: str
    subject_hash: bytes
    expire_time: datetime
    count: int
    # Of the count, those of which it is not known yet how they end.
    held: int


class AttemptStore:
    """Attempts by kind and subject."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hold(
        self,
        wanted: Sequence[AttemptRequest],
        at: datetime,
        *,
        held: bool,
        judge: Callable[[Sequence[AttemptCount]], None],
    ) -> Sequence[AttemptCount]:
        """Count an attempt of each subject, or of none: what `judge` raises takes all of them back.

        `held` attempts are settled later; others count in any case.
        """
        # Everybody takes the rows in the same order, so nobody waits for one who waits for them.
        wanted = sorted(wanted, key=lambda one: (one.kind, one.subject_hash))
        async with self._database.shared() as tx:
            rows = await tx.rows(
                QUERIES["hold_attempts"],
                kinds=[one.kind for one in wanted],
                subject_hashes=[one.subject_hash for one in wanted],
                expire_times=[one.expire_time for one in wanted],
                held=int(held),
                at=at,
            )
            counted = [AttemptCount(**row) for row in rows]
            judge(counted)
        return counted

    async def settle(self, held: Sequence[AttemptCount], *, failed: bool) -> None:
        """Say how held attempts ended; those that did not fail are taken back."""
        async with self._database.shared() as tx:
            await tx.execute(
                QUERIES["settle_attempts"],
                kinds=[one.kind for one in held],
                subject_hashes=[one.subject_hash for one in held],
                expire_times=[one.expire_time for one in held],
                given_back=int(not failed),
            )
