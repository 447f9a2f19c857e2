"""Sessions in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import RevisionStale
from skein_kit.pages import fitting, page_size, read_token, write_token
from skein_kit.requests import Requests
from skein_kit.sql import Queries
from skein_session import wire
from skein_session.errors import SessionEnded, SessionExists, SessionNotFound
from skein_session.sessions import Change, Draft, Walk

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database import Database, Transaction
    from skein_kit.identity import Caller
    from skein_kit.quotas import Quotas
    from skein_kit.requests import Once

_QUERIES = Queries.of("skein_session")


class SessionStore:
    """Sessions, each with the rules that only the database can keep."""

    def __init__(self, database: Database, requests: Requests, quotas: Quotas) -> None:
        self._database = database
        self._requests = requests
        self._quotas = quotas

    async def create(self, who: Caller, once: Once, draft: Draft, at: datetime) -> pb.CreateSessionResponse:
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
                update_time=max(draft.create_time, at),
                created_by=who.principal,
            )
            if row is None:
                raise SessionExists(session_id=draft.session_id)
            response = pb.CreateSessionResponse(session=wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"sessions": 1})
            return response

    async def get(self, tenant_id: UUID, session_id: str) -> pb.Session:
        """Read a session."""
        async with self._database.tenant(tenant_id) as tx:
            row = await self._row(tx, tenant_id, session_id)
        return wire.session(row)

    async def page(self, tenant_id: UUID, request: pb.ListSessionsRequest) -> pb.ListSessionsResponse:
        """Read a page of sessions, newest update first."""
        walk = Walk.of(read_token(request.page_token, tenant_id, request))
        size = page_size(request.page_size)
        async with self._database.tenant(tenant_id) as tx:
            rows = await self._rows(tx, tenant_id, request, walk, size + 1)
            next_walk: Walk | None = None
            sessions = fitting(wire.session(row) for row in rows[:size])
            if len(rows) > len(sessions):
                next_walk = walk.onward(rows[: len(sessions)])
            elif walk.after is not None and await self._rows(tx, tenant_id, request, walk.again(), 1):
                next_walk = walk.again()
        token = "" if next_walk is None else write_token(next_walk.place(), tenant_id, request)
        return pb.ListSessionsResponse(sessions=sessions, next_page_token=token)

    async def update(self, who: Caller, once: Once, change: Change, at: datetime) -> pb.UpdateSessionResponse:
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
                raise SessionEnded(session_id=change.session_id)
            response = pb.UpdateSessionResponse(session=wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
            return response

    async def end(
        self, tenant_id: UUID, once: Once, request: pb.EndSessionRequest, at: datetime
    ) -> pb.EndSessionResponse:
        """Close a session; one that is closed already comes back as it is, a repeated request gets its first answer."""
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.EndSessionResponse.FromString(first)
            row = await tx.row(
                _QUERIES["end_session"],
                tenant_id=tenant_id,
                session_id=request.session_id,
                summary=request.summary or None,
                end_reason=request.reason or None,
                at=at,
            )
            if row is None:
                row = await self._row(tx, tenant_id, request.session_id)
            response = pb.EndSessionResponse(session=wire.session(row))
            await self._requests.answer(tx, tenant_id, once, response)
            return response

    async def delete(self, tenant_id: UUID, once: Once, session_id: str, at: datetime) -> pb.DeleteSessionResponse:
        """Take a session, its messages and what search knows of them away, all or nothing, once for each request."""
        of_session = {"tenant_id": tenant_id, "session_id": session_id}
        response = pb.DeleteSessionResponse()
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return response
            # First, for its lock: no message can be added or deleted from here on.
            if await tx.row(_QUERIES["delete_session"], **of_session, at=at) is None:
                raise SessionNotFound(session_id=session_id)
            gone = {"sessions": -1}
            ids = await tx.row(_QUERIES["id_range_of_session"], **of_session)
            if ids is not None and ids["lowest"] is not None:
                messages = await tx.execute(
                    _QUERIES["delete_messages_of_session"], **of_session, lowest=ids["lowest"], highest=ids["highest"]
                )
                await tx.execute(_QUERIES["delete_order_of_session"], **of_session)
                await tx.execute(_QUERIES["delete_documents_of_session"], **of_session)
                gone["messages"] = -messages
            await self._quotas.charge(tx, tenant_id, gone)
        return response

    @staticmethod
    async def _row(tx: Transaction, tenant_id: UUID, session_id: str) -> Record:
        row = await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id)
        if row is None:
            raise SessionNotFound(session_id=session_id)
        return row

    @staticmethod
    async def _rows(
        tx: Transaction, tenant_id: UUID, request: pb.ListSessionsRequest, walk: Walk, limit: int
    ) -> list[Record]:
        after_time, after_id = walk.after or (None, None)
        return await tx.rows(
            _QUERIES["list_sessions"],
            tenant_id=tenant_id,
            state=wire.STATES.get(request.state),
            subject_id=request.subject_id or None,
            agent_id=request.agent_id or None,
            floor=walk.floor,
            after_time=after_time,
            after_id=after_id,
            limit=limit,
        )
