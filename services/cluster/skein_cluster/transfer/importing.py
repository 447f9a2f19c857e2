"""Bringing records into a tenant, through its public API. Importing the same records again changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_client.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    SkeinError,
)
from skein_client.pages import items
from skein_cluster.failures import sentence
from skein_cluster.transfer.records import Kind, Record, Unreadable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from skein_cluster.calling import Api

BATCH = 100
# Well below the 4 MiB that a request may have.
BATCH_BYTES = 1_000_000
# What the record itself is to blame for; anything else ends the import.
_REFUSALS = (InvalidArgument, AlreadyExists, NotFound, FailedPrecondition, ResourceExhausted)
# The id or link is there already, so the record is.
_THERE = frozenset({"EXTERNAL_ID_TAKEN", "SESSION_EXISTS", "LINK_EXISTS"})
# The session is at fault, not one of the messages.
_WHOLE_SESSION = frozenset({"SESSION_NOT_FOUND", "SESSION_ENDED"})


@dataclass(frozen=True, slots=True)
class Refused:
    """One record that was not taken."""

    where: str
    kind: str
    name: str
    reason: str


@dataclass(slots=True)
class Report:
    """What became of the records, by kind."""

    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    # Written, found by their words already and by meaning soon.
    pending: int = 0

    def refuse(self, record: Record | Unreadable, reason: str) -> None:
        """Note a record that was not taken."""
        if isinstance(record, Unreadable):
            self.refused.append(Refused(record.where, "", "", reason))
        else:
            self.refused.append(Refused(record.where, str(record.kind), record.name, reason))


class Importer:
    """One import. Records come in the order of the file, which says in which order messages follow each other."""

    def __init__(self, api: Api, report: Report, done: Callable[[int], None], *, batch: int = BATCH) -> None:
        """Write through `api`, `batch` records a call, and call `done` with the number dealt with, as it goes on."""
        self._api = api
        self._batch = batch
        self._report = report
        self._done = done
        self._waiting: list[Record] = []
        self._bytes = 0
        # Ids of messages that a session holds, for the sessions met so far.
        self._held: dict[str, set[str]] = {}
        self._seen: set[tuple[Kind, str]] = set()
        self._opened: list[session_pb2.Session] = []

    async def run(self, records: Iterable[Record | Unreadable]) -> None:
        """Import all records."""
        for record in records:
            if isinstance(record, Unreadable):
                self._report.read["unreadable"] += 1
                self._report.refuse(record, record.reason)
                self._done(1)
                continue
            self._report.read[record.kind] += 1
            if self._must_flush(record):
                await self._flush()
            self._waiting.append(record)
            self._bytes += record.item.ByteSize()
        await self._flush()
        for session in self._opened:
            await self._give_state(session)

    def _must_flush(self, record: Record) -> bool:
        if not self._waiting:
            return False
        last = self._waiting[-1]
        return (
            _group(last) != _group(record)
            or len(self._waiting) >= self._batch
            or self._bytes + record.item.ByteSize() > BATCH_BYTES
        )

    async def _flush(self) -> None:
        batch, self._waiting, self._bytes = self._waiting, [], 0
        if not batch:
            return
        kind = batch[0].kind
        if kind is Kind.SESSION:
            await self._one_by_one(batch, self._create_session)
        elif kind is Kind.MESSAGE:
            await self._messages(batch)
        elif kind is Kind.MEMORY:
            await self._memories(batch)
        else:
            await self._one_by_one(batch, self._create_link)
        self._done(len(batch))

    async def _one_by_one(self, batch: Sequence[Record], create: Callable[[Any], Awaitable[None]]) -> None:
        for record in batch:
            try:
                await create(record.item)
            except _REFUSALS as error:
                self._not_taken(record, error)
            else:
                self._report.written[record.kind] += 1

    async def _create_session(self, session: session_pb2.Session) -> None:
        wanted = session_pb2.Session()
        wanted.CopyFrom(session)
        # It takes messages first; its state comes at the end.
        wanted.ClearField("state")
        wanted.ClearField("end_reason")
        await self._api.sessions.CreateSession(session_pb2.CreateSessionRequest(session=wanted))
        self._held[session.session_id] = set()
        self._opened.append(session)

    async def _create_link(self, link: memory_pb2.Link) -> None:
        await self._api.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    async def _messages(self, batch: Sequence[Record]) -> None:
        session_id = _group(batch[0])[1]
        try:
            held = await self._messages_of(session_id)
        except NotFound as error:
            for record in batch:
                self._report.refuse(record, sentence(error))
            return
        fresh = self._fresh(batch, held)

        async def append(records: Sequence[Record]) -> None:
            messages = [record.item for record in records]
            answer = await self._api.sessions.AppendMessages(
                session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages)  # type: ignore[arg-type]  # Only messages come here.
            )
            self._report.pending += answer.pending_embedding_count

        await self._all_or_parts(fresh, append)

    async def _memories(self, batch: Sequence[Record]) -> None:
        names = list(dict.fromkeys(record.name for record in batch))
        answer = await self._api.memories.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=names))
        fresh = self._fresh(batch, set(names) - set(answer.not_found))

        async def create(records: Sequence[Record]) -> None:
            memories = [record.item for record in records]
            answer = await self._api.memories.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=memories)  # type: ignore[arg-type]  # Only memories come here.
            )
            self._report.pending += answer.pending_embedding_count

        await self._all_or_parts(fresh, create)

    def _fresh(self, batch: Sequence[Record], there: set[str]) -> list[Record]:
        """Return the records that are new to the tenant and to this import; count the others as skipped."""
        fresh: list[Record] = []
        for record in batch:
            identity = (record.kind, record.name)
            if record.name in there or identity in self._seen:
                self._report.skipped[record.kind] += 1
            else:
                fresh.append(record)
                self._seen.add(identity)
        return fresh

    async def _all_or_parts(
        self, records: Sequence[Record], write: Callable[[Sequence[Record]], Awaitable[None]]
    ) -> None:
        """Write records in one call; when that is refused, in halves, so that the faulty ones alone are left out."""
        if not records:
            return
        try:
            await write(records)
        except _REFUSALS as error:
            if len(records) == 1 or error.reason in _WHOLE_SESSION:
                for record in records:
                    self._not_taken(record, error)
                return
            middle = len(records) // 2
            await self._all_or_parts(records[:middle], write)
            await self._all_or_parts(records[middle:], write)
        else:
            self._report.written[records[0].kind] += len(records)

    async def _messages_of(self, session_id: str) -> set[str]:
        """Return the ids, of either form, of the messages that a session holds. Raises NotFound."""
        if session_id not in self._held:
            request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=1000, show_stored=True)
            held: set[str] = set()
            async for message in items(self._api.sessions.ListMessages, request, "messages"):
                held |= {message.message_id, message.external_id}
            self._held[session_id] = held
        return self._held[session_id]

    async def _give_state(self, session: session_pb2.Session) -> None:
        if session.state in {session_pb2.SESSION_STATE_ENDED, session_pb2.SESSION_STATE_ARCHIVED}:
            await self._api.sessions.EndSession(
                session_pb2.EndSessionRequest(session_id=session.session_id, reason=session.end_reason)
            )
        elif session.state in {session_pb2.SESSION_STATE_PAUSED, session_pb2.SESSION_STATE_COMPLETED}:
            request = session_pb2.UpdateSessionRequest(
                session=session_pb2.Session(session_id=session.session_id, state=session.state)
            )
            request.update_mask.paths.append("state")
            await self._api.sessions.UpdateSession(request)

    def _not_taken(self, record: Record, error: SkeinError) -> None:
        if error.reason in _THERE:
            self._report.skipped[record.kind] += 1
        else:
            self._seen.discard((record.kind, record.name))
            self._report.refuse(record, sentence(error))


def check(records: Iterable[Record | Unreadable], report: Report, done: Callable[[int], None]) -> None:
    """Read all records and write none."""
    for record in records:
        if isinstance(record, Unreadable):
            report.read["unreadable"] += 1
            report.refuse(record, record.reason)
        else:
            report.read[record.kind] += 1
        done(1)


def _group(record: Record) -> tuple[Kind, str]:
    """Return what records must share to go into one call."""
    session = record.item.session_id if isinstance(record.item, session_pb2.Message) else ""
    return record.kind, session
