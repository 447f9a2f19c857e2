"""Sessions in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.errors import RevisionStale, TransactionConflict
from skein_session.errors import SessionArchived, SessionExists, SessionNotFound
from skein_session.sessions import convert
from skein_session.sessions.lifecycle import SessionState
from skein_session.sessions.participants import inherit_participants
from skein_session.sessions.rows import delete_session_rows, lock_session, require_session
from skein_session.tombstones import store as tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.filters.json_properties import Property
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller
    from skein_kit.quotas.store import QuotaCounter
    from skein_session.idempotency import SessionIdempotencyStore
    from skein_session.sessions.lifecycle import Transition
    from skein_session.sessions.listing import ListCursor, SessionFilter
    from skein_session.sessions.model import SessionChange, SessionDraft

_QUERIES = Queries.of("skein_session")
# Sessions that one page of a list scans; a property of fewer sessions is rare.
_SCAN_WINDOW = 1000


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

    def next_cursor(self, cursor: ListCursor, *, page_length: int, at: datetime) -> ListCursor | None:
        """Return the cursor after the first `page_length` rows; None after the last page."""
        if len(self.rows) > page_length:
            last = self.rows[page_length - 1]
            return cursor.advance(
                last["update_time"], last["session_id"], newest_update_time=self.newest_update_time, at=at
            )
        if self.is_window_full:
            return cursor.advance(self.last_time, self.last_id, newest_update_time=self.newest_update_time, at=at)
        return cursor.second_pass() if self.has_second_pass else None


class SessionStore:
    """Sessions, with the rules that only the database can keep."""

    def __init__(self, database: Database, idempotency: SessionIdempotencyStore, quotas: QuotaCounter) -> None:
        self._database = database
        self._idempotency = idempotency
        self._quotas = quotas

    async def create_session(
        self, caller: Caller, key: IdempotencyKey, draft: SessionDraft, at: datetime
    ) -> pb.CreateSessionResponse:
        """Create a session, or return the saved response of a repeated request. Raises SessionExists."""
        tenant_id = caller.tenant()
        async with self._database.transaction(tenant_id) as tx:
            saved = (await self._idempotency.claim(tx, tenant_id, key)).saved_response
            if saved is not None:
                return pb.CreateSessionResponse.FromString(saved)
            row = await tx.row(
                _QUERIES["insert_session"],
                tenant_id=tenant_id,
                session_id=draft.session_id,
                title=draft.title,
                state=draft.state,
                session_type=draft.session_type,
                subject_id=draft.subject_id,
                agent_id=draft.agent_id,
                metadata=draft.metadata,
                summary=draft.summary,
                create_time=draft.create_time,
                update_time=draft.update_time,
                active_time=max(draft.create_time, at),
                created_by=caller.principal,
            )
            # After the insert, which has waited for a concurrent purge of the same session.
            if row is None or await tombstones.find_purged(tx, tenant_id, [tombstones.of_session(draft.session_id)]):
                raise SessionExists(session_id=draft.session_id)
            await self._insert_properties(tx, tenant_id, draft.session_id, draft.properties)
            response = pb.CreateSessionResponse(session=convert.session(row))
            await self._idempotency.save_response(tx, tenant_id, key, response)
            await self._quotas.charge(tx, tenant_id, {"sessions": 1})
            return response

    async def get_session(self, tenant_id: UUID, session_id: str) -> Record:
        """Read a session. Raises SessionNotFound."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await require_session(tx, tenant_id, session_id)

    async def list_sessions(
        self, tenant_id: UUID, session_filter: SessionFilter, cursor: ListCursor, *, limit: int
    ) -> SessionScan:
        """Scan one window of sessions, newest update first; return up to `limit` that match the filter."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            session_ids = await self._find_rare_property(tx, tenant_id, session_filter)
            rows = await self._scan(tx, tenant_id, session_filter, cursor, session_ids, limit)
            edge = rows[0]
            matching = [row for row in rows if row["session_id"] is not None]
            is_window_full = edge["scanned_count"] == _SCAN_WINDOW
            has_second_pass = False
            if len(matching) < limit and not is_window_full and cursor.after is not None:
                second_pass = await self._scan(tx, tenant_id, session_filter, cursor.second_pass(), session_ids, 1)
                has_second_pass = bool(second_pass[0]["scanned_count"])
        return SessionScan(
            rows=matching,
            is_window_full=is_window_full,
            has_second_pass=has_second_pass,
            newest_update_time=edge["newest_update_time"],
            last_time=edge["last_time"],
            last_id=edge["last_id"],
        )

    async def update_session(
        self, tenant_id: UUID, key: IdempotencyKey, change: SessionChange, at: datetime
    ) -> pb.UpdateSessionResponse:
        """Change a session, or return the saved response of a repeated request.

        Raises SessionNotFound, RevisionStale, SessionHidden and SessionEnded.
        """
        async with self._database.transaction(tenant_id) as tx:
            saved = (await self._idempotency.claim(tx, tenant_id, key)).saved_response
            if saved is not None:
                return pb.UpdateSessionResponse.FromString(saved)
            row = await tx.row(
                _QUERIES["update_session"],
                tenant_id=tenant_id,
                session_id=change.session_id,
                revision=change.revision,
                fields=sorted(change.fields),
                title=change.title,
                state=change.state,
                session_type=change.session_type,
                subject_id=change.subject_id,
                agent_id=change.agent_id,
                metadata=change.metadata,
                summary=change.summary,
                at=at,
            )
            if row is None:
                current = await require_session(tx, tenant_id, change.session_id)
                if change.revision not in (0, current["revision"]):
                    raise RevisionStale(given=change.revision, current=current["revision"])
                convert.session_state(current).require_open(session_id=change.session_id)
                # A concurrent call has unhidden the session after the update failed.
                raise TransactionConflict
            if row["has_uninherited"]:
                # One batch here; the worker's rounds change the rest of a long session.
                await inherit_participants(tx, tenant_id, session_id=change.session_id)
            if "metadata" in change.fields:
                await tx.execute(
                    _QUERIES["delete_session_properties"], tenant_id=tenant_id, session_id=change.session_id
                )
                await self._insert_properties(tx, tenant_id, change.session_id, change.properties)
            response = pb.UpdateSessionResponse(session=convert.session(row))
            await self._idempotency.save_response(tx, tenant_id, key, response)
            return response

    async def end_session(
        self, tenant_id: UUID, key: IdempotencyKey, session_id: str, transition: Transition
    ) -> pb.EndSessionResponse:
        """End a session, or return the saved response; an ended session is unchanged.

        Raises SessionNotFound, SessionHidden and SessionArchived.
        """
        async with self._database.transaction(tenant_id) as tx:
            saved = (await self._idempotency.claim(tx, tenant_id, key)).saved_response
            if saved is not None:
                return pb.EndSessionResponse.FromString(saved)
            row = await self._transition(tx, tenant_id, session_id, SessionState.end, transition)
            response = pb.EndSessionResponse(session=convert.session(row))
            await self._idempotency.save_response(tx, tenant_id, key, response)
            return response

    async def hide_session(
        self, tenant_id: UUID, key: IdempotencyKey, session_id: str, transition: Transition
    ) -> pb.ArchiveSessionResponse:
        """Hide a session, or return the saved response; a hidden session is unchanged. Raises SessionNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            saved = (await self._idempotency.claim(tx, tenant_id, key)).saved_response
            if saved is not None:
                return pb.ArchiveSessionResponse.FromString(saved)
            row = await self._transition(tx, tenant_id, session_id, SessionState.hide, transition)
            response = pb.ArchiveSessionResponse(session=convert.session(row))
            await self._idempotency.save_response(tx, tenant_id, key, response)
            return response

    async def unhide_session(
        self, tenant_id: UUID, key: IdempotencyKey, session_id: str, transition: Transition
    ) -> pb.UnarchiveSessionResponse:
        """Unhide a session, or return the saved response; a session that is not hidden is unchanged.

        Raises SessionNotFound and SessionArchived.
        """
        async with self._database.transaction(tenant_id) as tx:
            saved = (await self._idempotency.claim(tx, tenant_id, key)).saved_response
            if saved is not None:
                return pb.UnarchiveSessionResponse.FromString(saved)
            row = await self._transition(tx, tenant_id, session_id, SessionState.unhide, transition)
            response = pb.UnarchiveSessionResponse(session=convert.session(row))
            await self._idempotency.save_response(tx, tenant_id, key, response)
            return response

    async def delete_session(
        self, tenant_id: UUID, key: IdempotencyKey, session_id: str, at: datetime
    ) -> pb.DeleteSessionResponse:
        """Delete a session with its messages, once for each request. Raises SessionNotFound."""
        response = pb.DeleteSessionResponse()
        async with self._database.transaction(tenant_id) as tx:
            write = await self._idempotency.claim(tx, tenant_id, key, response=response.SerializeToString())
            if write.saved_response is not None:
                return response
            charges = await delete_session_rows(tx, tenant_id, session_id, at)
            if charges is None:
                raise SessionNotFound(session_id=session_id)
            await self._quotas.charge(tx, tenant_id, charges)
        return response

    @staticmethod
    async def _transition(
        tx: Transaction,
        tenant_id: UUID,
        session_id: str,
        rule: Callable[[SessionState], SessionState],
        transition: Transition,
    ) -> Record:
        """Change a session's state by a rule of its lifecycle; return its row."""
        row = await lock_session(tx, tenant_id, session_id)
        state = convert.session_state(row)
        new_state = rule(state)
        if new_state == state:
            return row
        if row["store_time"] is not None:
            raise SessionArchived(session_id=session_id)
        changed = await tx.row(
            _QUERIES["set_session_state"],
            tenant_id=tenant_id,
            session_id=session_id,
            state=new_state.state,
            archived_state=new_state.archived_state,
            archive_time=transition.archive_time,
            end_time=transition.end_time,
            end_reason=transition.end_reason,
            summary=transition.summary,
            at=transition.at,
        )
        return changed or row

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
            )
        after_time, after_id = cursor.after or (None, None)
        return await tx.rows(_QUERIES["list_sessions"], **values, after_time=after_time, after_id=after_id)
