"""Sessions in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein.session.v1 import session_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.errors import RevisionStale, TransactionConflict
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_kit.rpc.row_times import read_past_time
from skein_session.errors import SessionArchived, SessionExists, SessionNotFound
from skein_session.sessions import convert as wire
from skein_session.sessions.deletion import delete_session_rows
from skein_session.sessions.lifecycle import SessionState
from skein_session.sessions.listing import ListCursor, SessionFilter
from skein_session.sessions.participants import inherit_participants
from skein_session.tombstones import store as tombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.filters.json_properties import Property
    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.identity.identity_token import Caller
    from skein_kit.quotas.store import QuotaCounter
    from skein_session.sessions.model import Change, Draft

_QUERIES = Queries.of("skein_session")
# Sessions that one page of a list looks at; a property that fewer have is rare.
_WINDOW = 1000
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class StateTransition:
    """A way from one state to another, and what is noted of it; None leaves a note as it is."""

    verb: Callable[[SessionState], SessionState]
    # The session's update_time is at least this.
    at: datetime
    archive_time: datetime | None = None
    end_time: datetime | None = None
    end_reason: str | None = None
    summary: str | None = None


class SessionStore:
    """Sessions, each with the rules that only the database can keep."""

    def __init__(self, database: Database, requests: IdempotencyStore, quotas: QuotaCounter) -> None:
        self._database = database
        self._requests = requests
        self._quotas = quotas

    async def create(self, who: Caller, once: IdempotencyKey, draft: Draft, at: datetime) -> pb.CreateSessionResponse:
        """Open a session, or return the answer that its request_id has."""
        tenant_id = who.tenant()
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.CreateSessionResponse.FromString(first)
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
                created_by=who.principal,
            )
            # Tombstones afterwards: a session that was being purged has been waited for.
            if row is None or await tombstones.purged(tx, tenant_id, [tombstones.of_session(draft.session_id)]):
                raise SessionExists(session_id=draft.session_id)
            await self._keep_properties(tx, tenant_id, draft.session_id, draft.properties)
            response = pb.CreateSessionResponse(session=wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"sessions": 1})
            return response

    async def get(self, tenant_id: UUID, session_id: str) -> pb.Session:
        """Read a session."""
        async with self._database.tenant(tenant_id, reads=True) as tx:
            row = await self._row(tx, tenant_id, session_id)
        return wire.session(row)

    async def page(self, tenant_id: UUID, request: pb.ListSessionsRequest, at: datetime) -> pb.ListSessionsResponse:
        """Look at a window of sessions, newest update first, and answer with those of them that are asked for."""
        wanted = SessionFilter.of(request)
        walk = ListCursor.of(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        async with self._database.tenant(tenant_id, reads=True) as tx:
            holders = await self._holders(tx, tenant_id, wanted)
            rows = await self._rows(tx, tenant_id, wanted, walk, holders, size + 1)
            next_walk: ListCursor | None = None
            passing = [row for row in rows if row["session_id"] is not None]
            sessions = fit_items(wire.session(row) for row in passing[:size])
            edge = rows[0]
            if len(passing) > len(sessions):
                last = passing[len(sessions) - 1]
                next_walk = walk.onward(last["update_time"], last["session_id"], top=edge["top_time"], at=at)
            elif edge["walked_count"] == _WINDOW:
                next_walk = walk.onward(edge["last_time"], edge["last_id"], top=edge["top_time"], at=at)
            elif walk.after is not None:
                again = walk.again()
                if (await self._rows(tx, tenant_id, wanted, again, holders, 1))[0]["walked_count"]:
                    next_walk = again
        token = "" if next_walk is None else write_token(next_walk.place(), tenant_id, request)
        return pb.ListSessionsResponse(sessions=sessions, next_page_token=token)

    async def update(self, who: Caller, once: IdempotencyKey, change: Change, at: datetime) -> pb.UpdateSessionResponse:
        """Change a session, or return the answer that its request_id has."""
        tenant_id = who.tenant()
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.UpdateSessionResponse.FromString(first)
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
                current = await self._row(tx, tenant_id, change.session_id)
                if change.revision not in (0, current["revision"]):
                    raise RevisionStale(given=change.revision, current=current["revision"])
                wire.state_of(current).must_be_open(session_id=change.session_id)
                # It was brought back a moment ago.
                raise TransactionConflict
            if row["has_uninherited"]:
                # A long session's others follow in the worker's rounds.
                await inherit_participants(tx, tenant_id, session_id=change.session_id)
            if "metadata" in change.fields:
                await tx.execute(
                    _QUERIES["delete_session_properties"], tenant_id=tenant_id, session_id=change.session_id
                )
                await self._keep_properties(tx, tenant_id, change.session_id, change.properties)
            response = pb.UpdateSessionResponse(session=wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
            return response

    async def end(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.EndSessionRequest, at: datetime
    ) -> pb.EndSessionResponse:
        """Close a session; one that is closed already comes back as it is, a repeated request gets its first answer."""
        end_time = read_past_time(request, "end_time", at) if request.keep_times else None
        move = StateTransition(
            SessionState.ended,
            end_time or at,
            end_time=end_time or at,
            end_reason=request.reason or None,
            summary=request.summary or None,
        )
        return await self._move(
            tenant_id, once, request.session_id, move, lambda session: pb.EndSessionResponse(session=session)
        )

    async def archive(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.ArchiveSessionRequest, at: datetime
    ) -> pb.ArchiveSessionResponse:
        """Put a session away; one that is away already comes back as it is."""
        archive_time = read_past_time(request, "archive_time", at) if request.keep_times else None
        move = StateTransition(SessionState.archived, archive_time or at, archive_time=archive_time or at)
        return await self._move(
            tenant_id, once, request.session_id, move, lambda session: pb.ArchiveSessionResponse(session=session)
        )

    async def unarchive(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.UnarchiveSessionRequest, at: datetime
    ) -> pb.UnarchiveSessionResponse:
        """Bring a session back as it was; one that is not away comes back as it is."""
        move = StateTransition(SessionState.unarchived, at)
        return await self._move(
            tenant_id, once, request.session_id, move, lambda session: pb.UnarchiveSessionResponse(session=session)
        )

    async def delete(
        self, tenant_id: UUID, once: IdempotencyKey, session_id: str, at: datetime
    ) -> pb.DeleteSessionResponse:
        """Take a session, its messages and what search knows of them away, all or nothing, once for each request."""
        response = pb.DeleteSessionResponse()
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return response
            gone = await delete_session_rows(tx, tenant_id, session_id, at)
            if gone is None:
                raise SessionNotFound(session_id=session_id)
            await self._quotas.charge(tx, tenant_id, gone)
        return response

    async def _move(
        self,
        tenant_id: UUID,
        once: IdempotencyKey,
        session_id: str,
        move: StateTransition,
        respond: Callable[[pb.Session], Response],
    ) -> Response:
        """Bring a session into the state that the move makes of its own, or return the answer that the request has."""
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return type(respond(pb.Session())).FromString(first)
            row = await tx.row(_QUERIES["lock_session"], tenant_id=tenant_id, session_id=session_id)
            if row is None:
                raise SessionNotFound(session_id=session_id)
            standing = wire.state_of(row)
            moved = move.verb(standing)
            if moved != standing:
                if row["store_time"] is not None:
                    raise SessionArchived(session_id=session_id)
                locked = row
                row = (
                    await tx.row(
                        _QUERIES["move_session"],
                        tenant_id=tenant_id,
                        session_id=session_id,
                        state=moved.state,
                        archived_state=moved.archived_state,
                        archive_time=move.archive_time,
                        end_time=move.end_time,
                        end_reason=move.end_reason,
                        summary=move.summary,
                        at=move.at,
                    )
                    or locked
                )
            response = respond(wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
            return response

    @staticmethod
    async def _keep_properties(
        tx: Transaction, tenant_id: UUID, session_id: str, properties: Iterable[Property]
    ) -> None:
        rows = [{"path": path, "value": value, "session_id": session_id} for path, value in sorted(properties)]
        await tx.insert(_QUERIES["insert_session_properties"], tenant_id, rows)

    @staticmethod
    async def _row(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
        row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
        if row is None:
            raise SessionNotFound(session_id=session_id)
        return row

    @staticmethod
    async def _holders(tx: Transaction, tenant_id: UUID, wanted: SessionFilter) -> list[str] | None:
        """Return all sessions that have one of the properties asked for, if one is that rare."""
        for path, value in wanted.properties:
            rows = await tx.rows(
                _QUERIES["holders_of_property"], tenant_id=tenant_id, path=path, value=value, count=_WINDOW
            )
            if len(rows) < _WINDOW:
                return [row["session_id"] for row in rows]
        return None

    @staticmethod
    async def _rows(
        tx: Transaction, tenant_id: UUID, wanted: SessionFilter, walk: ListCursor, holders: list[str] | None, limit: int
    ) -> list[Record]:
        """Return one row at least, which says what was looked at."""
        conditions = {
            **wanted.conditions(),
            **wanted.source(holders),
            "tenant_id": tenant_id,
            "window": _WINDOW,
            "limit": limit,
        }
        if walk.is_again:
            return await tx.rows(
                _QUERIES["list_sessions_again"],
                **conditions,
                floor=walk.top,
                started=walk.started,
                after_id=walk.after_id,
            )
        after_time, after_id = walk.after or (None, None)
        return await tx.rows(_QUERIES["list_sessions"], **conditions, after_time=after_time, after_id=after_id)
