"""The processor time that a call uses: its steps on the event loop, and what it has threads do.

Waiting costs nothing: for the database, for another service, for a lock. Tasks that a call starts are not counted,
except for the calls within the process that they make.

Python runs one thread at a time. So threads of costly calls pause while cheap calls run, for at most twice the time
that they worked: a costly call takes three times as long at worst, and cheap calls rarely wait for one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

# Work on less than this takes about a millisecond and stays on the event loop.
LARGE_BYTES = 64 * 1024
# A shorter step counts as long as it lasted. Reading a thread's processor time is a system call, up to 14 µs on a busy
# virtual machine, and a call has some twenty steps.
_SHORT_SECONDS = 0.0005
# A thread works for this long between pauses, and pauses for up to so many times as long as it worked.
_MIN_WORK_SECONDS = 0.002
_MAX_PAUSE_FACTOR = 2

P = ParamSpec("P")
T = TypeVar("T")

# The meter of the current call, and the task whose steps it counts already.
_METER: ContextVar[tuple[ProcessorTime, object] | None] = ContextVar("processor_time", default=None)


class _ThreadClock(threading.local):
    """The processor time of the thread up to the end of its last step."""

    def __init__(self) -> None:
        self._end = time.thread_time()

    def seconds_of(self, elapsed: float) -> float:
        """Return the processor time of a step that ends now and lasted so long: less, if the thread had to wait."""
        if elapsed < _SHORT_SECONDS:
            self._end += elapsed
            return elapsed
        start, self._end = self._end, time.thread_time()
        # Since the last step the thread may have done other work.
        return min(elapsed, max(0.0, self._end - start))


_CLOCK = _ThreadClock()


class CheapCalls:
    """The cheap calls that run in this process; threads may wait until there are none."""

    def __init__(self) -> None:
        """Start without calls."""
        self._count = 0
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Count a call."""
        with self._changed:
            self._count += 1

    def end(self) -> None:
        """Count a call no longer."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_ended(self, seconds: float, *, own: int) -> None:
        """Wait in a thread, at most so many seconds, until no calls run but `own`."""
        if self._count > own:
            with self._changed:
                self._changed.wait_for(lambda: self._count <= own, seconds)


CHEAP_CALLS = CheapCalls()


class ProcessorTime:
    """The seconds that one call has used so far."""

    __slots__ = ("_expected", "_is_cheap", "_max_cheap", "_on_growth", "seconds")

    def __init__(self, expected: float, *, max_cheap: float, on_growth: Callable[[float], None]) -> None:
        """Expect the call to take so many seconds; after each step that goes beyond, `on_growth` gets the sum.

        The call is cheap while it takes no more than `max_cheap`.
        """
        self.seconds = 0.0
        self._expected = expected
        self._max_cheap = max_cheap
        self._on_growth = on_growth
        self._is_cheap = expected <= max_cheap
        if self._is_cheap:
            CHEAP_CALLS.begin()

    def close(self) -> None:
        """End the call."""
        if self._is_cheap:
            self._is_cheap = False
            CHEAP_CALLS.end()

    async def measure(self, work: Awaitable[T]) -> T:
        """Await work of the call and count its steps."""
        token = _METER.set((self, asyncio.current_task()))
        try:
            return await _Measured(work, self)
        finally:
            _METER.reset(token)

    def add(self, seconds: float) -> None:
        """Count further seconds."""
        self.seconds += seconds
        if self.seconds > self._expected:
            self._on_growth(self.seconds)
        if self._is_cheap and self.seconds > self._max_cheap:
            self.close()

    @property
    def is_cheap(self) -> bool:
        """Whether the call counts as cheap."""
        return self._is_cheap


class _Measured(Generic[T]):
    """An awaitable that passes everything on to another one and times its steps."""

    __slots__ = ("_meter", "_work")

    def __init__(self, work: Awaitable[T], meter: ProcessorTime) -> None:
        self._work = work
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, T]:
        steps, clock = self._work.__await__(), _CLOCK
        error: BaseException | None = None
        while True:
            start_time = time.perf_counter()
            try:
                awaited = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._meter.add(clock.seconds_of(time.perf_counter() - start_time))
            try:
                yield awaited
                error = None
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as raised:  # noqa: BLE001 - the work itself decides what becomes of it.
                error = raised


async def measure_part(work: Awaitable[T]) -> T:
    """Await a part of the current call, which may run in a task of its own, and count its steps once."""
    current = _METER.get()
    if current is None or current[1] is asyncio.current_task():
        return await work
    return await current[0].measure(work)


async def run_by_size(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run code that works on about `size` bytes: in a thread if they are many, so that other calls go on meanwhile."""
    if size < LARGE_BYTES:
        return function(*args, **kwargs)
    return await run_in_thread(function, *args, **kwargs)


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run code that takes milliseconds in a thread, and count its time for the current call."""

    def run() -> tuple[T, float]:
        start_time = time.thread_time()
        _WORK.set(_ThreadWork())
        result = function(*args, **kwargs)
        return result, time.thread_time() - start_time

    result, seconds = await asyncio.to_thread(run)
    current = _METER.get()
    if current is not None:
        current[0].add(seconds)
    return result


class _ThreadWork:
    """The time since a thread has paused last."""

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since = time.perf_counter()


_WORK: ContextVar[_ThreadWork | None] = ContextVar("thread_work", default=None)


def with_pauses(items: Iterable[T]) -> Iterator[T]:
    """Yield items of long work; in a thread of `run_in_thread`, pause between them while cheap calls run."""
    work, current = _WORK.get(), _METER.get()
    if work is None or current is None:
        yield from items
        return
    for item in items:
        seconds = time.perf_counter() - work.since
        if seconds > _MIN_WORK_SECONDS:
            CHEAP_CALLS.wait_ended(_MAX_PAUSE_FACTOR * seconds, own=int(current[0].is_cheap))
            work.since = time.perf_counter()
        yield item
