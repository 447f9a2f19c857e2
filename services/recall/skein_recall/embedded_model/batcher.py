"""Gathers the texts of concurrent callers into batches and embeds them on one thread. Knows no event loop."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

# Padding included; room for one text of the model's full window. Larger batches save less than a tenth of the time,
# while memory and the wait of whoever comes next grow with them.
BATCH_TOKENS = 256

# What is tokenised and sorted by length together: some milliseconds' work, because whoever asks next waits for it.
WINDOW_TEXTS = 64
WINDOW_CHARACTERS = 16_384

# A request of more than this is a backlog, and takes turns with the small ones. A single text is always small.
SMALL_REQUEST_TEXTS = 8
SMALL_REQUEST_CHARACTERS = 8192

# Texts that may wait in each lane: seconds' work, beyond which nobody would wait for the answer. Whoever comes to an
# empty lane is taken whatever he brings.
SMALL_LANE_TEXTS = 256
BACKLOG_LANE_TEXTS = 2048


class EmbedderClosed(RuntimeError):
    """The embedder was closed before it came to this text."""


class EmbedderBusy(RuntimeError):
    """Too many texts wait already; ask again later, or do without."""


class Model(Protocol):
    """What turns text into vectors; called from one thread only."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, never more than the model's window."""

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """One unit vector for each row."""


@dataclass(slots=True, eq=False)
class _Request:
    """One caller's texts; complete when `missing` is zero. A caller who gave up has cancelled `done`."""

    texts: Sequence[str]
    vectors: NDArray[np.float32]
    missing: int
    # How many of the texts were planned; the others wait.
    planned: int = 0
    # When it came, and whether none of its texts have run yet.
    since: float = field(default_factory=time.perf_counter)
    waits: bool = True
    done: Future[NDArray[np.float32]] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        if not self.done.done() and self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)

    def deliver(self, place: int, vector: NDArray[np.float32]) -> None:
        self.vectors[place] = vector
        self.missing -= 1
        if not self.missing and not self.done.done() and self.done.set_running_or_notify_cancel():
            self.done.set_result(self.vectors)


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    request: _Request
    place: int
    text: str


@dataclass(frozen=True, slots=True)
class _Tokens:
    request: _Request
    place: int
    ids: list[int]


@dataclass(slots=True, eq=False)
class _Lane:
    """Requests whose texts wait, in the order of their turns, and batches cut from what was planned."""

    room: int
    # Texts that wait, in either form.
    depth: int = 0
    waiting: deque[_Request] = field(default_factory=deque)
    batches: deque[list[_Tokens]] = field(default_factory=deque)


class Batcher:
    """One thread, two lanes: small requests and backlogs alternate, so neither keeps the other waiting for long.

    Within a lane requests take turns, text by text: a long one keeps none of the others waiting for its end.
    There is no timer: what arrives while a batch runs makes up the next one.
    """

    def __init__(
        self,
        model: Model,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> None:
        """Start nothing; the thread comes with the first text."""
        self._model = model
        self._on_batch = on_batch
        self._on_begin = on_begin
        self._lock = Lock()
        self._small, self._backlog = _Lane(SMALL_LANE_TEXTS), _Lane(BACKLOG_LANE_TEXTS)
        self._turn = deque([self._small, self._backlog])
        self._pumping = False
        self._closed = False
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")

    @property
    def depth(self) -> int:
        """Texts that wait for their batch."""
        return self._small.depth + self._backlog.depth

    def submit(self, texts: Sequence[str]) -> Future[NDArray[np.float32]]:
        """Queue one caller's texts; cancelling the future drops those that have not run yet.

        Raises EmbedderClosed, and EmbedderBusy when as many texts wait already as a lane has room for.
        """
        vectors = np.empty((len(texts), self._model.dimensions), dtype=np.float32)
        request = _Request(texts, vectors, missing=len(texts))
        lane = self._small if _is_small(texts) else self._backlog
        with self._lock:
            if self._closed:
                raise EmbedderClosed
            if lane.depth and lane.depth + len(texts) > lane.room:
                raise EmbedderBusy
            lane.waiting.append(request)
            lane.depth += len(texts)
            if not self._pumping:
                self._pumping = True
                self._executor.submit(self._pump)
        return request.done

    def close(self) -> None:
        """Let the running batch end, fail what waits, end the thread; blocks until that is done."""
        with self._lock:
            self._closed = True
        self._executor.shutdown(wait=True)

    def _pump(self) -> None:
        while (lane := self._next_lane()) is not None:
            if not lane.batches:
                self._plan(lane)
            if lane.batches:
                self._run(lane, lane.batches.popleft())

    def _next_lane(self) -> _Lane | None:
        """Whose turn it is; `None` when nothing waits, and from then on the next text starts a new pump."""
        with self._lock:
            if self._closed:
                self._refuse_all()
            for lane in tuple(self._turn):
                self._turn.rotate(-1)
                if lane.batches or lane.waiting:
                    return lane
            self._pumping = False
            return None

    def _refuse_all(self) -> None:
        for lane in self._turn:
            abandoned = set(lane.waiting)
            abandoned.update(entry.request for batch in lane.batches for entry in batch)
            lane.waiting.clear()
            lane.batches.clear()
            lane.depth = 0
            for request in abandoned:
                request.fail(EmbedderClosed())

    def _plan(self, lane: _Lane) -> None:
        """Tokenise the head of a lane and cut it into batches of similar length."""
        with self._lock:
            _drop_cancelled(lane)
            wanted = _head(lane.waiting)
        try:
            rows = self._model.tokens([entry.text for entry in wanted])
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers; the thread serves on
            self._leave(lane, len(wanted))
            _fail(wanted, error)
            return
        tokens = [_Tokens(entry.request, entry.place, ids) for entry, ids in zip(wanted, rows, strict=True)]
        lane.batches.extend(batches(tokens))

    def _run(self, lane: _Lane, batch: list[_Tokens]) -> None:
        self._leave(lane, len(batch))
        wanted = [entry for entry in batch if not entry.request.done.done()]
        if not wanted:
            return
        try:
            began = time.perf_counter()
            self._note_begun(wanted, began)
            vectors = self._model.vectors([entry.ids for entry in wanted])
            if self._on_batch is not None:
                self._on_batch(len(wanted), time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers; the thread serves on
            _fail(wanted, error)
            return
        for entry, vector in zip(wanted, vectors, strict=True):
            entry.request.deliver(entry.place, vector)

    def _note_begun(self, batch: list[_Tokens], at: float) -> None:
        """Tell how long each of the requests waited that have their first texts in a batch."""
        for request in {entry.request: None for entry in batch if entry.request.waits}:
            request.waits = False
            if self._on_begin is not None:
                self._on_begin(at - request.since)

    def _leave(self, lane: _Lane, texts: int) -> None:
        with self._lock:
            lane.depth -= texts


def _is_small(texts: Sequence[str]) -> bool:
    few = len(texts) <= SMALL_REQUEST_TEXTS and sum(map(len, texts)) <= SMALL_REQUEST_CHARACTERS
    return len(texts) == 1 or few


def _drop_cancelled(lane: _Lane) -> None:
    for request in [request for request in lane.waiting if request.done.done()]:
        lane.waiting.remove(request)
        lane.depth -= len(request.texts) - request.planned


def _head(waiting: deque[_Request]) -> list[_Text]:
    """Take the texts that are planned together, one of each request in turn; at least one if any waits."""
    head: list[_Text] = []
    characters = 0
    while waiting and len(head) < WINDOW_TEXTS:
        request = waiting[0]
        text = request.texts[request.planned]
        characters += len(text)
        if head and characters > WINDOW_CHARACTERS:
            break
        head.append(_Text(request, request.planned, text))
        request.planned += 1
        waiting.rotate(-1)
        if request.planned == len(request.texts):
            waiting.pop()
    return head


def batches(tokens: Sequence[_Tokens]) -> Iterator[list[_Tokens]]:
    """Shortest first, as many together as `BATCH_TOKENS` holds when each is padded to the longest."""
    batch: list[_Tokens] = []
    for entry in sorted(tokens, key=lambda entry: len(entry.ids)):
        if batch and (len(batch) + 1) * len(entry.ids) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def _fail(entries: Sequence[_Text] | Sequence[_Tokens], error: Exception) -> None:
    for entry in entries:
        entry.request.fail(error)
