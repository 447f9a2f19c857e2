"""The RPC that summarizes a session: by a chat model if one is configured, else by the session's own sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import TransactionConflict
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.jobs.model import JobKind, JobState, Progress
from skein_kit.jobs.store import JobStore
from skein_kit.language_model.chat_client import ChatModelError
from skein_kit.telemetry import logs
from skein_kit.text.summary import DEFAULT_CHARACTERS, SpeakerTurn, summarize
from skein_kit.text.token_estimate import estimate_tokens
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.sessions import convert
from skein_session.summaries.chat_model import MAX_TRANSCRIPT_CHARACTERS, ChatModel
from skein_session.summaries.store import SummaryStore, TranscriptChanged

# Part of the caller's time that is reserved for saving the summary and replying.
MARGIN_SECONDS = 1.0
NOT_CONFIGURED = "not configured"
# The tenant paused its summaries by the model, or has reached their limits.
PAUSED, LIMITED = "paused", "limited"
# Attempts while concurrent calls delete messages of the transcript.
_MAX_ATTEMPTS = 3
# A summary is counted before it is written, in a language that is not known yet.
_SUMMARY_CHARACTERS_PER_TOKEN = 4

log = logs.get("session")


class SummaryHandlers:
    """Summarizes sessions; no connection is open during a call of the model."""

    def __init__(
        self, store: SummaryStore, idempotency: SessionIdempotencyStore, model: ChatModel | None, jobs: JobStore
    ) -> None:
        self._store = store
        self._idempotency = idempotency
        self._model = model
        self._jobs = jobs

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
            await self._summarize(tenant_id, request, transcript.turns, model_seconds, response)
            if not (request.store or request.request_id):
                return response
            with suppress(TranscriptChanged):
                async with self._idempotency.begin_with_key(tenant_id, key) as write:
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
        tenant_id: UUID,
        request: pb.SummarizeSessionRequest,
        turns: Sequence[SpeakerTurn],
        model_seconds: float,
        response: pb.SummarizeSessionResponse,
    ) -> None:
        """Set the summary, its method and the reason of a fallback."""
        max_characters = request.max_characters or DEFAULT_CHARACTERS
        if turns and request.method != pb.SUMMARY_METHOD_EXTRACTIVE:
            await self._summarize_by_model(tenant_id, turns, max_characters, model_seconds, response)
            if request.method == pb.SUMMARY_METHOD_UNSPECIFIED and response.fallback_reason == NOT_CONFIGURED:
                # The caller did not request a model.
                response.fallback_reason = ""
        if not response.summary:
            response.method = pb.SUMMARY_METHOD_EXTRACTIVE
            response.summary = await asyncio.to_thread(summarize, turns, max_characters=max_characters)

    async def _summarize_by_model(
        self,
        tenant_id: UUID,
        turns: Sequence[SpeakerTurn],
        max_characters: int,
        seconds: float,
        response: pb.SummarizeSessionResponse,
    ) -> None:
        if self._model is None:
            response.fallback_reason = NOT_CONFIGURED
            return
        transcript = "\n".join(turn.text for turn in turns)[-MAX_TRANSCRIPT_CHARACTERS:]
        tokens = estimate_tokens(transcript) + max_characters // _SUMMARY_CHARACTERS_PER_TOKEN
        grant = await self._jobs.acquire(tenant_id, JobKind.SUMMARIES, 1, item_cost=tokens)
        if not grant.count:
            response.fallback_reason = PAUSED if grant.state is JobState.PAUSED else LIMITED
            return
        try:
            response.summary = await self._model.summarize(turns, max_characters=max_characters, seconds=seconds)
            response.method = pb.SUMMARY_METHOD_MODEL
        except ChatModelError as error:
            log.warning("summary_model_failed", why=error.reason)
            response.fallback_reason = error.reason
        # A call that failed may have cost as much as one that did not.
        done_count = 1 if response.summary else 0
        await self._jobs.settle(tenant_id, grant, Progress(done_count=done_count, cost=grant.item_cost))
