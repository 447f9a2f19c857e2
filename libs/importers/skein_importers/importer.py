"""Imports records into a tenant through the public API. Importing the same records again changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from skein_client.client import Client
from skein_client.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    SkeinError,
)
from skein_importers.budget import ImportBudget
from skein_importers.errors import QuotaReached
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.report import Report
from skein_importers.writers import WRITERS
from skein_importers.writers.base import EmbeddingExists, EmbeddingSkipped, TimesNotPermitted, Writer, WriterContext

__all__ = ["BATCH", "Importer", "Report", "read_all", "read_chunks"]

Result = TypeVar("Result")

BATCH = 100
# A request may have 4 MiB.
BATCH_BYTES = 1_000_000
# Records that are read ahead.
_CHUNK = 500
# Errors of single records; other errors end the import.
_REFUSALS = (InvalidArgument, AlreadyExists, NotFound, FailedPrecondition, ResourceExhausted)
# Errors that a later attempt avoids.
_TRANSIENT_REASONS = frozenset({"RATE_LIMITED", "OVERLOADED", "TOO_MANY_ATTEMPTS"})
# Pause after a rate limit that names no time.
_PAUSE_SECONDS = 1.0


class Importer:
    """One import. Messages of a session keep the order of the records."""

    def __init__(
        self,
        api: Client,
        report: Report,
        on_done: Callable[[int], None],
        *,
        batch: int = BATCH,
        max_concurrent: int = 1,
        operator: Client | None = None,
        origin: str = "",
    ) -> None:
        """Write through `api`, `batch` records a call and `max_concurrent` calls side by side.

        `origin` is the system that memories come from; they name it as their source.

        `on_done` is called with the number of records finished. An operator's `Client` registers models that the
        cluster lacks.
        """
        self._report = report
        self._on_done = on_done
        self._batch = batch
        self._slots = asyncio.Semaphore(max_concurrent)
        self._context = WriterContext(api, report, operator, origin=origin)
        self._budget = ImportBudget(api)
        self._writers: dict[Kind, Writer] = {}
        self._pending: list[Record] = []
        self._bytes = 0
        self._kind: Kind | None = None
        # Running batches, with the group of their records.
        self._running: dict[asyncio.Task[None], str] = {}

    async def run(self, records: Iterable[Record | UnreadableRecord]) -> None:
        """Import all records."""
        try:
            async for chunk in read_chunks(records):
                for record in chunk:
                    await self._add(record)
            await self._flush()
            await self._wait_for_batches(None)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            # The end is only shown; an error of this call does not fail the import.
            with suppress(SkeinError):
                await self._budget.finish()
        for writer in self._writers.values():
            await writer.finish()

    async def _add(self, record: Record | UnreadableRecord) -> None:
        self._report.count_read(record)
        if isinstance(record, UnreadableRecord):
            self._on_done(1)
            return
        if self._must_flush(record):
            await self._flush()
        if record.kind is not self._kind:
            # Records refer to records of earlier kinds, so these are written first.
            await self._wait_for_batches(None)
            self._kind = record.kind
        self._pending.append(record)
        self._bytes += record.item.ByteSize()

    def _must_flush(self, record: Record) -> bool:
        if not self._pending:
            return False
        last = self._pending[-1]
        return (
            last.kind is not record.kind
            or self._writer(last.kind).group(last) != self._writer(record.kind).group(record)
            or len(self._pending) >= self._batch
            or self._bytes + record.item.ByteSize() > BATCH_BYTES
        )

    async def _flush(self) -> None:
        batch, self._pending, self._bytes = self._pending, [], 0
        if not batch:
            return
        writer = self._writer(batch[0].kind)
        group = writer.group(batch[0])
        if group:
            # Messages of a session must stay in order.
            await self._wait_for_batches(group)
        await self._slots.acquire()
        self._raise_failed()
        task = asyncio.create_task(self._import(writer, batch))
        self._running[task] = group

    async def _wait_for_batches(self, group: str | None) -> None:
        """Wait for the batches of a group, or for all."""
        tasks = [task for task, other in self._running.items() if group is None or other == group]
        if tasks:
            await asyncio.gather(*tasks)
        self._raise_failed()

    def _raise_failed(self) -> None:
        """Drop finished batches; raise the error of a failed one."""
        for task in [task for task in self._running if task.done()]:
            del self._running[task]
            task.result()

    async def _import(self, writer: Writer, batch: Sequence[Record]) -> None:
        try:
            new_records = await self._new_records(writer, batch)
            if new_records:
                await self._call_with_retries(lambda: self._budget.take(len(new_records)))
            if writer.is_batched:
                await self._write_or_split(writer, new_records)
            else:
                await asyncio.gather(*(self._write_or_split(writer, [record]) for record in new_records))
            self._budget.add_done(len(new_records))
            self._on_done(len(batch))
        finally:
            self._slots.release()

    async def _new_records(self, writer: Writer, batch: Sequence[Record]) -> list[Record]:
        """Return the records that neither the tenant nor this batch has yet; count the others as skipped."""
        existing: set[str] = set()
        readable = batch
        if writer.checks_first:
            existing, readable = await self._find_existing(writer, batch)
        new_records: dict[str, Record] = {}
        for record in readable:
            if record.name in existing or record.name in new_records:
                await self._skip(writer, record)
            else:
                new_records[record.name] = record
        return list(new_records.values())

    async def _find_existing(self, writer: Writer, batch: Sequence[Record]) -> tuple[set[str], Sequence[Record]]:
        """Return the names that exist, and the batch without records that cannot be looked up, which are refused."""
        try:
            return await self._call_with_retries(lambda: writer.existing_names(batch)), batch
        except (NotFound, InvalidArgument) as error:
            if isinstance(error, NotFound) or len(batch) == 1:
                for record in batch:
                    self._report.refuse(record, self._report.describe_error(error))
                return set(), []
        # One id is invalid: split the batch, so that the others are imported.
        middle = len(batch) // 2
        existing, readable = await self._find_existing(writer, batch[:middle])
        other_existing, other_readable = await self._find_existing(writer, batch[middle:])
        return existing | other_existing, [*readable, *other_readable]

    async def _write_or_split(self, writer: Writer, records: Sequence[Record]) -> None:
        """Write records in one call; split a refused batch until only faulty records are left out."""
        records = writer.writable(records)
        if not records:
            return
        try:
            await self._call_with_retries(lambda: writer.write(records))
        except EmbeddingSkipped as error:
            self._report.recompute(records[0], str(error))
        except TimesNotPermitted:
            await self._write_or_split(writer, records)
        except EmbeddingExists:
            self._report.skip(records[0])
        except (DeadlineExceeded, *_REFUSALS) as error:
            await self._split(writer, records, error)
        else:
            for record in records:
                self._report.count_written(record)

    async def _split(self, writer: Writer, records: Sequence[Record], error: SkeinError) -> None:
        """Write the parts of a batch that failed; refuse a single record. Raises DeadlineExceeded for a single one.

        What a call prepared that took too long stays, such as the partitions of its months, so that halves get further.
        """
        if len(records) == 1 and isinstance(error, DeadlineExceeded):
            raise error
        if len(records) == 1 or error.reason in writer.batch_reasons:
            await self._refuse_batch(writer, records, error)
            return
        step = 1 if error.reason in writer.single_reasons else (len(records) + 1) // 2
        for first in range(0, len(records), step):
            await self._write_or_split(writer, records[first : first + step])

    async def _refuse_batch(self, writer: Writer, records: Sequence[Record], error: SkeinError) -> None:
        for record in records:
            if error.reason in writer.exists_reasons:
                await self._skip(writer, record)
            else:
                self._report.refuse(record, self._report.describe_error(error))

    async def _skip(self, writer: Writer, record: Record) -> None:
        self._report.skip(record)
        await writer.on_skipped(record)

    async def _call_with_retries(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Make a call, and repeat it while a rate limit holds. Raises QuotaReached."""
        while True:
            try:
                return await call()
            except ResourceExhausted as error:
                if error.reason == "QUOTA_EXCEEDED":
                    description = self._report.describe_error(error)
                    raise QuotaReached(
                        f"{description} What was written stays; raise the quota and run the same command again."
                    ) from error
                if error.reason not in _TRANSIENT_REASONS:
                    raise
                await asyncio.sleep(error.retry_after or _PAUSE_SECONDS)

    def _writer(self, kind: Kind) -> Writer:
        if kind not in self._writers:
            self._writers[kind] = WRITERS[kind](self._context)
        return self._writers[kind]


async def read_chunks(records: Iterable[Record | UnreadableRecord]) -> AsyncIterator[list[Record | UnreadableRecord]]:
    """Read chunks of records in a thread, one ahead. No read is running when this ends."""
    iterator = iter(records)
    reading = asyncio.create_task(asyncio.to_thread(_next, iterator))
    try:
        while chunk := await asyncio.shield(reading):
            reading = asyncio.create_task(asyncio.to_thread(_next, iterator))
            yield chunk
    finally:
        if not reading.done():
            with suppress(Exception):
                await reading


def read_all(records: Iterable[Record | UnreadableRecord], report: Report, on_done: Callable[[int], None]) -> None:
    """Count all records without writing."""
    for record in records:
        report.count_read(record)
        on_done(1)


def _next(iterator: Iterator[Record | UnreadableRecord]) -> list[Record | UnreadableRecord]:
    return list(islice(iterator, _CHUNK))
