"""The interface of an embedded model: embed texts in batches, and cut long ones into chunks.

The texts of concurrent callers share batches, which one thread embeds. Small requests overtake bulk ones.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np

from skein_recall.embedded_model import chunks as chunking
from skein_recall.embedded_model.descriptions import DIMENSIONS, MINILM
from skein_recall.embedded_model.encoder import SPECIAL_TOKENS, WINDOW, Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from skein_recall.embedded_model.descriptions import EncoderDescription

# Tokens of a chunk: the window without [CLS] and [SEP].
CHUNK_TOKENS: Final = WINDOW - SPECIAL_TOKENS

# Characters that are tokenized of a text: any writing fills the window long before.
READ_CHARACTERS: Final = 8192

# With padding; room for one text of the model's full window. Larger batches save less than a tenth of the time, while
# memory and the wait of the next request grow with them.
BATCH_TOKENS = 256

# Texts that are tokenized and sorted by length together: some milliseconds' work, which the next request waits for.
WINDOW_TEXTS = 64
WINDOW_CHARACTERS = 16_384

# A larger request is a bulk one. A single text is always small. Writes whose callers wait have up to 16 texts: behind
# bulk requests of long texts they would miss their deadlines.
SMALL_REQUEST_TEXTS = 16
SMALL_REQUEST_CHARACTERS = 8192

# Texts in each queue: some seconds' work. An empty queue takes a request of any size.
SMALL_QUEUE_TEXTS = 256
BULK_QUEUE_TEXTS = 2048


class EmbedderClosed(RuntimeError):
    """The embedder was closed before it embedded this text."""


class EmbedderBusy(RuntimeError):
    """Too many texts wait. Try again later, or do without."""


class LocalEmbedder:
    """An embedded model in this process.

    Callers of any event loop may use one embedder at the same time; their texts share batches. The cancellation of one
    caller removes its texts alone.
    """

    dimensions: Final = DIMENSIONS

    def __init__(
        self,
        loaded: Encoder,
        *,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> None:
        """Use a loaded model; see `load`."""
        self._model = loaded
        self._batcher = Batcher(loaded, on_batch, on_begin)

    @classmethod
    def load(
        cls,
        description: EncoderDescription = MINILM,
        *,
        threads: int = 1,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> Self:
        """Load the weights and prepare the graph; blocks for about 0.2 s. Raises WeightsUnavailable.

        For metrics, the embedder's thread calls `on_batch(texts, seconds)` after each batch. It calls
        `on_begin(seconds)` with the time that a request waited for its first text.
        """
        return cls(Encoder.load(description, threads=threads), on_batch=on_batch, on_begin=on_begin)

    async def __aenter__(self) -> Self:
        """Return the embedder; the end of the block closes it."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.aclose()

    @property
    def queue_depth(self) -> int:
        """Texts in the queue, without the running batch."""
        return self._batcher.depth

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a float32 array (texts, 384) of unit vectors; the caller owns it.

        The first 256 tokens, within READ_CHARACTERS, of a text count. Small requests overtake large ones. Raises
        EmbedderClosed, and EmbedderBusy when too many texts wait.
        """
        texts = [text[:READ_CHARACTERS] for text in texts]
        for text in texts:
            # A lone surrogate cannot be tokenized; it must fail here, not in a batch with other callers' texts.
            if not text.isascii():
                text.encode()
        if not texts:
            return np.empty((0, DIMENSIONS), dtype=np.float32)
        return await asyncio.wrap_future(self._batcher.submit(texts))

    def chunks(self, text: str, *, prefix: str = "") -> list[str]:
        """Cut a text into overlapping chunks that the model reads whole behind a prefix; a short text is one chunk."""
        return [text[start:end] for start, end in self.spans(text, prefix=prefix)]

    def spans(self, text: str, *, prefix: str = "") -> list[tuple[int, int]]:
        """Return start and end of each chunk in characters.

        It takes 0.5 ms per 1,000 characters and is thread-safe: use `asyncio.to_thread` for a long text.
        """
        # An ASCII character is at most one token; another one may be several.
        window = CHUNK_TOKENS - (len(self._model.words(prefix)[1]) if prefix else 0)
        if text.isascii() and len(text) <= window:
            return [(0, len(text))]
        word_ids, offsets = self._model.words(text)
        if len(offsets) <= window:
            return [(0, len(text))]
        return list(chunking.spans(text, chunking.words(text, word_ids, offsets), window=window))

    def has_word(self, word: str) -> bool:
        """Return whether the model's vocabulary has a lower-case word as one piece: the frequent words of English."""
        return self._model.has_word(word)

    async def aclose(self) -> None:
        """Finish the running batch, fail the queue with EmbedderClosed, end the thread. May be called again."""
        await asyncio.to_thread(self._batcher.close)


class Model(Protocol):
    """Turns text into vectors; called from one thread only."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, at most the model's window."""

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return float32 (rows, dimensions) of unit vectors."""


@dataclass(slots=True, eq=False)
class _Request:
    """One caller's texts; complete when `missing` is zero. The caller cancels `future` to withdraw them."""

    texts: Sequence[str]
    vectors: NDArray[np.float32]
    missing: int
    # Texts that are in batches, or done.
    planned: int = 0
    arrival: float = field(default_factory=time.perf_counter)
    # None of its texts have run.
    is_waiting: bool = True
    future: Future[NDArray[np.float32]] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def deliver(self, index: int, vector: NDArray[np.float32]) -> None:
        self.vectors[index] = vector
        self.missing -= 1
        if not self.missing and not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_result(self.vectors)


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    request: _Request
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class _Tokens:
    request: _Request
    index: int
    ids: list[int]


@dataclass(slots=True, eq=False)
class _Queue:
    """Requests with waiting texts, in the order of their turns, and batches of planned texts."""

    max_texts: int
    # Texts in requests and batches.
    depth: int = 0
    requests: deque[_Request] = field(default_factory=deque)
    batches: deque[list[_Tokens]] = field(default_factory=deque)


class Batcher:
    """One thread with two queues: batches of small and of bulk requests alternate.

    Within a queue, requests take turns text by text, so that a long one does not block the others. There is no timer:
    texts that arrive while a batch runs form the next one.
    """

    def __init__(
        self,
        model: Model,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> None:
        """The thread starts with the first text. See `LocalEmbedder.load` for the callbacks."""
        self._model = model
        self._on_batch = on_batch
        self._on_begin = on_begin
        self._lock = Lock()
        self._small, self._bulk = _Queue(SMALL_QUEUE_TEXTS), _Queue(BULK_QUEUE_TEXTS)
        self._turns = deque([self._small, self._bulk])
        self._is_running = False
        self._is_closed = False
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")

    @property
    def depth(self) -> int:
        """Texts in both queues."""
        return self._small.depth + self._bulk.depth

    def submit(self, texts: Sequence[str]) -> Future[NDArray[np.float32]]:
        """Queue texts; the result is float32 (texts, dimensions). Cancel the future to drop those that have not run.

        Raises EmbedderClosed, and EmbedderBusy when the queue is full.
        """
        vectors = np.empty((len(texts), self._model.dimensions), dtype=np.float32)
        request = _Request(texts, vectors, missing=len(texts))
        queue = self._small if _is_small(texts) else self._bulk
        with self._lock:
            if self._is_closed:
                raise EmbedderClosed
            if queue.depth and queue.depth + len(texts) > queue.max_texts:
                raise EmbedderBusy
            queue.requests.append(request)
            queue.depth += len(texts)
            if not self._is_running:
                self._is_running = True
                self._executor.submit(self._run)
        return request.future

    def close(self) -> None:
        """Finish the running batch, fail the queues, end the thread; blocks until then."""
        with self._lock:
            self._is_closed = True
        self._executor.shutdown(wait=True)

    def _run(self) -> None:
        while (queue := self._next_queue()) is not None:
            if not queue.batches:
                self._plan(queue)
            if queue.batches:
                self._run_batch(queue, queue.batches.popleft())

    def _next_queue(self) -> _Queue | None:
        """Return the next queue with texts; None ends the run, and the next text starts another."""
        with self._lock:
            if self._is_closed:
                self._fail_all()
            for queue in tuple(self._turns):
                self._turns.rotate(-1)
                if queue.batches or queue.requests:
                    return queue
            self._is_running = False
            return None

    def _fail_all(self) -> None:
        for queue in self._turns:
            requests = set(queue.requests)
            requests.update(entry.request for batch in queue.batches for entry in batch)
            queue.requests.clear()
            queue.batches.clear()
            queue.depth = 0
            for request in requests:
                request.fail(EmbedderClosed())

    def _plan(self, queue: _Queue) -> None:
        """Tokenize the head of a queue and cut it into batches of similar length."""
        with self._lock:
            _drop_cancelled(queue)
            head = _take_head(queue.requests)
        try:
            rows = self._model.tokens([entry.text for entry in head])
        except Exception as error:  # noqa: BLE001 - the callers get it; the thread serves on
            self._subtract(queue, len(head))
            _fail(head, error)
            return
        tokens = [_Tokens(entry.request, entry.index, ids) for entry, ids in zip(head, rows, strict=True)]
        queue.batches.extend(batches(tokens))

    def _run_batch(self, queue: _Queue, batch: list[_Tokens]) -> None:
        self._subtract(queue, len(batch))
        entries = [entry for entry in batch if not entry.request.future.done()]
        if not entries:
            return
        try:
            began = time.perf_counter()
            self._report_waits(entries, began)
            vectors = self._model.vectors([entry.ids for entry in entries])
            if self._on_batch is not None:
                self._on_batch(len(entries), time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - the callers get it; the thread serves on
            _fail(entries, error)
            return
        for entry, vector in zip(entries, vectors, strict=True):
            entry.request.deliver(entry.index, vector)

    def _report_waits(self, batch: list[_Tokens], at: float) -> None:
        """Report the waiting times of requests that have their first texts in a batch."""
        for request in {entry.request: None for entry in batch if entry.request.is_waiting}:
            request.is_waiting = False
            if self._on_begin is not None:
                self._on_begin(at - request.arrival)

    def _subtract(self, queue: _Queue, texts: int) -> None:
        with self._lock:
            queue.depth -= texts


def _is_small(texts: Sequence[str]) -> bool:
    few = len(texts) <= SMALL_REQUEST_TEXTS and sum(map(len, texts)) <= SMALL_REQUEST_CHARACTERS
    return len(texts) == 1 or few


def _drop_cancelled(queue: _Queue) -> None:
    for request in [request for request in queue.requests if request.future.done()]:
        queue.requests.remove(request)
        queue.depth -= len(request.texts) - request.planned


def _take_head(requests: deque[_Request]) -> list[_Text]:
    """Take the texts of the next batches, one of each request in turn; at least one unless the queue is empty."""
    head: list[_Text] = []
    characters = 0
    while requests and len(head) < WINDOW_TEXTS:
        request = requests[0]
        text = request.texts[request.planned]
        characters += len(text)
        if head and characters > WINDOW_CHARACTERS:
            break
        head.append(_Text(request, request.planned, text))
        request.planned += 1
        requests.rotate(-1)
        if request.planned == len(request.texts):
            requests.pop()
    return head


def batches(tokens: Sequence[_Tokens]) -> Iterator[list[_Tokens]]:
    """Yield batches, the shortest texts first, of up to BATCH_TOKENS when padded to the longest."""
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
