"""Streams that go on: one that is cut off, or ends because it is old, is begun again where it was."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import history_pb2
from skein.session.v1 import session_pb2
from skein_client.errors import SkeinError
from skein_client.retry import StreamReconnects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable

    from skein_client.retry import RetryPolicy


class ChangeCursor:
    """What is asked of the event log, and how far it was answered."""

    def __init__(self, *, position: str, event_types: Iterable[str], entity_type: str, entity_id: str) -> None:
        """Begin after a position; empty: now."""
        wanted = history_pb2.ChangeFilter(event_types=event_types, entity_type=entity_type, entity_id=entity_id)
        self.request = history_pb2.WatchChangesRequest(position=position, filter=wanted)
        self.is_over = False

    def take(self, answer: history_pb2.WatchChangesResponse) -> history_pb2.Change | None:
        """Remember how far it is; return the change, if there is one."""
        self.request.position = answer.position
        return answer.change if answer.HasField("change") else None


class MessageCursor:
    """What is asked of a session, and how far it was answered."""

    def __init__(self, *, session_id: str, after_sequence: int | None) -> None:
        """Begin after a sequence number; None: now."""
        self.request = session_pb2.StreamMessagesRequest(session_id=session_id, after_sequence=after_sequence)
        self.is_over = False

    def take(self, answer: session_pb2.StreamMessagesResponse) -> session_pb2.Message | None:
        """Remember how far it is; return the message, if there is one."""
        self.request.after_sequence = answer.sequence
        self.is_over = answer.is_over
        return answer.message if answer.HasField("message") else None


async def resume_stream(
    method: Callable[..., Any], asked: ChangeCursor | MessageCursor, policy: RetryPolicy
) -> AsyncGenerator[Any, None]:
    """Yield what is asked for until it is over, or until it failed for too long."""
    interruptions = StreamReconnects(policy, random.random, time.monotonic)
    while not asked.is_over:
        try:
            async with aclosing(method(asked.request)) as answers:
                async for answer in answers:
                    interruptions.forget()
                    item = asked.take(answer)
                    if item is not None:
                        yield item
        except SkeinError as error:
            await asyncio.sleep(interruptions.pause_after(error))


def resume_stream_sync(
    method: Callable[..., Any], asked: ChangeCursor | MessageCursor, policy: RetryPolicy
) -> Generator[Any, None, None]:
    """Do as `resume_stream`, waiting for each."""
    interruptions = StreamReconnects(policy, random.random, time.monotonic)
    while not asked.is_over:
        try:
            with closing(method(asked.request)) as answers:
                for answer in answers:
                    interruptions.forget()
                    item = asked.take(answer)
                    if item is not None:
                        yield item
        except SkeinError as error:
            time.sleep(interruptions.pause_after(error))
