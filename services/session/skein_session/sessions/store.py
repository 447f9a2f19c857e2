"""Sessions in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asyncpg import Record

from skein_kit.calls.call import Call
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.errors import ExternalIdTaken, RevisionStale, TransactionConflict
from skein_kit.filters.json_properties import Property
from skein_kit.policies.store import PolicyCache, shared_policy_cache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text import postings
from skein_kit.search_text.segmentation import segment
from skein_session.errors import AgentStateExists, SessionArchived, SessionExists, SessionNotFound
from skein_session.extractions import store as extractions
from skein_session.sessions.listing import ListCursor, SessionFilter
from skein_session.sessions.model import (
    ACTIVE,
    END_REASON_IDLE,
    SessionChange,
    SessionDraft,
    SessionState,
    Transition,
    columns_of,
    idle_cutoff,
)
from skein_session.tombstones import store as tombstones

_QUERIES = Queries.load("skein_session")
# Sessions that one page of a list scans; a property of fewer sessions is rare.
_SCAN_WINDOW = 1000
# Messages that get the participants of their session in one transaction.
_INHERIT_BATCH = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionScan:
    """Sessions that match a filter, within one window of scanned sessions."""

    rows: list[Record]
    # True when the window ended before the list did.
    is_window_full: bool
    # True when sessions were updated after the first pass began.
    has_second_pass: bool
    newest_update_time: datetime | None
    last_time: datetime | None
    last_id: str
    last_space_id: UUID

    def next_cursor(self, cursor: ListCursor, *, page_length: int, at: datetime) -> ListCursor | None:
        """Return the cursor after the first `page_length` rows; None after the last page."""
        if len(self.rows) > page_length:
            last = self.rows[page_length - 1]
            return cursor.advance(
                last["update_time"],
                last["session_id"],
                last["space_id"],
                newest_update_time=self.newest_update_time,
                at=at,
            )
        if self.is_window_full:
            return cursor.advance(
                self.last_time, self.last_id, self.last_space_id, newest_update_time=self.newest_update_time, at=at
            )
        return cursor.second_pass() if self.has_second_pass else None


class SessionStore:
    """Sessions, with the rules that only the database can keep."""

    def __init__(self, database: Database, quotas: QuotaCounter, policies: PolicyCache) -> None:
        self._database = database
        self._quotas = quotas
        self._policies = policies

    async def create_session(
        self, tx: Transaction, tenant_id: UUID, draft: SessionDraft, *, at: datetime, created_by: str
    ) -> Record:
        """Insert a session. Raises SessionExists and QuotaExceeded."""
        row = await tx.row(
            _QUERIES["insert_session"],
            **columns_of(draft, excluded_field="properties"),
            tenant_id=tenant_id,
            created_by=created_by,
        )
        # After the insert, which has waited for a concurrent purge of the same session.
        if row is None or await tombstones.find_purged(tx, tenant_id, [tombstones.of_session(draft.session_id)]):
            raise SessionExists(session_id=draft.session_id)
        await self._insert_properties(tx, tenant_id, draft.session_id, draft.properties)
        await _insert_title_terms(tx, tenant_id, draft.session_id, draft.title)
        await self._quotas.charge(tx, tenant_id, {"sessions": 1})
        return row

    async def get_session(self, tenant_id: UUID, session_id: str) -> Record:
        """Read a session. Raises SessionNotFound."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await require_session(tx, tenant_id, session_id)

    async def locate(self, request: Any, call: Call) -> None:
        """Narrow a read that names a session to the session's space: several spaces may have the id."""
        session_id = getattr(request, "session_id", "")
        if not session_id:
            return
        tenant_id = caller_of(call).require_tenant()
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            space_id = await tx.value(_QUERIES["space_of_session"], tenant_id=tenant_id, session_id=session_id)
        if space_id is not None:
            call.narrow_to(space_id)

    async def list_sessions(
        self, tenant_id: UUID, session_filter: SessionFilter, cursor: ListCursor, *, limit: int
    ) -> SessionScan:
        """Scan one window of sessions, newest update first; return up to `limit` that match the filter."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            session_ids = await self._find_rare_property(tx, tenant_id, session_filter)
            rows = await self._scan(tx, tenant_id, session_filter, cursor, session_ids, limit)
            window_row = rows[0]
            matching_rows = [row for row in rows if row["session_id"] is not None]
            is_window_full = window_row["scanned_count"] == _SCAN_WINDOW
            has_second_pass = False
            if len(matching_rows) < limit and not is_window_full and cursor.after is not None:
                second_pass = await self._scan(tx, tenant_id, session_filter, cursor.second_pass(), session_ids, 1)
                has_second_pass = bool(second_pass[0]["scanned_count"])
        return SessionScan(
            rows=matching_rows,
            is_window_full=is_window_full,
            has_second_pass=has_second_pass,
            newest_update_time=window_row["newest_update_time"],
            last_time=window_row["last_time"],
            last_id=window_row["last_id"],
            last_space_id=window_row["last_space_id"],
        )

    async def update_session(self, tx: Transaction, tenant_id: UUID, change: SessionChange, at: datetime) -> Record:
        """Change a session. Raises SessionNotFound, RevisionStale, SessionHidden and SessionEnded."""
        columns = columns_of(change, excluded_field="properties")
        row = await tx.row(_QUERIES["update_session"], tenant_id=tenant_id, **columns, at=at)
        if row is None:
            current = await require_session(tx, tenant_id, change.session_id)
            if change.revision not in (0, current["revision"]):
                raise RevisionStale(requested=change.revision, current=current["revision"])
            session_state(current).require_open(session_id=change.session_id)
            # A concurrent call has unhidden the session after the update failed.
            raise TransactionConflict
        if row["has_uninherited"]:
            # One batch here; the worker's rounds change the rest of a long session.
            await self._inherit_participants(tx, tenant_id, session_id=change.session_id)
        if "metadata" in change.fields:
            await tx.execute(_QUERIES["delete_session_properties"], tenant_id=tenant_id, session_id=change.session_id)
            await self._insert_properties(tx, tenant_id, change.session_id, change.properties)
        if "title" in change.fields:
            await tx.execute(_QUERIES["delete_title_terms"], tenant_id=tenant_id, session_id=change.session_id)
            await _insert_title_terms(tx, tenant_id, change.session_id, change.title)
        return row

    async def change_state(self, tx: Transaction, tenant_id: UUID, session_id: str, transition: Transition) -> Record:
        """Change a session's state; return its row, unchanged when it has the new state.

        Raises SessionNotFound, SessionHidden and SessionArchived.
        """
        row = await lock_session(tx, tenant_id, session_id)
        state = session_state(row)
        new_state = transition.rule(state)
        if new_state == state:
            return row
        if row["archive_time"] is not None:
            raise SessionArchived(session_id=session_id)
        changed_row = await tx.row(
            _QUERIES["set_session_state"],
            tenant_id=tenant_id,
            session_id=session_id,
            state=new_state.state,
            hidden_state=new_state.hidden_state,
            hide_time=transition.hide_time,
            end_time=transition.end_time,
            end_reason=transition.end_reason,
            summary=transition.summary,
            at=transition.at,
        )
        return changed_row or row

    async def delete_session(self, tx: Transaction, tenant_id: UUID, session_id: str, at: datetime) -> None:
        """Delete a session with its messages. Raises SessionNotFound."""
        charges = await delete_session_rows(tx, tenant_id, session_id, at)
        if charges is None:
            raise SessionNotFound(session_id=session_id)
        await self._quotas.charge(tx, tenant_id, charges)

    async def move_session(
        self, tx: Transaction, tenant_id: UUID, session_id: str, source_id: UUID, target_id: UUID
    ) -> None:
        """Move a session, a deleted one too, with all that refers to it, from the transaction's space to another one.

        Neither revision nor times change. Ledgers with its messages are deleted, so their next text is a first one.
        Raises SessionNotFound, SessionExists and ExternalIdTaken.
        """
        key = {"tenant_id": tenant_id, "session_id": session_id}
        if await tx.row(_QUERIES["lock_session_to_move"], **key) is None:
            raise SessionNotFound(session_id=session_id)
        deleted_count = await tx.execute(
            _QUERIES["purge_ledgers_of_sessions"], tenant_id=tenant_id, session_ids=[session_id]
        )
        await self._quotas.charge(tx, tenant_id, {"session_items": -deleted_count})
        # Rights are today's, so a former version moves too, and a move makes none.
        await tx.stop_history()
        await tx.set_spaces(None)
        taken = {
            "sessions_pkey": SessionExists(session_id=session_id),
            "message_external_ids_pkey": ExternalIdTaken(),
            # A state that an agent put there under the id of no session.
            "agent_states_pkey": AgentStateExists(),
        }
        with translate_constraint_errors(taken):
            await tx.execute(_QUERIES["move_session"], **key, space_id=target_id, source_id=source_id)
        await tx.set_spaces([source_id])

    async def idle_cutoff(self, tx: Transaction, tenant_id: UUID, at: datetime) -> datetime | None:
        """Return the time before which an active session was last used to be idle; None disables idling."""
        policy = await self._policies.get(tx, tenant_id)
        return idle_cutoff(at, policy.session_idle_minutes)

    async def approval_cutoff(self, tx: Transaction, tenant_id: UUID, at: datetime) -> datetime:
        """Return the time before which what waits for approval was last changed to be expired."""
        return at - timedelta(days=(await self._policies.get(tx, tenant_id)).approval_expiry_days)

    async def end_idle(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """End up to `count` idle sessions of a tenant; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            cutoff = await self.idle_cutoff(tx, tenant_id, at)
            if cutoff is None:
                return 0
            return await tx.execute(
                _QUERIES["end_idle_sessions"], tenant_id=tenant_id, idle_cutoff=cutoff, at=at, count=count
            )

    async def end_if_idle(self, tenant_id: UUID, session_id: str, at: datetime) -> None:
        """End one session if it is idle for too long."""
        async with self._database.transaction(tenant_id) as tx:
            cutoff = await self.idle_cutoff(tx, tenant_id, at)
            row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
            if cutoff is None or row is None or row["state"] != ACTIVE or row["active_time"] > cutoff:
                return
            transition = Transition(rule=SessionState.end, at=at, end_time=at, end_reason=END_REASON_IDLE)
            await self.change_state(tx, tenant_id, session_id, transition)

    async def inherit_participants(self, tenant_id: UUID, *, count: int) -> tuple[int, bool]:
        """Give up to `count` messages the agent and subject of their session.

        Return how many changed, and whether there may be more.
        """
        total_count, remaining = 0, count
        while remaining > 0:
            async with self._database.transaction(tenant_id) as tx:
                counts = await self._inherit_participants(tx, tenant_id, count=min(remaining, _INHERIT_BATCH))
            if counts is None:
                return total_count, False
            read_count, changed_count = counts
            total_count += changed_count
            # At least one, because a session whose messages are all deleted costs a transaction too.
            remaining -= max(1, read_count)
        return total_count, True

    @staticmethod
    async def _inherit_participants(
        tx: Transaction, tenant_id: UUID, *, session_id: str | None = None, count: int = _INHERIT_BATCH
    ) -> tuple[int, int] | None:
        """Give up to `count` messages of one session its participants; return how many were read, and changed.

        None when no session has such messages, or other transactions lock those that have.
        """
        session = await tx.row(_QUERIES["next_session_to_inherit"], tenant_id=tenant_id, session_id=session_id)
        if session is None:
            return None
        session_key = {"tenant_id": tenant_id, "session_id": session["session_id"]}
        order = await tx.rows(
            _QUERIES["order_after"], **session_key, sequence=session["inherited_sequence"], limit=count
        )
        values = {
            "tenant_id": tenant_id,
            "message_ids": [row["message_id"] for row in order],
            "agent_id": session["agent_id"],
            "subject_id": session["subject_id"],
        }
        changed_count = 0
        if order:
            changed_count = await tx.execute(_QUERIES["inherit_messages"], **values)
            await tx.execute(_QUERIES["inherit_documents"], **values)
        inherited_sequence = order[-1]["sequence"] if len(order) == count else session["last_sequence"]
        await tx.execute(_QUERIES["mark_inherited"], **session_key, sequence=inherited_sequence)
        return len(order), changed_count

    @staticmethod
    async def _insert_properties(
        tx: Transaction, tenant_id: UUID, session_id: str, properties: Iterable[Property]
    ) -> None:
        rows = [{"path": path, "value": value, "session_id": session_id} for path, value in sorted(properties)]
        await tx.insert(_QUERIES["insert_session_properties"], tenant_id, rows)

    @staticmethod
    async def _find_rare_property(tx: Transaction, tenant_id: UUID, session_filter: SessionFilter) -> list[str] | None:
        """Return all sessions that have a rare property of the filter; None when no property is rare."""
        for path, value in session_filter.properties:
            rows = await tx.rows(
                _QUERIES["sessions_with_property"], tenant_id=tenant_id, path=path, value=value, count=_SCAN_WINDOW
            )
            if len(rows) < _SCAN_WINDOW:
                return [row["session_id"] for row in rows]
        return None

    @staticmethod
    async def _scan(
        tx: Transaction,
        tenant_id: UUID,
        session_filter: SessionFilter,
        cursor: ListCursor,
        session_ids_with_property: list[str] | None,
        limit: int,
    ) -> list[Record]:
        """Return the matching sessions of a window; at least one row, which describes the window."""
        values = {
            **session_filter.conditions(),
            **session_filter.scan_source(session_ids_with_property),
            "tenant_id": tenant_id,
            "window": _SCAN_WINDOW,
            "limit": limit,
        }
        if cursor.is_second_pass:
            return await tx.rows(
                _QUERIES["list_sessions_second_pass"],
                **values,
                updated_after=cursor.newest_update_time,
                created_until=cursor.start_time,
                after_id=cursor.after_id,
                after_space_id=cursor.after_space_id,
            )
        after_time, after_id, after_space_id = cursor.after or (None, None, None)
        return await tx.rows(
            _QUERIES["list_sessions"],
            **values,
            after_time=after_time,
            after_id=after_id,
            after_space_id=after_space_id,
        )


def session_state(row: Record) -> SessionState:
    """Return the state of a row of session.sessions."""
    return SessionState(row["state"], row["hidden_state"])


async def require_session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    """Read a session that is not deleted. Raises SessionNotFound."""
    row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
    if row is None:
        raise SessionNotFound(session_id=session_id)
    return row


async def require_unarchived_session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    """Read a session whose messages are in the tables. Raises SessionNotFound and SessionArchived."""
    row = await require_session(tx, tenant_id, session_id)
    if row["archive_time"] is not None:
        raise SessionArchived(session_id=session_id)
    return row


async def lock_session(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
    """Read a session that is not deleted and lock its row against every change. Raises SessionNotFound."""
    row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
    if row is None:
        raise SessionNotFound(session_id=session_id)
    return row


async def lock_session_shared(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Lock a session against deletion. Raises SessionNotFound."""
    if await tx.row(_QUERIES["lock_session_shared"], tenant_id=tenant_id, session_id=session_id) is None:
        raise SessionNotFound(session_id=session_id)


async def _insert_title_terms(tx: Transaction, tenant_id: UUID, session_id: str, title: str | None) -> None:
    if title is None:
        return
    language = (await shared_policy_cache(tx.database).get(tx, tenant_id)).search_language
    rows = await tx.rows(_QUERIES["analyse_title"], title=segment(title), language=language)
    terms = [row["lexeme"] for row in rows if len(row["lexeme"]) <= postings.MAX_TERM_CHARACTERS]
    await tx.insert(
        _QUERIES["insert_title_terms"], tenant_id, [{"term": term, "session_id": session_id} for term in terms]
    )


async def delete_session_rows(tx: Transaction, tenant_id: UUID, session_id: str, at: datetime) -> dict[str, int] | None:
    """Delete a session, its messages and items, and their rows in the search index.

    Return the change of the tenant's row counts, by kind; None when the session is deleted already.
    """
    session_key = {"tenant_id": tenant_id, "session_id": session_id}
    # First, because its lock keeps other transactions from adding or deleting messages.
    if await tx.row(_QUERIES["delete_session"], **session_key, at=at) is None:
        return None
    await tx.execute(_QUERIES["delete_session_properties"], **session_key)
    await tx.execute(_QUERIES["delete_title_terms"], **session_key)
    items = await tx.execute(_QUERIES["delete_items_of_session"], **session_key)
    charges = {"sessions": -1, "session_items": -items}
    archived_row = await tx.row(_QUERIES["get_archived_session"], **session_key)
    if archived_row is not None:
        charges["messages"] = -archived_row["message_count"]
    await extractions.note_deleted_session(tx, tenant_id, session_id)
    ids = await tx.row(_QUERIES["id_range_of_session"], **session_key)
    if ids is not None and ids["lowest"] is not None:
        messages = await tx.execute(
            _QUERIES["delete_messages_of_session"], **session_key, lowest=ids["lowest"], highest=ids["highest"]
        )
        await tx.execute(_QUERIES["delete_order_of_session"], **session_key)
        await postings.subtract_session_counts(tx, tenant_id, session_id)
        await tx.execute(_QUERIES["delete_documents_of_session"], **session_key)
        charges["messages"] = charges.get("messages", 0) - messages
    return charges
