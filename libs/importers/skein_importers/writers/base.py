"""The base of writers, each of which finds and writes records of one kind."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2
from skein_client.client import Client
from skein_client.errors import NotFound, PermissionDenied
from skein_importers.records import Kind, Record
from skein_importers.report import Report

# Concurrent calls of one import.
MAX_CONCURRENT_CALLS = 8
_TIMES_OF_NOW = "update_time and others are the time of the import: the key lacks tenant.write"
_EXPIRED = "expired: the key lacks tenant.write to keep times"
_EXPIRED_END = "one of its memories has expired"
# Most created sessions and memories that writers remember; others are looked up.
_MAX_REMEMBERED = 200_000


class WriterContext:
    """State of one import that its writers share."""

    def __init__(self, api: Client, report: Report, operator: Client | None = None, *, origin: str = "") -> None:
        """Write through `api` and count in `report`; `operator` has permissions that a tenant lacks.

        `origin` names the system that memories come from.
        """
        self.api = api
        self.origin = origin
        self.operator = operator
        self.report = report
        # False once a call shows that the key may not set times.
        self.keeps_times = True
        # Sessions that this import created and that are still empty.
        self.empty_sessions: set[str] = set()
        # The last memories that it created.
        self._memories: set[str] = set()
        self._oldest: deque[str] = deque()
        # External ids of expired memories of this import, which no call returns.
        self._expired: set[str] = set()

    def add_empty_session(self, session_id: str) -> None:
        """Remember a created session."""
        if len(self.empty_sessions) < _MAX_REMEMBERED:
            self.empty_sessions.add(session_id)

    def add_memory(self, external_id: str) -> None:
        """Remember a created memory."""
        self._memories.add(external_id)
        self._oldest.append(external_id)
        if len(self._oldest) > _MAX_REMEMBERED:
            self._memories.discard(self._oldest.popleft())

    def add_expired(self, external_id: str) -> None:
        """Remember a memory that has expired."""
        if len(self._expired) < _MAX_REMEMBERED:
            self._expired.add(external_id)

    def has_expired(self, external_id: str) -> bool:
        """Say whether this import has a memory of that id which has expired."""
        return external_id in self._expired

    def has_created(self, external_id: str) -> bool:
        """Say whether this import remembers that it created the memory."""
        return external_id in self._memories


class Writer:
    """Finds and writes records of one kind."""

    kind: ClassVar[Kind]
    # One call writes several records, all or none; otherwise one record.
    is_batched: ClassVar[bool] = False
    # Existing records must be found before writing, which would replace them or fail late.
    checks_first: ClassVar[bool] = False
    # Error reasons of existing records.
    exists_reasons: ClassVar[frozenset[str]] = frozenset()
    # Error reasons that hold for every record of the call.
    batch_reasons: ClassVar[frozenset[str]] = frozenset()
    # Error reasons after which records are written one by one instead of in halves.
    single_reasons: ClassVar[frozenset[str]] = frozenset()
    # Fields that comparisons ignore, because the cluster does not return them.
    not_compared: ClassVar[frozenset[str]] = frozenset()
    # Fields with ids of memories that must not have expired.
    memory_fields: ClassVar[tuple[str, ...]] = ()
    # False when no RPC returns the record.
    is_comparable: ClassVar[bool] = True

    def __init__(self, context: WriterContext) -> None:
        """Write with the state that the writers of an import share."""
        self._context = context
        self._api = context.api

    def group(self, _record: Record) -> str:
        """Return the group of a record; one call takes records of one group."""
        return ""

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return the tenant's messages for these records, by name."""
        return dict(await call_each(records, self._find_one))

    async def get(self, _item: Any) -> Message:
        """Return the tenant's message for an item. Raises NotFound."""
        raise NotImplementedError

    def as_stored(self, item: Any) -> Message:
        """Return an item in the form in which the cluster returns it, for comparisons."""
        return item  # type: ignore[no-any-return]  # Items are messages.

    async def existing_names(self, records: Sequence[Record]) -> set[str]:
        """Return the names of existing records; called before writing when `checks_first`."""
        return set(await self.find(records))

    def writable(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that can be written; count records that expiry excludes as ignored."""
        at = datetime.now(UTC)
        result = []
        for record in records:
            if not self._context.keeps_times and is_expired(record, at):
                self._context.report.count_ignored(record, _EXPIRED)
            elif any(self._context.has_expired(getattr(record.item, name)) for name in self.memory_fields):
                self._context.report.count_ignored(record, _EXPIRED_END)
            else:
                result.append(record)
        return result

    async def write(self, records: Sequence[Record]) -> None:
        """Write records in one call: one record, unless `is_batched`. Raises the cluster's refusals."""
        raise NotImplementedError

    async def on_skipped(self, _record: Record) -> None:
        """React to a record that exists."""

    async def finish(self) -> None:
        """Finish after all records are written."""

    async def _memory_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return this cluster's ids of memories, by their external ids and their ids."""
        remaining, ids = sorted(names), dict[str, str]()
        while remaining:
            response = await self._api.memories.BatchGetMemories(
                memory_pb2.BatchGetMemoriesRequest(memory_ids=remaining)
            )
            for memory in response.memories:
                ids[memory.external_id] = ids[memory.memory_id] = memory.memory_id
            remaining = list(response.unread_ids)
        return ids

    async def _write_with_times(
        self, call: Callable[[Any], Awaitable[Any]], request: Any, records: Sequence[Record]
    ) -> Any:
        """Make a call that keeps the records' times, or one without them when the key lacks the permission.

        Raises TimesNotPermitted when the call must be repeated without expired records.
        """
        request.keep_times = self._context.keeps_times
        try:
            response = await call(request)
        except PermissionDenied as error:
            if error.reason != "PERMISSION_MISSING" or not request.keep_times:
                raise
            self._context.keeps_times = False
            at = datetime.now(UTC)
            if any(is_expired(record, at) for record in records):
                raise TimesNotPermitted from None
            # A second refusal means that another permission is missing.
            request.keep_times = False
            response = await call(request)
        if not request.keep_times:
            for record in records:
                self._context.report.notes.count_converted(
                    record.table or str(record.kind), "times", _TIMES_OF_NOW, record.where
                )
        return response

    def _count_expired(self, record: Record, at: datetime) -> None:
        """Count an expired record that was written."""
        if is_expired(record, at):
            self._context.report.notes.count_converted(
                record.table or str(record.kind), "expire_time", "in the past: stored as expired", record.where
            )

    async def _find_one(self, record: Record) -> tuple[str, Message] | None:
        try:
            return record.name, await self.get(record.item)
        except NotFound:
            return None


def is_expired(record: Record, at: datetime) -> bool:
    """Say whether a record has expired, so that no call returns it."""
    item = record.item
    if "expire_time" not in item.DESCRIPTOR.fields_by_name or not item.HasField("expire_time"):
        return False
    return bool(item.expire_time.ToDatetime(tzinfo=UTC) <= at)


class EmbeddingSkipped(Exception):
    """A vector is not imported; the cluster computes its own. The message says which vectors."""


class TimesNotPermitted(Exception):
    """The key may not set times: write the records that `writable` returns now."""


class EmbeddingExists(Exception):
    """A record existed and was written again unchanged."""


async def call_each(
    records: Iterable[Record], find_one: Callable[[Record], Awaitable[tuple[str, Message] | None]]
) -> list[tuple[str, Message]]:
    """Call `find_one` for each record, some at a time; return the results without None."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def find(record: Record) -> tuple[str, Message] | None:
        async with slots:
            return await find_one(record)

    return [result for result in await asyncio.gather(*(find(record) for record in records)) if result is not None]
