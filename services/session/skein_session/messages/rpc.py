"""RPCs of messages: append, read, correct, delete, and stream; and the rules of what they write.

A claim saves an empty response. skein_kit.message_rows converts rows to protobuf.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit import message_rows
from skein_kit.admission.processor_time import run_by_size
from skein_kit.approval import APPROVE
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import (
    ApprovalRequired,
    ContentEmpty,
    ContentTooLong,
    DuplicateInBatch,
    FieldInvalid,
    PermissionMissing,
    RpcError,
    TextNotStorable,
)
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import min_id_at, month_start, new_ids, now
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.pagination import require_fit
from skein_kit.rpc.row_times import read_past_time, require_keep_times
from skein_kit.rpc.well_known_types import json_text, read_time, updated_fields
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.messages.model import LIST_FIELDS, MessageBatch, MessageChange, default_title
from skein_session.messages.store import MessageStore
from skein_session.messages.stream import StreamHub
from skein_session.sessions.model import MAX_CLOCK_SKEW

if TYPE_CHECKING:
    from skein_kit.approval import Handler


_PLAN_ONCE = TxOptions(plan_once=True)
ROLES: Mapping[pb.MessageRole, str] = {
    pb.MESSAGE_ROLE_USER: "user",
    pb.MESSAGE_ROLE_ASSISTANT: "assistant",
    pb.MESSAGE_ROLE_SYSTEM: "system",
    pb.MESSAGE_ROLE_TOOL: "tool",
}
_JSON_FIELDS = (*LIST_FIELDS, "metadata")
_CONTENT_FIELDS = frozenset({"content", "name", *_JSON_FIELDS})
# Approval needs a permission of its own and has to be named.
_APPROVAL = "pending_approval"


class MessageHandlers:
    """Appends, reads, changes, deletes and streams messages."""

    def __init__(
        self,
        store: MessageStore,
        idempotency: SessionIdempotencyStore,
        streams: StreamHub,
        embeddings: EmbeddingClient,
        *,
        max_content_characters: int,
    ) -> None:
        self._store = store
        self._idempotency = idempotency
        self._streams = streams
        self._embeddings = embeddings
        self._max_content = max_content_characters

    @property
    def waiting(self) -> Mapping[str, Handler]:
        """The methods of sources whose messages wait for approval."""
        return {
            "AppendMessages": partial(self._append_messages, must_wait=True),
            "UpdateMessage": partial(self._update_message, must_wait=True),
        }

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        return await self._append_messages(request, context, must_wait=False)

    async def UpdateMessage(self, request: pb.UpdateMessageRequest, context: Context) -> pb.UpdateMessageResponse:
        if "pending_approval" in request.update_mask.paths and APPROVE not in caller_of(context).permissions:
            raise PermissionMissing(permission=APPROVE)
        return await self._update_message(request, context, must_wait=False)

    async def _append_messages(
        self, request: pb.AppendMessagesRequest, context: Context, *, must_wait: bool
    ) -> pb.AppendMessagesResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        if request.keep_times:
            require_keep_times(caller)
        key = IdempotencyKey.of(caller, request)
        size = request.ByteSize()
        batch = await run_by_size(
            size,
            read_batch,
            request,
            at=now(),
            principal=caller.principal,
            max_content=self._max_content,
            agent_id=caller.agent_id,
            must_wait=must_wait,
        )
        expected_pending = self._embeddings.has_pending_embeddings(
            batch.documents, should_defer=request.defer_embedding
        )
        async with (
            self._store.prepare_append(tenant_id, batch),
            self._idempotency.begin_with_key(tenant_id, key, _PLAN_ONCE) as write,
        ):
            await self._store.append_messages(write.tx, tenant_id, batch)
            messages = await run_by_size(size, message_rows.messages, batch.rows)
            response = pb.AppendMessagesResponse(messages=messages, pending_embedding_count=expected_pending)
            require_fit(response)
            await write.save(response)
        pending = await self._embeddings.request_embeddings(
            batch.documents, remaining=context.time_remaining(), should_defer=request.defer_embedding
        )
        if pending != expected_pending:
            response.pending_embedding_count = pending
            await self._idempotency.replace_response(tenant_id, key, response)
        return response

    async def GetMessage(self, request: pb.GetMessageRequest, context: Context) -> pb.GetMessageResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        row = await self._store.get_message(
            tenant_id,
            request.message_id,
            at=at,
            as_of_time=read_as_of_time(request, at=at),
            revision=request.revision,
        )
        return pb.GetMessageResponse(message=message_rows.message(row))

    async def _update_message(
        self, request: pb.UpdateMessageRequest, context: Context, *, must_wait: bool
    ) -> pb.UpdateMessageResponse:
        caller = caller_of(context)
        if must_wait and "pending_approval" in request.update_mask.paths:
            raise ApprovalRequired
        change = read_change(request, max_content=self._max_content, must_wait=must_wait)
        async with self._idempotency.begin(caller, request) as write:
            row, document = await self._store.update_message(
                write.tx, caller.require_tenant(), change, at=now(), updated_by=caller.principal
            )
            response = pb.UpdateMessageResponse(message=message_rows.message(row))
            require_fit(response)
            await write.save(response)
        if document is not None:
            pending = await self._embeddings.request_embeddings([document], remaining=context.time_remaining())
            response.embedding_pending = pending > 0
        return response

    async def DeleteMessage(self, request: pb.DeleteMessageRequest, context: Context) -> pb.DeleteMessageResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_message(
                write.tx, caller.require_tenant(), request.message_id, at=now(), by=caller.principal
            )
        return pb.DeleteMessageResponse()

    async def UndeleteMessage(self, request: pb.UndeleteMessageRequest, context: Context) -> pb.UndeleteMessageResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            row, document = await self._store.undelete_message(write.tx, caller.require_tenant(), request.message_id)
            response = pb.UndeleteMessageResponse(message=message_rows.message(row))
            require_fit(response)
            await write.save(response)
        if document is not None:
            pending = await self._embeddings.request_embeddings([document], remaining=context.time_remaining())
            response.embedding_pending = pending > 0
        return response

    async def StreamMessages(
        self, request: pb.StreamMessagesRequest, context: Context
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        after = request.after_sequence if request.HasField("after_sequence") else None
        async with aclosing(
            self._streams.stream(caller_of(context).require_tenant(), request.session_id, after)
        ) as responses:
            async for response in responses:
                yield response


def read_batch(
    request: pb.AppendMessagesRequest,
    *,
    at: datetime,
    principal: str,
    max_content: int,
    agent_id: str = "",
    must_wait: bool = False,
) -> MessageBatch:
    """Validate the messages and give them ids at the time `at`; `agent_id` is the caller's agent.

    With `must_wait` they wait for approval.
    Errors have the index of the invalid message in their metadata "index".
    """
    times: list[datetime] = []
    json_columns: list[dict[str, str | None]] = []
    external_ids: set[str] = set()
    for index, draft in enumerate(request.messages):
        with _error_index(index):
            times.append(_check(draft, at, max_content))
            json_columns.append({field: json_text(draft, field) for field in _JSON_FIELDS})
            if draft.external_id in external_ids:
                raise DuplicateInBatch(violations=[("external_id", "must be unique in the batch")])
            if draft.external_id:
                external_ids.add(draft.external_id)
    rows: list[dict[str, Any]] = []
    for draft, message_id, create_time, columns in zip(request.messages, _ids(times), times, json_columns, strict=True):
        # Only imports have times of their own.
        update_time = read_past_time(draft, "update_time", at) if request.keep_times else None
        rows.append(
            {
                "message_id": message_id,
                "session_id": request.session_id,
                "external_id": draft.external_id or None,
                "role": ROLES[draft.role],
                "content": draft.content,
                "name": draft.name or None,
                "subject_id": draft.subject_id or request.subject_id or None,
                "agent_id": draft.agent_id or request.agent_id or None,
                "tool_call_id": draft.tool_call_id or None,
                "model": draft.model or None,
                "step_id": draft.step_id or None,
                "group_id": draft.group_id or None,
                "sender_id": draft.sender_id or None,
                "offline_thread_id": draft.offline_thread_id or None,
                "create_time": create_time,
                "created_by": principal,
                "revision": 1,
                "update_time": None if update_time == create_time else update_time,
                "updated_by": None,
                "pending_approval": must_wait,
                **columns,
            }
        )
    return MessageBatch(
        session_id=request.session_id,
        create_session=request.create_session,
        append_time=at,
        create_time=min(times) if request.keep_times else at,
        update_time=max(row["update_time"] or row["create_time"] for row in rows) if request.keep_times else at,
        is_import=request.keep_times,
        created_by=principal,
        agent_id=request.agent_id or agent_id or None,
        subject_id=request.subject_id or None,
        rows=rows,
        without_agent=[row for row in rows if row["agent_id"] is None],
        without_subject=[row for row in rows if row["subject_id"] is None],
        months=frozenset(month_start(time) for time in times),
        title=next((title for row in rows if (title := default_title(row)) is not None), None),
    )


def read_change(request: pb.UpdateMessageRequest, *, max_content: int, must_wait: bool = False) -> MessageChange:
    """Read an update. The store checks that the message keeps content. With `must_wait` the message waits for approval.

    Raises FieldInvalid and ContentTooLong.
    """
    message = request.message
    if not (message.message_id or message.external_id):
        raise FieldInvalid(violations=[("message.message_id", "must be set, unless message.external_id is set")])
    is_approval = _APPROVAL in request.update_mask.paths
    if is_approval and message.pending_approval:
        raise FieldInvalid(violations=[("message.pending_approval", "can only be cleared")])
    fields = updated_fields(request.update_mask, _CONTENT_FIELDS | ({_APPROVAL} if is_approval else set()))
    if must_wait:
        fields |= {_APPROVAL}
    if "content" in fields:
        _check_content(message.content, max_content)
    return MessageChange(
        message_name=message.message_id or message.external_id,
        revision=message.revision,
        fields=fields,
        content=message.content,
        name=message.name or None,
        pending_approval=must_wait,
        **{field: json_text(message, field) for field in _JSON_FIELDS},
    )


def _check(message: pb.Message, at: datetime, max_content: int) -> datetime:
    if message.role == pb.MESSAGE_ROLE_UNSPECIFIED:
        raise FieldInvalid(violations=[("role", "must be user, assistant, system or tool")])
    lists = (message.parts, message.tool_calls, message.tool_returns)
    if not (message.content.strip() or any(each.values for each in lists)):
        raise ContentEmpty
    _check_content(message.content, max_content)
    create_time = read_time(message, "create_time") or at
    if create_time > at + MAX_CLOCK_SKEW:
        raise FieldInvalid(violations=[("create_time", "must not be in the future")])
    return create_time


def _check_content(content: str, max_content: int) -> None:
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    if "\0" in content:
        raise TextNotStorable(violations=[("content", "must not contain a NUL character")])


def _ids(times: Sequence[datetime]) -> list[UUID]:
    """Return an id for each time; within a millisecond ids ascend in the order of `times`."""
    indexes: dict[UUID, list[int]] = {}
    for index, time in enumerate(times):
        indexes.setdefault(min_id_at(time), []).append(index)
    ids: dict[int, UUID] = {}
    for group in indexes.values():
        ids.update(zip(group, new_ids(times[group[0]], len(group)), strict=True))
    return [ids[index] for index in range(len(times))]


@contextmanager
def _error_index(index: int) -> Iterator[None]:
    try:
        yield
    except RpcError as error:
        violations = [(f"messages[{index}].{field}", text) for field, text in error.violations]
        raise type(error)(violations=violations, index=index, **error.metadata) from None
