"""When a failed call is made again, and after how long. Pure: clock and chance are passed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from skein_client.errors import SkeinError

# Nothing was done, or it is not known what was done; a repeatable call can be made again.
_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
# The server asks for patience, when it names a time.
_ASKED = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED})
# A stream that lasts has no deadline of its own: something that the cluster did for it took too long.
_CUT_OFF = _LOST | {grpc.StatusCode.DEADLINE_EXCEEDED}
# A stream may be cut off a thousand times: the doubling of pauses ends somewhere.
_MOST_DOUBLINGS = 60
_READ_VERBS = ("Get", "List", "BatchGet", "Search", "Watch", "Stream")
_READS = frozenset(
    {
        "Recall", "CompareModels", "BuildContext", "EmbedText", "Introspect", "Traverse", "FindPaths", "FindSimilar",
        "SuggestLinks", "Activate", "ExplainScore", "ExportMatching", "ExportSubject", "ExportData", "CompileBlocks",
        "DiffSnapshots",
    }
)  # fmt: skip


def is_read(method: str) -> bool:
    """Say whether a method, by its name ("ListMemories"), changes nothing."""
    return method.startswith(_READ_VERBS) or method in _READS


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often and how long to try: exponential back-off with jitter, within the call's own deadline."""

    # Attempts in all; 1 turns retries off.
    attempts: int = 6
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 5.0
    # For so long a stream that was cut off tries to go on, which should outlast a restart of the cluster.
    stream_seconds: float = 300.0

    def pause_before(self, attempt: int, retry_after: float | None, chance: float) -> float:
        """Return the seconds to wait before the attempt of this number (2 is the first repetition).

        `chance` (0 to 1) spreads the waits over the upper half of the back-off, so that many callers do not come back
        at the same moment; what the server asked for is waited in full on top.
        """
        doubled = self.first_pause_seconds * 2.0 ** min(attempt - 2, _MOST_DOUBLINGS)
        backoff = min(doubled, self.longest_pause_seconds)
        return (retry_after or 0.0) + backoff * (0.5 + chance / 2)


class CallAttempts:
    """One call through all of its attempts, under one deadline."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        repeatable: bool,
        timeout: float,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        """Start the deadline. `repeatable`: making the call twice has the effect of making it once."""
        self._policy = policy
        self._repeatable = repeatable
        self._clock = clock
        self._chance = chance
        self._ends = clock() + timeout
        self._made = 0

    def begin(self) -> float:
        """Count an attempt and return the seconds that it may take."""
        self._made += 1
        return max(0.0, self._ends - self._clock())

    def pause_after(self, error: SkeinError) -> float:
        """Return the seconds to wait before the next attempt; raise the error when there is none."""
        if not (self._repeatable and _is_retriable(error, _LOST) and self._made < self._policy.attempts):
            raise error
        pause = self._policy.pause_before(self._made + 1, error.retry_after, self._chance())
        if self._clock() + pause >= self._ends:
            raise error
        return pause


class StreamReconnects:
    """The times that a stream was cut off in a row, and since when."""

    def __init__(self, policy: RetryPolicy, chance: Callable[[], float], clock: Callable[[], float]) -> None:
        """Begin without any."""
        self._policy = policy
        self._chance = chance
        self._clock = clock
        self._count = 0
        self._since = 0.0

    def forget(self) -> None:
        """Begin to count anew: the stream went on."""
        self._count = 0

    def pause_after(self, error: SkeinError) -> float:
        """Return the seconds to wait before it is begun again; raise the error when it is not to be."""
        if not self._count:
            self._since = self._clock()
        self._count += 1
        late = self._clock() - self._since >= self._policy.stream_seconds
        if not _is_retriable(error, _CUT_OFF) or late or self._policy.attempts == 1:
            raise error
        return self._policy.pause_before(self._count + 1, error.retry_after, self._chance())


def _is_retriable(error: SkeinError, lost: frozenset[grpc.StatusCode]) -> bool:
    return error.status in lost or (error.status in _ASKED and error.retry_after is not None)
