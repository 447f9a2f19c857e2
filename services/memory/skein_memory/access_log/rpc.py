"""Handlers of the RPC for the access log."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import asyncpg

from skein.memory.v1 import access_log_pb2 as pb
from skein_kit.access_log.refusals import Refusal, read_request
from skein_kit.access_log.writer import AccessLog
from skein_kit.calls.call import (
    ADDRESS_KEY,
    CLAIMED_AGENT_KEY,
    CLAIMED_SESSION_KEY,
    REQUEST_ID_KEY,
    Call,
    Context,
)
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import min_id_at, now
from skein_kit.rpc.pagination import fit_items, read_id, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import read_time, to_message
from skein_memory.access_log.store import AccessLogFilter, AccessLogStore

_PREFIX = "ACCESS_OPERATION_"
# The clocks of processes differ.
_AHEAD = timedelta(minutes=5)


class AccessLogHandlers:
    """Reads of the access log."""

    def __init__(self, store: AccessLogStore, access_log: AccessLog) -> None:
        self._store = store
        self._access_log = access_log

    async def RecordRefusedCalls(
        self, request: pb.RecordRefusedCallsRequest, context: Context
    ) -> pb.RecordRefusedCallsResponse:
        caller = caller_of(context)
        await self._access_log.record_refusals([_refusal(refused, caller) for refused in request.calls])
        return pb.RecordRefusedCallsResponse()

    async def ListAccessLog(self, request: pb.ListAccessLogRequest, context: Context) -> pb.ListAccessLogResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        rows = await self._store.list_accesses(tenant_id, _access_filter(request, tenant_id), count=size + 1)
        page = fit_items(_entry(row) for row in rows[:size])
        has_more = len(rows) > len(page)
        return pb.ListAccessLogResponse(
            access_events=page,
            next_page_token=write_token([page[-1].access_event_id], tenant_id, request) if has_more else "",
        )


def _refusal(refused: pb.RefusedCall, caller: Caller) -> Refusal:
    claims = {CLAIMED_AGENT_KEY: refused.claimed_agent_id, CLAIMED_SESSION_KEY: refused.claimed_session_id}
    metadata = {**claims, ADDRESS_KEY: refused.client_address, REQUEST_ID_KEY: refused.call_request_id}
    call = Call(path=refused.path, metadata=metadata, deadline=None, peer="")
    call.caller = caller
    return Refusal(
        call=call,
        request=read_request(refused.path, refused.request) if refused.request else None,
        error_code=refused.error_code,
        error_reason=refused.error_reason,
        at=min(read_time(refused, "create_time") or now(), now()),
        count=refused.call_count,
    )


def _access_filter(request: pb.ListAccessLogRequest, tenant_id: UUID) -> AccessLogFilter:
    start, end = read_time(request, "start_time"), read_time(request, "end_time")
    after = read_id(tenant_id, request)
    operation = pb.AccessOperation.Name(request.operation).removeprefix(_PREFIX).lower()
    return AccessLogFilter(
        from_id=UUID(int=0) if start is None else min_id_at(start),
        before_id=after or min_id_at(end or now() + _AHEAD),
        memory_id=UUID(request.memory_id) if request.memory_id else None,
        session_id=request.session_id or None,
        agent_id=request.agent_id or None,
        claimed_agent_id=request.claimed_agent_id or None,
        claimed_session_id=request.claimed_session_id or None,
        operation=operation if request.operation else None,
        failed_only=request.failed_only,
        unanswered_only=request.unanswered_only,
    )


def _entry(row: asyncpg.Record) -> pb.AccessEvent:
    reached = zip(row["space_ids"] or (), row["space_grant_ids"] or (), strict=True)
    spaces = [
        pb.AccessSpace(space_id=str(space_id), grant_id="" if grant_id == DEFAULT_SPACE else str(grant_id))
        for space_id, grant_id in reached
    ]
    return to_message(pb.AccessEvent, row, call_request_id=row["request_id"], spaces=spaces)
