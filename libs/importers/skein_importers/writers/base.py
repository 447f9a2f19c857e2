"""How records of one kind come into a tenant: what of them is there already, and how the rest is written."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from skein_client.errors import NotFound, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from google.protobuf.message import Message

    from skein_client.client import Client
    from skein_importers.records import Kind, Record
    from skein_importers.report import Report

# Calls of one import that are under way at once.
MAX_CONCURRENT_CALLS = 8
_TIMES_OF_NOW = "update_time and others are those of the import: the key lacks tenant.write"
_EXPIRED = "expired: the key lacks tenant.write to keep times"
_EXPIRED_END = "a memory at its end has expired"
# Sessions that the writers remember to have made; what is forgotten is looked up.
_MAX_REMEMBERED = 200_000


class WriterContext:
    """What the writers of one import share."""

    def __init__(self, api: Client, report: Report, operator: Client | None = None) -> None:
        """Write through `api` and count in `report`; `operator` may do what a tenant may not."""
        self.api = api
        self.operator = operator
        self.report = report
        # Until a call says that the key may not say when something happened elsewhere.
        self.keeps_times = True
        # Sessions that this import made and that hold nothing yet.
        self.empty_sessions: set[str] = set()
        # The last memories that it made.
        self._memories: set[str] = set()
        self._oldest: deque[str] = deque()
        # External ids of memories of this import that have expired, so that no call finds them.
        self._expired: set[str] = set()

    def made_session(self, session_id: str) -> None:
        """Remember a session that was just made."""
        if len(self.empty_sessions) < _MAX_REMEMBERED:
            self.empty_sessions.add(session_id)

    def made_memory(self, external_id: str) -> None:
        """Remember a memory that was just made."""
        self._memories.add(external_id)
        self._oldest.append(external_id)
        if len(self._oldest) > _MAX_REMEMBERED:
            self._memories.discard(self._oldest.popleft())

    def expired_memory(self, external_id: str) -> None:
        """Remember a memory that has expired."""
        if len(self._expired) < _MAX_REMEMBERED:
            self._expired.add(external_id)

    def has_expired(self, external_id: str) -> bool:
        """Say whether this import has a memory of that id which has expired."""
        return external_id in self._expired

    def has_made_memory(self, external_id: str) -> bool:
        """Say whether this import surely made it."""
        return external_id in self._memories


class Writer:
    """One kind. Subclasses say what is there, and write what is not."""

    kind: ClassVar[Kind]
    # One call takes several records, all or none; else each has a call of its own.
    is_batched: ClassVar[bool] = False
    # What is there is found out before writing, because writing replaces it or finds it out too dearly.
    checks_first: ClassVar[bool] = False
    # Reasons of refusals which say that the record is there.
    exists_reasons: ClassVar[frozenset[str]] = frozenset()
    # Reasons which concern every record of the call alike.
    batch_reasons: ClassVar[frozenset[str]] = frozenset()
    # Reasons after which each record of the call is tried by itself, instead of halves.
    single_reasons: ClassVar[frozenset[str]] = frozenset()
    # Fields of a record that a comparison leaves out: the cluster keeps them in no form that it shows.
    not_compared: ClassVar[frozenset[str]] = frozenset()
    # Fields of a record that name memories which must not have expired.
    memory_fields: ClassVar[tuple[str, ...]] = ()
    # No RPC reads back what was written.
    is_comparable: ClassVar[bool] = True

    def __init__(self, context: WriterContext) -> None:
        """Write with what the writers of an import share."""
        self._context = context
        self._api = context.api

    def group(self, _record: Record) -> str:
        """Return what records must have in common to go into one call."""
        return ""

    async def find(self, records: Sequence[Record]) -> Mapping[str, Message]:
        """Return what the tenant holds of these records, by their names."""
        return dict(await call_each(records, self._find_one))

    async def get(self, _item: Any) -> Message:
        """Return the one thing in the tenant that a record's item names. Raises NotFound."""
        raise NotImplementedError

    def as_stored(self, item: Any) -> Message:
        """Return an item as the cluster shows what was written of it, for comparisons."""
        return item  # type: ignore[no-any-return]  # Items are messages.

    async def existing_names(self, records: Sequence[Record]) -> set[str]:
        """Return the names of those that are there; asked before writing when `looks_first`."""
        return set(await self.find(records))

    def writable(self, records: Sequence[Record]) -> list[Record]:
        """Return the records without those that expiry keeps from being written, which are noted as left."""
        at = datetime.now(UTC)
        kept = []
        for record in records:
            if not self._context.keeps_times and is_expired(record, at):
                self._context.report.count_ignored(record, _EXPIRED)
            elif any(self._context.has_expired(getattr(record.item, name)) for name in self.memory_fields):
                self._context.report.count_ignored(record, _EXPIRED_END)
            else:
                kept.append(record)
        return kept

    async def write(self, records: Sequence[Record]) -> None:
        """Write records in one call: one record, unless `is_batched`. Raises the cluster's refusals."""
        raise NotImplementedError

    async def on_skipped(self, _record: Record) -> None:
        """Learn of a record that is there already."""

    async def finish(self) -> None:
        """Do what can be done only when all records are written."""

    async def _write_with_times(
        self, call: Callable[[Any], Awaitable[Any]], request: Any, records: Sequence[Record]
    ) -> Any:
        """Make a call that keeps the times of its records, or one that does not where the key may not keep them.

        Raises TimesNotPermitted where the call has to be made again without the records that have expired.
        """
        request.keep_times = self._context.keeps_times
        try:
            answer = await call(request)
        except PermissionDenied as error:
            if error.reason != "PERMISSION_MISSING" or not request.keep_times:
                raise
            self._context.keeps_times = False
            at = datetime.now(UTC)
            if any(is_expired(record, at) for record in records):
                raise TimesNotPermitted from None
            # Without them it is another right that is missing, if this is refused too.
            request.keep_times = False
            answer = await call(request)
        if not request.keep_times:
            for record in records:
                self._context.report.notes.count_converted(
                    record.table or str(record.kind), "times", _TIMES_OF_NOW, record.where
                )
        return answer

    def _note_expired(self, record: Record, at: datetime) -> None:
        """Count a record that was written although its time is over."""
        if is_expired(record, at):
            self._context.report.notes.count_converted(
                record.table or str(record.kind), "expire_time", "over: stored as expired", record.where
            )

    async def _find_one(self, record: Record) -> tuple[str, Message] | None:
        try:
            return record.name, await self.get(record.item)
        except NotFound:
            return None


def is_expired(record: Record, at: datetime) -> bool:
    """Say whether a record's own time is over, so that no reader sees it."""
    item = record.item
    if "expire_time" not in item.DESCRIPTOR.fields_by_name or not item.HasField("expire_time"):
        return False
    return bool(item.expire_time.ToDatetime(tzinfo=UTC) <= at)


class EmbeddingSkipped(Exception):
    """A vector does not come along: the cluster makes its own. The message says of which vectors that is so."""


class TimesNotPermitted(Exception):
    """The key may not keep times: the records that `writable` returns now are to be written."""


class AlreadyWritten(Exception):
    """A record was there, and the same was put there again."""


async def call_each(
    records: Iterable[Record], find_one: Callable[[Record], Awaitable[tuple[str, Message] | None]]
) -> list[tuple[str, Message]]:
    """Call for each record, some at once; return what was found."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def one(record: Record) -> tuple[str, Message] | None:
        async with slots:
            return await find_one(record)

    return [found for found in await asyncio.gather(*(one(record) for record in records)) if found is not None]
