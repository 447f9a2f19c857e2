"""Making a summary of a session: by a model where there is one, by its own sentences otherwise."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import TransactionConflict
from skein_kit.telemetry import logs
from skein_kit.text.summary import DEFAULT_CHARACTERS, SpeakerTurn, summarize
from skein_session.sessions import convert as wire
from skein_session.summaries.chat_model import ChatModel, ChatModelError
from skein_session.transcripts.store import TranscriptChanged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.identity.identity_token import Caller
    from skein_session.transcripts.store import TranscriptStore

# What is kept back of the caller's time, to store and answer in.
MARGIN_SECONDS = 1.0
NOT_CONFIGURED = "not configured"
# How often a summary is made of a session whose messages are taken away meanwhile.
_TRIES = 3

log = logs.get("session")


class Summarizer:
    """Reads, summarizes, stores. No connection is held while a model thinks."""

    def __init__(self, transcripts: TranscriptStore, model: ChatModel | None) -> None:
        self._transcripts = transcripts
        self._model = model

    async def summarize(
        self, who: Caller, once: IdempotencyKey, request: pb.SummarizeSessionRequest, *, at: datetime, remaining: float
    ) -> pb.SummarizeSessionResponse:
        """Make a summary within the caller's `remaining` seconds; a repeated request works again for its first.

        What is taken away meanwhile is not in it: it is made anew of what is left.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + remaining
        for _ in range(_TRIES):
            with suppress(TranscriptChanged):
                return await self._summarized(who, once, request, at=at, remaining=ends - loop.time())
        raise TransactionConflict

    async def _summarized(
        self, who: Caller, once: IdempotencyKey, request: pb.SummarizeSessionRequest, *, at: datetime, remaining: float
    ) -> pb.SummarizeSessionResponse:
        session, messages, is_cut = await self._transcripts.said(who.tenant(), request.session_id)
        turns = turns_of(messages)
        most = request.max_characters or DEFAULT_CHARACTERS
        response = pb.SummarizeSessionResponse(session=session, truncated=is_cut)
        if turns and request.method != pb.SUMMARY_METHOD_EXTRACTIVE:
            await self._ask(turns, most, remaining - MARGIN_SECONDS, response)
            if request.method == pb.SUMMARY_METHOD_UNSPECIFIED and response.fallback_reason == NOT_CONFIGURED:
                # Nobody asked for a model.
                response.fallback_reason = ""
        if not response.summary:
            response.method = pb.SUMMARY_METHOD_EXTRACTIVE
            response.summary = await asyncio.to_thread(summarize, turns, most=most)
        made_of = [UUID(message.message_id) for message in messages]
        return await self._transcripts.keep_summary(who, once, response, at, store=request.store, made_of=made_of)

    async def _ask(
        self, turns: Sequence[SpeakerTurn], most: int, seconds: float, response: pb.SummarizeSessionResponse
    ) -> None:
        if self._model is None:
            response.fallback_reason = NOT_CONFIGURED
            return
        try:
            response.summary = await self._model.summarize(turns, most=most, seconds=seconds)
            response.method = pb.SUMMARY_METHOD_MODEL
        except ChatModelError as failed:
            log.warning("summary_model_failed", why=failed.why)
            response.fallback_reason = failed.why


def turns_of(messages: Sequence[pb.Message]) -> list[SpeakerTurn]:
    """Return what people and agents said; what tools and instructions say is not the conversation."""
    spoken = (pb.MESSAGE_ROLE_USER, pb.MESSAGE_ROLE_ASSISTANT)
    return [
        SpeakerTurn(message.name or wire.ROLES[message.role], message.content, message.role == pb.MESSAGE_ROLE_USER)
        for message in messages
        if message.role in spoken and message.content.strip()
    ]
