"""The queue of messages whose facts are due. Functions that take `tx` work in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.database.named_queries import Queries
from skein_kit.ids import now
from skein_kit.policies.days import read_zone_of_subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.policies.store import Policy, PolicyCache

    MessageRow = Record | Mapping[str, Any]

_QUERIES = Queries.load("skein_session")
# Purged messages are queued apart, so that the id of a purged session is kept nowhere.
_PURGED = ""
_PEOPLE = ("user",)
LEASE = timedelta(seconds=60)
# Messages of one lease, which an extractor reads well within the lease.
MAX_LEASED = 32
# Messages before and after one among which its person's others are looked for, and the longest texts that matter there:
# of a statement, of "forget that", and of "yes".
_NEIGHBOURS = 10
_MAX_STATEMENT_CHARACTERS, _MAX_SHORT_CHARACTERS, _MAX_ANSWER_CHARACTERS = 400, 60, 40
# A person's preference "extraction", as JSON texts.
_NO_EXTRACTION, _NO_MODEL = '"off"', '"rules"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours:
    """What stands around a person's message."""

    # An assistant's message right before it, to the same person.
    answered: Record | None
    # The person's last message before it, and the text of the next one if that is short.
    previous_id: UUID | None
    following_text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DueMessage:
    """A queued message; its row is None where it is deleted, or does not count by the policy."""

    message_id: UUID
    kind: str
    change_time: datetime
    row: Record | None
    # 0: it is deleted.
    revision: int
    zone: str
    # The person wants no model to read it.
    is_exempt: bool = False
    neighbours: Neighbours | None = None


class ExtractionStore:
    """Queues messages by the tenant's policy, and leases them to extractors."""

    def __init__(self, database: Database, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def note_new(
        self, tx: Transaction, tenant_id: UUID, session_id: str, rows: Sequence[MessageRow], *, at: datetime
    ) -> None:
        """Queue new messages that count by the policy. A tenant without extraction costs no round trip."""
        policy = await self._policies.get(tx, tenant_id)
        if policy.extraction == "off":
            return
        if ids := [row["message_id"] for row in rows if _counts(policy, row)]:
            quiet = timedelta(seconds=policy.extraction_quiet_seconds)
            due_time = at if len(ids) >= policy.extraction_messages else at + quiet
            await _queue(
                tx, tenant_id, session_id, ids, "new", due_time=due_time, max_count=policy.extraction_messages, at=at
            )

    async def note_changed(
        self, tx: Transaction, tenant_id: UUID, row: MessageRow, *, is_new: bool = False, at: datetime
    ) -> None:
        """Queue a message that was corrected, approved (`is_new`) or undeleted."""
        policy = await self._policies.get(tx, tenant_id)
        ids = [row["message_id"]]
        if policy.extraction != "off" and _counts(policy, row):
            await _queue(tx, tenant_id, row["session_id"], ids, "new" if is_new else "changed", due_time=at, at=at)
        else:
            await note_deleted(tx, tenant_id, row["session_id"], ids)
        await _queue_answer(tx, tenant_id, row, policy, at=at)

    async def note_deleted_message(self, tx: Transaction, tenant_id: UUID, row: MessageRow, *, at: datetime) -> None:
        """Queue a message that is deleted, if memories were made of it or it is queued, and what may confirm it."""
        await note_deleted(tx, tenant_id, row["session_id"], [row["message_id"]])
        await _queue_answer(tx, tenant_id, row, await self._policies.get(tx, tenant_id), at=at)

    async def lease(self, tenant_id: UUID, *, at: datetime) -> list[DueMessage]:
        """Lease the session that is due for longest, and return its messages; none where nothing is due."""
        async with self._database.transaction(tenant_id) as tx:
            policy = await self._policies.get(tx, tenant_id)
            queued: Sequence[Record] = ()
            while not queued:
                lease = {"tenant_id": tenant_id, "lease_end_time": at + LEASE}
                session_id = await tx.value(_QUERIES["lease_session"], **lease, at=at)
                if session_id is None:
                    return []
                key = {"tenant_id": tenant_id, "session_id": session_id}
                queued = await tx.rows(_QUERIES["read_queued"], **key, count=MAX_LEASED)
                if not queued:
                    # Its messages were purged, and are queued apart; or only a model has still to read them.
                    await tx.execute(_QUERIES["delete_done_session"], **key)
            return await read_due(tx, tenant_id, queued, policy)

    async def complete(
        self,
        tenant_id: UUID,
        extractor: str,
        change_times: Mapping[UUID, datetime],
        for_model: Mapping[UUID, str],
        *,
        at: datetime,
    ) -> None:
        """Delete leased messages from the queue, by their change_times, end their leases, and record them as read.

        Those `for_model`, by id with their sessions, stay in the queue for a language model instead. A backfill whose
        messages they are goes on.
        """
        done = {id_: time for id_, time in change_times.items() if id_ not in for_model}
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(_QUERIES["find_queued_sessions"], tenant_id=tenant_id, message_ids=list(change_times))
            keys = [{"tenant_id": tenant_id, "session_id": row["session_id"]} for row in rows]
            for key in keys:
                await tx.row(_QUERIES["lock_extraction"], **key)
            values = [
                {"message_id": id_, "session_id": session_id, "change_time": change_times[id_], "at": at}
                for id_, session_id in for_model.items()
            ]
            await tx.insert(_QUERIES["queue_for_model"], tenant_id, values)
            await delete_queued(tx, tenant_id, done)
            for key in keys:
                if not await tx.execute(_QUERIES["delete_done_session"], **key):
                    await tx.execute(_QUERIES["end_lease"], **key)
            await record_read(tx, tenant_id, extractor, list(done))
            messages = {"tenant_id": tenant_id, "message_ids": list(change_times)}
            await tx.execute(_QUERIES["complete_backfill_lease"], **messages, at=at)

    async def policy(self, tenant_id: UUID) -> Policy:
        """Return the policy of a tenant."""
        policy = self._policies.get_cached(tenant_id)
        if policy is None:
            async with self._database.transaction(tenant_id) as tx:
                policy = await self._policies.get(tx, tenant_id)
        return policy


async def delete_queued(tx: Transaction, tenant_id: UUID, change_times: Mapping[UUID, datetime]) -> None:
    """Delete messages from the queue, unless they changed meanwhile."""
    await tx.execute(
        _QUERIES["delete_queued"],
        tenant_id=tenant_id,
        message_ids=list(change_times),
        change_times=list(change_times.values()),
    )


async def record_read(tx: Transaction, tenant_id: UUID, extractor: str, message_ids: Sequence[UUID]) -> None:
    """Record that an extractor has read messages, unless they changed meanwhile. They are no failures any more."""
    messages = {"tenant_id": tenant_id, "message_ids": list(message_ids)}
    rows = await tx.rows(_QUERIES["read_revisions"], **messages)
    await tx.insert(_QUERIES["record_extracted"], tenant_id, [{**row, "extractor": extractor} for row in rows])
    await tx.execute(_QUERIES["delete_failures"], **messages)


async def read_due(tx: Transaction, tenant_id: UUID, queued: Sequence[MessageRow], policy: Policy) -> list[DueMessage]:
    """Read leased messages, in order, with the time zones of their people."""
    ids = [one["message_id"] for one in queued if one["kind"] != "purged"]
    rows = await tx.rows(_QUERIES["read_messages"], tenant_id=tenant_id, message_ids=ids)
    revisions = {row["message_id"]: row["revision"] for row in rows}
    by_id = {row["message_id"]: row for row in rows if policy.extraction != "off" and _counts(policy, row)}
    subject_ids = {row["subject_id"] for row in by_id.values()}
    zones = await _zones(tx, tenant_id, subject_ids, policy)
    wishes = await _preferences(tx, tenant_id, [id_ for id_ in subject_ids if id_ is not None])
    by_id = {id_: row for id_, row in by_id.items() if wishes.get(row["subject_id"]) != _NO_EXTRACTION}
    neighbours = await _read_neighbours(tx, tenant_id, [row for row in by_id.values() if row["role"] in _PEOPLE])
    return [
        DueMessage(
            message_id=one["message_id"],
            kind=one["kind"],
            change_time=one["change_time"],
            row=(row := by_id.get(one["message_id"])),
            revision=revisions.get(one["message_id"], 0),
            zone=policy.time_zone if row is None else zones[row["subject_id"]],
            is_exempt=row is not None and wishes.get(row["subject_id"]) == _NO_MODEL,
            neighbours=neighbours.get(one["message_id"]),
        )
        for one in queued
    ]


async def _read_neighbours(tx: Transaction, tenant_id: UUID, rows: Iterable[Record]) -> dict[UUID, Neighbours]:
    """Read what stands around people's messages, by their ids."""
    by_session: dict[str, list[Record]] = {}
    for row in rows:
        by_session.setdefault(row["session_id"], []).append(row)
    found: dict[UUID, Neighbours] = {}
    for session_id, session_rows in by_session.items():
        sequences = {
            row["sequence"] + distance for row in session_rows for distance in range(-_NEIGHBOURS, _NEIGHBOURS + 1)
        }
        around = await tx.rows(
            _QUERIES["read_neighbours"],
            tenant_id=tenant_id,
            session_id=session_id,
            sequences=sorted(sequences),
            max_characters=_MAX_STATEMENT_CHARACTERS,
        )
        by_sequence = {row["sequence"]: row for row in around}
        found |= {row["message_id"]: _neighbours_of(row, by_sequence) for row in session_rows}
    return found


def _neighbours_of(row: Record, by_sequence: Mapping[int, Record]) -> Neighbours:
    before = by_sequence.get(row["sequence"] - 1)
    previous = _person_before(row, by_sequence)
    # "Forget that" stays said where messages between are deleted.
    later = (by_sequence.get(row["sequence"] + distance) for distance in range(1, _NEIGHBOURS + 1))
    following = next((one for one in later if one is not None and _is_of_person(one, row)), None)
    is_answer = before is not None and before["role"] == "assistant" and not before["pending_approval"]
    text = "" if following is None or following["pending_approval"] else following["content"]
    return Neighbours(
        answered=before if is_answer and _is_answer_to(row, by_sequence) else None,
        previous_id=None if previous is None else previous["message_id"],
        following_text=text if len(text) <= _MAX_SHORT_CHARACTERS else "",
    )


def _person_before(row: Record, by_sequence: Mapping[int, Record]) -> Record | None:
    """Return the last message of the person before one of theirs; None behind a gap."""
    for distance in range(1, _NEIGHBOURS + 1):
        other = by_sequence.get(row["sequence"] - distance)
        if other is None or _is_of_person(other, row):
            return other
    return None


def _is_answer_to(row: Record, by_sequence: Mapping[int, Record]) -> bool:
    """Return whether an assistant that spoke right before a person's message answered that person alone.

    It answered those who spoke since it spoke before; before the first one it can only mean the next.
    """
    is_asked = False
    for distance in range(2, _NEIGHBOURS + 1):
        sequence = row["sequence"] - distance
        if sequence < 1:
            return True
        other = by_sequence.get(sequence)
        if other is None or (other["role"] in _PEOPLE and not _is_of_person(other, row)):
            return False
        if is_asked and other["role"] == "assistant":
            return True
        is_asked |= other["role"] in _PEOPLE
    return is_asked


def _is_of_person(one: Record, row: Record) -> bool:
    """Return whether a message is of the person of another one."""
    return one["role"] in _PEOPLE and (one["subject_id"], one["name"]) == (row["subject_id"], row["name"])


async def _queue_answer(tx: Transaction, tenant_id: UUID, row: MessageRow, policy: Policy, *, at: datetime) -> None:
    """Queue a changed statement of an assistant with the short message behind it, which may confirm it."""
    if row["role"] != "assistant" or policy.extraction == "off":
        return
    answer_id = await tx.value(
        _QUERIES["find_answer"],
        tenant_id=tenant_id,
        session_id=row["session_id"],
        sequence=row["sequence"] + 1,
        max_characters=_MAX_ANSWER_CHARACTERS,
    )
    if answer_id is not None:
        await _queue(tx, tenant_id, row["session_id"], [row["message_id"], answer_id], "changed", due_time=at, at=at)


async def queue_changed(tx: Transaction, tenant_id: UUID, session_id: str, message_id: UUID, *, at: datetime) -> None:
    """Queue a message at once whose facts may be of a text that it had before."""
    await _queue(tx, tenant_id, session_id, [message_id], "changed", due_time=at, at=at)


async def note_deleted(tx: Transaction, tenant_id: UUID, session_id: str, message_ids: Sequence[UUID]) -> None:
    """Queue messages of a session that no longer count, if memories were made of them or they are queued."""
    rows = await _find_extracted(tx, tenant_id, message_ids)
    await _queue_at_once(tx, tenant_id, session_id, rows, "changed")


async def note_deleted_session(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Queue the messages of a session that is deleted; before their positions are."""
    # What was proposed may wait in a former space; a session of the same id in another space is not this one.
    async with tx.reading_all_spaces():
        proposed = await tx.rows(_QUERIES["find_sources_of_proposals"], tenant_id=tenant_id)
    rows = await tx.rows(
        _QUERIES["find_extracted_of_session"],
        tenant_id=tenant_id,
        session_id=session_id,
        proposed_ids=[row["source_id"] for row in proposed],
    )
    await _queue_at_once(tx, tenant_id, session_id, rows, "changed")


async def note_purged(tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID]) -> None:
    """Queue messages that are purged, if memories were made of them or they are queued."""
    rows = await _find_extracted(tx, tenant_id, message_ids)
    await _queue_at_once(tx, tenant_id, _PURGED, rows, "purged")
    for name in ("purge_extracted", "delete_failures"):
        await tx.execute(_QUERIES[name], tenant_id=tenant_id, message_ids=list(message_ids))


async def _find_extracted(tx: Transaction, tenant_id: UUID, message_ids: Sequence[UUID]) -> list[Record]:
    """Find messages that memories were made of or that are queued; what was proposed may wait in a former space."""
    async with tx.reading_all_spaces():
        return await tx.rows(_QUERIES["find_extracted"], tenant_id=tenant_id, message_ids=list(message_ids))


async def _queue_at_once(tx: Transaction, tenant_id: UUID, session_id: str, rows: Iterable[Record], kind: str) -> None:
    if ids := sorted({row["message_id"] for row in rows}):
        at = now()
        await _queue(tx, tenant_id, session_id, ids, kind, due_time=at, at=at)


async def _queue(
    tx: Transaction,
    tenant_id: UUID,
    session_id: str,
    message_ids: Sequence[UUID],
    kind: str,
    *,
    due_time: datetime,
    at: datetime,
    max_count: int = 1,
) -> None:
    # The session first: its lock keeps an extractor from taking it off the queue.
    await tx.execute(
        _QUERIES["queue_session"],
        tenant_id=tenant_id,
        session_id=session_id,
        count=len(message_ids),
        due_time=due_time,
        max_count=max_count,
        at=at,
    )
    values = {"session_id": session_id, "kind": kind, "change_time": at}
    await tx.insert(_QUERIES["queue_messages"], tenant_id, [{"message_id": id_, **values} for id_ in message_ids])


async def _zones(
    tx: Transaction, tenant_id: UUID, subject_ids: Iterable[str | None], policy: Policy
) -> dict[str | None, str]:
    """Return the time zones of people by their ids: their own, else the tenant's."""
    zones: dict[str | None, str] = {}
    for subject_id in subject_ids:
        zone = None if subject_id is None else await read_zone_of_subject(tx, tenant_id, subject_id)
        zones[subject_id] = policy.time_zone if zone is None else str(zone)
    return zones


async def _preferences(tx: Transaction, tenant_id: UUID, subject_ids: Sequence[str]) -> dict[str | None, str]:
    """Return what people's preference "extraction" says, as JSON texts by their ids."""
    if not subject_ids:
        return {}
    rows = await tx.rows(_QUERIES["read_extraction_preferences"], tenant_id=tenant_id, subject_ids=subject_ids)
    return {row["subject_id"]: row["value"] for row in rows}


def _counts(policy: Policy, row: MessageRow) -> bool:
    """Return whether extractors read a message."""
    is_text = not row["pending_approval"] and bool(row["content"].strip())
    return is_text and row["role"] in roles_of(policy)


def roles_of(policy: Policy) -> tuple[str, ...]:
    """Return the roles whose messages count."""
    return policy.extraction_roles or _PEOPLE
