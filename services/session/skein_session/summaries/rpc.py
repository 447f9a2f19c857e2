"""The RPC that summarizes a session: by a chat model if one is configured, else by the session's own sentences."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import TransactionConflict
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_kit.text.summary import DEFAULT_CHARACTERS, summarize
from skein_session.sessions import convert
from skein_session.summaries.chat_model import ChatModel, ChatModelError
from skein_session.summaries.store import TranscriptChanged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_kit.text.summary import SpeakerTurn
    from skein_session.idempotency import SessionIdempotencyStore
    from skein_session.summaries.store import SummaryStore

# Part of the caller's time that is reserved for saving the summary and replying.
MARGIN_SECONDS = 1.0
NOT_CONFIGURED = "not configured"
# Attempts while concurrent calls delete messages of the transcript.
_MAX_ATTEMPTS = 3

log = logs.get("session")


class SummaryHandlers:
    """Summarizes sessions; no connection is open during a call of the model."""

    def __init__(self, store: SummaryStore, idempotency: SessionIdempotencyStore, model: ChatModel | None) -> None:
        self._store = store
        self._idempotency = idempotency
        self._model = model

    async def SummarizeSession(
        self, request: pb.SummarizeSessionRequest, context: Context
    ) -> pb.SummarizeSessionResponse:
        caller, at = caller_of(context), now()
        tenant_id, key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + context.time_remaining()
        for _ in range(_MAX_ATTEMPTS):
            transcript = await self._store.read_transcript(tenant_id, request.session_id)
            response = pb.SummarizeSessionResponse(
                session=convert.session(transcript.session), truncated=transcript.is_truncated
            )
            model_seconds = deadline - loop.time() - MARGIN_SECONDS
            await self._summarize(request, transcript.turns, model_seconds, response)
            if not (request.store or request.request_id):
                return response
            with suppress(TranscriptChanged):
                async with self._idempotency.begin(tenant_id, key) as write:
                    if write.saved_response is not None:
                        return pb.SummarizeSessionResponse.FromString(write.saved_response)
                    row = await self._store.save_summary(
                        write.tx,
                        tenant_id,
                        request.session_id,
                        response.summary if request.store else "",
                        source_message_ids=transcript.message_ids,
                        at=at,
                    )
                    if row is not None:
                        response.session.CopyFrom(convert.session(row))
                    return await write.save(response)
        raise TransactionConflict

    async def _summarize(
        self,
        request: pb.SummarizeSessionRequest,
        turns: Sequence[SpeakerTurn],
        model_seconds: float,
        response: pb.SummarizeSessionResponse,
    ) -> None:
        """Set the summary, its method and the reason of a fallback."""
        max_characters = request.max_characters or DEFAULT_CHARACTERS
        if turns and request.method != pb.SUMMARY_METHOD_EXTRACTIVE:
            await self._summarize_by_model(turns, max_characters, model_seconds, response)
            if request.method == pb.SUMMARY_METHOD_UNSPECIFIED and response.fallback_reason == NOT_CONFIGURED:
                # The caller did not request a model.
                response.fallback_reason = ""
        if not response.summary:
            response.method = pb.SUMMARY_METHOD_EXTRACTIVE
            response.summary = await asyncio.to_thread(summarize, turns, max_characters=max_characters)

    async def _summarize_by_model(
        self, turns: Sequence[SpeakerTurn], max_characters: int, seconds: float, response: pb.SummarizeSessionResponse
    ) -> None:
        if self._model is None:
            response.fallback_reason = NOT_CONFIGURED
            return
        try:
            response.summary = await self._model.summarize(turns, max_characters=max_characters, seconds=seconds)
            response.method = pb.SUMMARY_METHOD_MODEL
        except ChatModelError as error:
            log.warning("summary_model_failed", why=error.reason)
            response.fallback_reason = error.reason
