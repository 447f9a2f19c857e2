"""Following sessions as they are spoken in: one look at the database for all who follow sessions of the same tenant.

A look reads how far the sessions are, which is a number each; whoever is behind reads the messages by itself, as fast
as its caller takes them.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import DatabaseUnavailable, RpcError
from skein_kit.telemetry import logs
from skein_session.errors import SessionArchived, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from uuid import UUID

    from skein_session.messages.stream_store import StreamPosition, StreamStore

FIRST_PAUSE_SECONDS = 0.05
# A look that takes longer is given up.
_LOOK_SECONDS = 10.0
# Looks that failed in a row after which those who follow are told so.
_FAILURES = 10

log = logs.get("session")


class StreamSubscriber:
    """Somebody who follows a session, and what is known of it."""

    def __init__(self, session_id: str, standing: StreamPosition) -> None:
        """Begin with what is known."""
        self.session_id = session_id
        self.standing: StreamPosition | None = standing
        self.why: RpcError | None = None
        self._news = asyncio.Event()

    def learn(self, standing: StreamPosition | None) -> bool:
        """Take what a look has found, None for a session that is gone; say whether it is news."""
        if standing == self.standing:
            return False
        self.standing = standing
        self._news.set()
        return True

    def end(self, why: RpcError) -> None:
        """Let the follower know that nothing more comes."""
        self.why = why
        self._news.set()

    async def news(self, seconds: float) -> bool:
        """Wait for news; say whether there were any within the time."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True


class StreamHub:
    """Those of a process who follow sessions."""

    def __init__(self, store: StreamStore, *, heartbeat_seconds: float, longest_pause_seconds: float) -> None:
        """Look after each pause, which grows up to the longest while nobody speaks."""
        self._store = store
        self._heartbeat = heartbeat_seconds
        self._longest_pause = longest_pause_seconds
        self._followers: dict[UUID, set[StreamSubscriber]] = {}
        self._looking: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[StreamHub]:
        """Look while the block runs."""
        try:
            yield self
        finally:
            looking = [*self._looking]
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)

    async def follow(
        self, tenant_id: UUID, session_id: str, after: int | None
    ) -> AsyncGenerator[pb.StreamMessagesResponse]:
        """Yield the messages of a session after a sequence number, and no message at once and while there is none.

        Each comes with the sequence number to resume from. `after` None begins now. It ends when the session has
        ended and all of it was sent. Raises SessionNotFound and SessionArchived.
        """
        standing = (await self._store.read(tenant_id, [session_id])).get(session_id)
        if standing is None:
            raise SessionNotFound(session_id=session_id)
        if standing.is_stored:
            raise SessionArchived(session_id=session_id)
        sequence = standing.last_sequence if after is None else after
        follower = self._join(tenant_id, StreamSubscriber(session_id, standing))
        try:
            yield pb.StreamMessagesResponse(sequence=sequence)
            while True:
                # What is known before the messages are read: a session that has ended by then gets no others.
                standing = follower.standing
                if standing is None:
                    raise SessionNotFound(session_id=session_id)
                while sequence < standing.last_sequence:
                    messages, read = await self._store.messages(tenant_id, session_id, sequence)
                    for message in messages:
                        yield pb.StreamMessagesResponse(message=message, sequence=message.sequence)
                    # Nothing there means that the rest was deleted.
                    sequence = read if read > sequence else standing.last_sequence
                if standing.is_over:
                    yield pb.StreamMessagesResponse(sequence=sequence, is_over=True)
                    return
                while not await follower.news(self._heartbeat):
                    yield pb.StreamMessagesResponse(sequence=sequence)
                if follower.why is not None:
                    raise follower.why
        finally:
            self._followers.get(tenant_id, set()).discard(follower)

    def _join(self, tenant_id: UUID, follower: StreamSubscriber) -> StreamSubscriber:
        followers = self._followers.get(tenant_id)
        if followers is None:
            followers = self._followers[tenant_id] = set()
            # It looks for all who come, so it is not the work of the call that came first.
            task = asyncio.create_task(self._look(tenant_id, followers), context=contextvars.Context())
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
        followers.add(follower)
        return follower

    async def _look(self, tenant_id: UUID, followers: set[StreamSubscriber]) -> None:
        pause, failures = FIRST_PAUSE_SECONDS, 0
        while True:
            await asyncio.sleep(pause)
            if not followers:
                del self._followers[tenant_id]
                return
            pause = min(2 * pause, self._longest_pause)
            asked = {follower.session_id for follower in followers}
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    found = await self._store.read(tenant_id, asked)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may find out more.
                failures += 1
                log.warning("follow_failed", error=type(error).__name__, failures=failures)
                if failures >= _FAILURES:
                    for follower in followers:
                        follower.end(error if isinstance(error, RpcError) else DatabaseUnavailable())
                continue
            failures = 0
            news = [
                follower.learn(found.get(follower.session_id)) for follower in followers if follower.session_id in asked
            ]
            if any(news):
                pause = FIRST_PAUSE_SECONDS
