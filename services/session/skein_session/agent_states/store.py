"""Agent states and short-term items in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import states_pb2 as pb
from skein_kit.database.named_queries import Queries
from skein_kit.errors import AgentNotActive, RevisionStale, TransactionConflict
from skein_kit.rpc.pagination import fit_items, read_token, resolve_page_size, write_token
from skein_session.agent_states.model import MAX_ITEMS, StoredAgentState, keys_from_page_token
from skein_session.errors import AgentStateNotFound, ItemNotFound, ItemsFull, SessionNotFound
from skein_session.sessions import convert as wire

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
    from skein_kit.quotas.store import QuotaCounter
    from skein_session.agent_states.model import AgentStatePut, ItemPut

_QUERIES = Queries.of("skein_session")
# How often a state is looked for again that another call stored at the same moment.
_TRIES = 3
# What one sweep removes of each kind at most.
_SWEEP = 1000


class StateStore:
    """States by agent and session, items by session and key."""

    def __init__(self, database: Database, requests: IdempotencyStore, quotas: QuotaCounter) -> None:
        self._database = database
        self._requests = requests
        self._quotas = quotas

    async def put(self, tenant_id: UUID, once: IdempotencyKey, put: AgentStatePut) -> pb.PutAgentStateResponse:
        """Store a state, or return the answer that its request_id has."""
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.PutAgentStateResponse.FromString(first)
            if put.session_id:
                await _hold(tx, tenant_id, put.session_id)
            if await tx.row(_QUERIES["deleted_agent"], tenant_id=tenant_id, agent_id=put.agent_id) is not None:
                raise AgentNotActive(agent_id=put.agent_id)
            columns, is_new = await self._stored(tx, tenant_id, put)
            response = pb.PutAgentStateResponse(state=wire.state(columns))
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"agent_states": int(is_new)})
        return response

    async def get(self, tenant_id: UUID, agent_id: str, session_id: str, at: datetime) -> pb.AgentState:
        """Read a state that has not expired."""
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(
                _QUERIES["get_state"], tenant_id=tenant_id, agent_id=agent_id, session_id=session_id, at=at
            )
        if row is None:
            raise AgentStateNotFound
        return wire.state(row)

    async def page(
        self, tenant_id: UUID, request: pb.ListAgentStatesRequest, at: datetime
    ) -> pb.ListAgentStatesResponse:
        """Read a page of states that have not expired, by agent, then by session."""
        after_agent, after_session = keys_from_page_token(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        asked = {"tenant_id": tenant_id, "agent_id": request.agent_id or None, "after_agent": after_agent, "at": at}
        async with self._database.tenant(tenant_id) as tx:
            if request.session_id:
                rows = await tx.rows(
                    _QUERIES["list_states_of_session"],
                    **asked,
                    session_id=request.session_id,
                    limit=size + 1,
                    show_deleted=False,
                )
            else:
                rows = await tx.rows(_QUERIES["list_states"], **asked, after_session=after_session, limit=size + 1)
        states = fit_items(wire.state(row) for row in rows[:size])
        response = pb.ListAgentStatesResponse(states=states)
        if len(rows) > len(states):
            place = [states[-1].agent_id, states[-1].session_id]
            response.next_page_token = write_token(place, tenant_id, request)
        return response

    async def delete(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.DeleteAgentStateRequest, agent_id: str, at: datetime
    ) -> pb.DeleteAgentStateResponse:
        """Remove a state for good, once for each request."""
        response = pb.DeleteAgentStateResponse()
        name = {"tenant_id": tenant_id, "agent_id": agent_id, "session_id": request.session_id}
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return response
            row = await tx.row(_QUERIES["lock_state"], **name)
            if row is None or _current(row).over(at):
                raise AgentStateNotFound
            if request.revision not in (0, row["revision"]):
                raise RevisionStale(given=request.revision, current=row["revision"])
            await tx.execute(_QUERIES["delete_state"], **name)
            await self._quotas.charge(tx, tenant_id, {"agent_states": -1})
        return response

    async def put_item(
        self, tenant_id: UUID, once: IdempotencyKey, put: ItemPut, *, at: datetime, by: str
    ) -> pb.PutItemResponse:
        """Store an item in place of what is under its key, or return the answer that its request_id has."""
        of_session = {"tenant_id": tenant_id, "session_id": put.session_id}
        async with self._database.tenant(tenant_id) as tx:
            first = await self._requests.claim(tx, tenant_id, once)
            if first is not None:
                return pb.PutItemResponse.FromString(first)
            await _hold(tx, tenant_id, put.session_id)
            row = await tx.row(
                _QUERIES["put_item"],
                **of_session,
                key=put.key,
                value=put.value,
                expire_time=put.expire_time,
                at=at,
                create_time=put.times.create_time,
                update_time=put.times.update_time,
                created_by=by,
            )
            if row is None:  # Either way the statement returns its row.
                raise TransactionConflict
            if row["is_new"] and await tx.value(_QUERIES["count_items"], **of_session, most=MAX_ITEMS + 1) > MAX_ITEMS:
                raise ItemsFull(limit=MAX_ITEMS)
            response = pb.PutItemResponse(item=wire.item(row))
            await self._requests.answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"session_items": int(row["is_new"])})
        return response

    async def get_item(self, tenant_id: UUID, session_id: str, key: str, at: datetime) -> pb.SessionItem:
        """Read an item that has not expired."""
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(_QUERIES["get_item"], tenant_id=tenant_id, session_id=session_id, key=key, at=at)
            if row is None:
                await _must_exist(tx, tenant_id, session_id)
                raise ItemNotFound
        return wire.item(row)

    async def items(self, tenant_id: UUID, request: pb.ListItemsRequest, at: datetime) -> pb.ListItemsResponse:
        """Read a page of a session's items that have not expired, by key."""
        after, _ = keys_from_page_token(read_token(request.page_token, tenant_id, request))
        size = resolve_page_size(request.page_size)
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(
                _QUERIES["list_items"],
                tenant_id=tenant_id,
                session_id=request.session_id,
                after=after,
                prefix=request.prefix or None,
                at=at,
                limit=size + 1,
            )
            if not rows:
                await _must_exist(tx, tenant_id, request.session_id)
        items = fit_items(wire.item(row) for row in rows[:size])
        response = pb.ListItemsResponse(items=items)
        if len(rows) > len(items):
            response.next_page_token = write_token([items[-1].key, ""], tenant_id, request)
        return response

    async def delete_item(
        self, tenant_id: UUID, once: IdempotencyKey, request: pb.DeleteItemRequest, at: datetime
    ) -> pb.DeleteItemResponse:
        """Remove an item for good, once for each request."""
        response = pb.DeleteItemResponse()
        of_session = {"tenant_id": tenant_id, "session_id": request.session_id}
        async with self._database.tenant(tenant_id) as tx:
            if await self._requests.claim(tx, tenant_id, once, answer=response) is not None:
                return response
            await _must_exist(tx, tenant_id, request.session_id)
            expired = await tx.value(_QUERIES["delete_item"], **of_session, key=request.key)
            if expired is None or expired <= at:
                raise ItemNotFound
            await self._quotas.charge(tx, tenant_id, {"session_items": -1})
        return response

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Remove some of the states and items past their time, and states of purged agents; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            states = await tx.execute(_QUERIES["delete_expired_states"], tenant_id=tenant_id, at=at, count=_SWEEP)
            states += await tx.execute(_QUERIES["delete_states_of_purged_agents"], tenant_id=tenant_id, count=_SWEEP)
            items = await tx.execute(_QUERIES["delete_expired_items"], tenant_id=tenant_id, at=at, count=_SWEEP)
            await self._quotas.charge(tx, tenant_id, {"agent_states": -states, "session_items": -items})
        return states + items

    @staticmethod
    async def _stored(tx: Transaction, tenant_id: UUID, put: AgentStatePut) -> tuple[dict[str, object], bool]:
        """Store a state; return what it is now, and whether there was none."""
        for _ in range(_TRIES):
            row = await tx.row(
                _QUERIES["lock_state"], tenant_id=tenant_id, agent_id=put.agent_id, session_id=put.session_id
            )
            columns = put.onto(None if row is None else _current(row))
            query = _QUERIES["insert_state" if row is None else "replace_state"]
            if await tx.row(query, tenant_id=tenant_id, **columns) is not None:
                return columns, row is None
        raise TransactionConflict


def _current(row: Record) -> StoredAgentState:
    return StoredAgentState(
        state_data=row["state_data"],
        revision=row["revision"],
        expire_time=row["expire_time"],
        create_time=row["create_time"],
        created_by=row["created_by"],
    )


async def _hold(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """See to it that a session is there and stays until the transaction ends."""
    if await tx.row(_QUERIES["share_session"], tenant_id=tenant_id, session_id=session_id) is None:
        raise SessionNotFound(session_id=session_id)


async def _must_exist(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    if await tx.row(_QUERIES["get_session"], tenant_id=tenant_id, session_id=session_id) is None:
        raise SessionNotFound(session_id=session_id)
