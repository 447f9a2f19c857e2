"""RPCs that read transcripts."""

from __future__ import annotations

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.approval import APPROVE
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid, PermissionMissing
from skein_kit.ids import min_id_at, now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import read_token, resolve_page_size, write_token
from skein_kit.rpc.well_known_types import read_time
from skein_kit.text.token_estimate import DEFAULT_BUDGET
from skein_session.page_tokens import id_from_page_token, sequence_from_page_token
from skein_session.transcripts.store import TranscriptStore


class TranscriptHandlers:
    """Lists messages of a session or an agent, and reads the recent window."""

    def __init__(self, transcripts: TranscriptStore) -> None:
        self._transcripts = transcripts

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time, page_size = read_as_of_time(request, at=at), resolve_page_size(request.page_size)
        sequence = sequence_from_page_token(read_token(request.page_token, tenant_id, request))
        if as_of_time is None:
            page = await self._transcripts.list_messages(
                tenant_id,
                request.session_id,
                sequence=sequence,
                newest_first=request.newest_first,
                page_size=page_size,
                show_archived=request.show_archived,
            )
        else:
            page = await self._transcripts.list_messages_as_of(
                tenant_id,
                request.session_id,
                as_of_time,
                sequence=sequence,
                newest_first=request.newest_first,
                page_size=page_size,
                at=at,
            )
        messages = await message_rows.fitting_messages(page.rows)
        next_sequence = page.next_sequence if len(messages) == len(page.rows) else messages[-1].sequence
        response = pb.ListMessagesResponse(messages=messages)
        if next_sequence is not None:
            response.next_page_token = write_token([str(next_sequence)], tenant_id, request)
        return response

    async def ListAgentMessages(
        self, request: pb.ListAgentMessagesRequest, context: Context
    ) -> pb.ListAgentMessagesResponse:
        if not (request.agent_id or request.subject_id or request.pending_approval):
            raise FieldInvalid(violations=[("agent_id", "must be set, unless subject_id or pending_approval is set")])
        if request.pending_approval and APPROVE not in caller_of(context).permissions:
            raise PermissionMissing(permission=APPROVE)
        tenant_id = caller_of(context).require_tenant()
        start_time, end_time = read_time(request, "start_time"), read_time(request, "end_time")
        before_id = id_from_page_token(read_token(request.page_token, tenant_id, request))
        if before_id is None and end_time is not None:
            before_id = min_id_at(end_time)
        page = await self._transcripts.list_agent_messages(
            tenant_id,
            agent_id=request.agent_id or None,
            subject_id=request.subject_id or None,
            pending_approval=request.pending_approval,
            lowest_id=None if start_time is None else min_id_at(start_time),
            before_id=before_id,
            page_size=resolve_page_size(request.page_size),
            at=now(),
        )
        messages = await message_rows.fitting_messages(page.rows)
        next_id = page.next_id if len(messages) == len(page.rows) else messages[-1].message_id
        response = pb.ListAgentMessagesResponse(messages=messages)
        if next_id is not None:
            response.next_page_token = write_token([str(next_id)], tenant_id, request)
        return response

    async def GetRecentWindow(self, request: pb.GetRecentWindowRequest, context: Context) -> pb.GetRecentWindowResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        budget, as_of_time = request.token_budget or DEFAULT_BUDGET, read_as_of_time(request, at=at)
        if as_of_time is None:
            window = await self._transcripts.read_window(tenant_id, request.session_id, budget)
        else:
            window = await self._transcripts.read_window_as_of(tenant_id, request.session_id, budget, as_of_time, at=at)
        messages = await message_rows.fitting_messages(window.rows)
        window.trim(limit=len(messages))
        return pb.GetRecentWindowResponse(
            messages=reversed(messages[: len(window.rows)]),
            summary=window.summary,
            token_count=window.token_count,
            truncated=window.is_truncated,
        )
