"""Retries: which failed calls are repeated, and after which pause. Pure: clock and random source are passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import grpc

from skein_client.errors import SkeinError

# The call had no effect, or an unknown one: a repeatable call can be repeated.
TRANSIENT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
# The call can be repeated after the pause that the server names, if it names one.
_SERVER_ADVICE = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED})
# A stream has no deadline of its own: an operation of the cluster behind it took too long.
_INTERRUPTED = TRANSIENT | {grpc.StatusCode.DEADLINE_EXCEEDED}
# A stream may break a thousand times, so the doubling of pauses has an end.
_MAX_DOUBLINGS = 60
_READ_VERBS = ("Get", "List", "BatchGet", "Search", "Stream")
_READS = frozenset(
    {
        "Recall", "CompareEmbeddingModels", "BuildContext", "EmbedText", "Introspect", "TraverseLinks", "FindPaths",
        "FindSimilar", "SuggestLinks", "SpreadActivation", "ExplainScore", "ExplainAccess", "ExportMemories",
        "ExportSubject", "ExportData", "CompileBlocks", "DiffSnapshots", "ReplayRecall", "DiffRecall", "ReplayContext",
    }
)  # fmt: skip


def is_read(method: str) -> bool:
    """Return whether a method ("ListMemories") changes nothing, by its name."""
    return method.startswith(_READ_VERBS) or method in _READS


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often and how long to try: exponential back-off with jitter, within the call's own deadline."""

    # Attempts in all; 1 turns retries off.
    attempts: int = 6
    first_pause_seconds: float = 0.1
    max_pause_seconds: float = 5.0
    # Seconds for which a broken stream tries to resume: longer than a restart of the cluster takes.
    stream_seconds: float = 300.0

    def pause_before(self, attempt: int, retry_after: float | None, random: float) -> float:
        """Return the seconds to wait before the attempt of this number (2 is the first repetition).

        `random` (0 to 1) spreads the pauses over the upper half of the backoff, so that many callers do not return at
        the same moment. The server's `retry_after` is added in full.
        """
        pause = self.first_pause_seconds * 2.0 ** min(attempt - 2, _MAX_DOUBLINGS)
        backoff = min(pause, self.max_pause_seconds)
        return (retry_after or 0.0) + backoff * (0.5 + random / 2)


class CallAttempts:
    """One call through all of its attempts, under one deadline."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        is_repeatable: bool,
        timeout: float,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        """Start the deadline. `is_repeatable`: a second call has no further effect. `timeout` is in seconds."""
        self._policy = policy
        self._is_repeatable = is_repeatable
        self._clock = clock
        self._random = random
        self._deadline = clock() + timeout
        self._count = 0

    def begin(self) -> float:
        """Count an attempt and return the seconds that it may take."""
        self._count += 1
        return max(0.0, self._deadline - self._clock())

    def pause_after(self, error: SkeinError) -> float:
        """Return the seconds to wait before the next attempt; raise the error when there is none."""
        if not (self._is_repeatable and is_retriable(error, TRANSIENT) and self._count < self._policy.attempts):
            raise error
        pause = self._policy.pause_before(self._count + 1, error.retry_after, self._random())
        if self._clock() + pause >= self._deadline:
            raise error
        return pause


class StreamReconnects:
    """Failures of one stream in a row, and the time of the first."""

    def __init__(self, policy: RetryPolicy, random: Callable[[], float], clock: Callable[[], float]) -> None:
        """`random` returns numbers from 0 to 1; `clock` returns seconds."""
        self._policy = policy
        self._random = random
        self._clock = clock
        self._count = 0
        self._first_failure_time = 0.0

    def reset(self) -> None:
        """Start counting again, because the stream delivered a message."""
        self._count = 0

    def pause_after(self, error: SkeinError) -> float:
        """Return the seconds to wait before resuming; raise the error when the stream must not resume."""
        if not self._count:
            self._first_failure_time = self._clock()
        self._count += 1
        is_late = self._clock() - self._first_failure_time >= self._policy.stream_seconds
        if not is_retriable(error, _INTERRUPTED) or is_late or self._policy.attempts == 1:
            raise error
        return self._policy.pause_before(self._count + 1, error.retry_after, self._random())


def is_retriable(error: SkeinError, transient: frozenset[grpc.StatusCode]) -> bool:
    return error.status in transient or (error.status in _SERVER_ADVICE and error.retry_after is not None)
