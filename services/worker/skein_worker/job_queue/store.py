"""Queries of the queue's tables that pgqueuer does not have."""

from __future__ import annotations

from datetime import datetime

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database

_QUERIES = Queries.load("skein_worker")


class JobStore:
    """Jobs and the log of those that ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_active_dedupe_keys(self, job_name: str) -> frozenset[str]:
        """Return the dedupe keys of the jobs of one name that are queued or run."""
        async with self._database.global_transaction() as tx:
            rows = await tx.rows(_QUERIES["list_active_dedupe_keys"], entrypoint=job_name)
        return frozenset(row["dedupe_key"] for row in rows)

    async def purge_job_log(self, before: datetime) -> int:
        """Delete the log of jobs that ended before a time; return how many lines."""
        async with self._database.global_transaction() as tx:
            return await tx.execute(_QUERIES["purge_job_log"], before=before)
