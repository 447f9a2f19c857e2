"""Streams that resume at their position when the connection breaks, or when the cluster ends an old stream."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import aclosing, closing
from typing import Any

from skein.memory.v1 import history_pb2
from skein.session.v1 import session_pb2
from skein_client.errors import SkeinError
from skein_client.retry import RetryPolicy, StreamReconnects


class ChangeCursor:
    """The request for changes, with the position of the last one."""

    def __init__(self, *, position: str, event_types: Iterable[str], entity_type: str, entity_id: str) -> None:
        """Begin after a position; empty: now."""
        change_filter = history_pb2.ChangeFilter(event_types=event_types, entity_type=entity_type, entity_id=entity_id)
        self.request = history_pb2.StreamChangesRequest(position=position, filter=change_filter)
        self.is_over = False

    def advance(self, response: history_pb2.StreamChangesResponse) -> history_pb2.Change | None:
        """Move the position; return the change, or None when the response has none."""
        self.request.position = response.position
        return response.change if response.HasField("change") else None


class MessageCursor:
    """The request for messages of a session, with the sequence number of the last one."""

    def __init__(self, *, session_id: str, after_sequence: int | None) -> None:
        """Begin after a sequence number; None: now."""
        self.request = session_pb2.StreamMessagesRequest(session_id=session_id, after_sequence=after_sequence)
        self.is_over = False

    def advance(self, response: session_pb2.StreamMessagesResponse) -> session_pb2.Message | None:
        """Move the position; return the message, or None when the response has none."""
        self.request.after_sequence = response.sequence
        self.is_over = response.is_over
        return response.message if response.HasField("message") else None


async def resume_stream(
    method: Callable[..., Any], cursor: ChangeCursor | MessageCursor, policy: RetryPolicy
) -> AsyncGenerator[Any, None]:
    """Yield the items until the stream is over. Raises SkeinError after `policy.stream_seconds` of failures."""
    reconnects = StreamReconnects(policy, random.random, time.monotonic)
    while not cursor.is_over:
        try:
            async with aclosing(method(cursor.request)) as responses:
                async for response in responses:
                    reconnects.reset()
                    item = cursor.advance(response)
                    if item is not None:
                        yield item
        except SkeinError as error:
            await asyncio.sleep(reconnects.pause_after(error))


def resume_stream_sync(
    method: Callable[..., Any], cursor: ChangeCursor | MessageCursor, policy: RetryPolicy
) -> Generator[Any, None, None]:
    """Do as `resume_stream`, blocking for each item."""
    reconnects = StreamReconnects(policy, random.random, time.monotonic)
    while not cursor.is_over:
        try:
            with closing(method(cursor.request)) as responses:
                for response in responses:
                    reconnects.reset()
                    item = cursor.advance(response)
                    if item is not None:
                        yield item
        except SkeinError as error:
            time.sleep(reconnects.pause_after(error))
