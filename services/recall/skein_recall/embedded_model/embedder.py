"""The interface of an embedded model: embed texts in batches, and cut long ones into chunks.

The texts of concurrent callers share batches. One thread embeds small requests; threads of low priority embed bulk ones
on idle cores.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from types import TracebackType
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from skein_recall.embedded_model import chunks as chunking
from skein_recall.embedded_model.bulk_threads import DEFAULT_BULK_THREADS, BulkThreads
from skein_recall.embedded_model.descriptions import DIMENSIONS, EMBEDDED_MODELS, MINILM, EncoderDescription
from skein_recall.embedded_model.encoder import SPECIAL_TOKENS, WINDOW, Encoder
from skein_recall.embedded_model.token_vectors import TOKEN_DIMENSIONS

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

_NO_TOKENS: Final = np.empty((0, TOKEN_DIMENSIONS), dtype=np.float32)


class EmbedderClosed(RuntimeError):
    """The embedder was closed before it embedded this text."""


class EmbedderBusy(RuntimeError):
    """Too many texts wait. Try again later, or do without."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedderHooks:
    """Functions that the embedder's threads call, for metrics."""

    # After each batch: its number of texts, and its seconds.
    on_batch: Callable[[int, float], None] | None = None
    # Seconds that a request waited for its first text.
    on_begin: Callable[[float], None] | None = None
    # The same, of small requests alone: bulk ones wait for idle cores.
    on_small_begin: Callable[[float], None] | None = None


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
        bulk_threads: BulkThreads = DEFAULT_BULK_THREADS,
        hooks: EmbedderHooks | None = None,
        has_tokens: bool = True,
    ) -> None:
        """Use a loaded model; see `load`."""
        self._model = loaded
        self._has_tokens = has_tokens and loaded.description.has_tokens
        self._batcher = Batcher(loaded, hooks, bulk_threads=bulk_threads)

    @classmethod
    def load(
        cls,
        description: EncoderDescription = MINILM,
        *,
        threads: int = 1,
        bulk_threads: BulkThreads = DEFAULT_BULK_THREADS,
        hooks: EmbedderHooks | None = None,
        has_tokens: bool = True,
    ) -> Self:
        """Load the weights and prepare the graph; blocks for about 0.2 s. Raises WeightsUnavailable.

        A batch may use `threads` cores. Each of the bulk threads runs a batch of its own. Codes of tokens are computed
        with `has_tokens` alone.
        """
        encoder = Encoder.load(description, threads=threads)
        return cls(encoder, bulk_threads=bulk_threads, hooks=hooks, has_tokens=has_tokens)

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
        return await self._embed(texts, None)

    async def embed_with_tokens(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]] | None]:
        """Embed as `embed` does; return with the vectors those of each text's tokens, float32 (tokens, 32).

        None where this model has none, or they are left out.
        """
        tokens = [_NO_TOKENS] * len(texts) if self._has_tokens else None
        return await self._embed(texts, tokens), tokens

    def words_of_tokens(self, text: str) -> list[str]:
        """Return the word that each of a text's tokens is a part of, in lower case."""
        return self._model.words_of_tokens(text[:READ_CHARACTERS])

    async def _embed(self, texts: Sequence[str], tokens: list[NDArray[np.float32]] | None) -> NDArray[np.float32]:
        texts = [text[:READ_CHARACTERS] for text in texts]
        for text in texts:
            # A lone surrogate cannot be tokenized; it must fail here, not in a batch with other callers' texts.
            if not text.isascii():
                text.encode()
        if not texts:
            return np.empty((0, DIMENSIONS), dtype=np.float32)
        return await asyncio.wrap_future(self._batcher.submit(texts, tokens))

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
    """Turns text into vectors; called from several threads."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, at most the model's window."""

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return float32 (rows, dimensions) of unit vectors."""

    def vectors_and_tokens(
        self, rows: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return the vectors, and those of each row's tokens, float32 (tokens, 32)."""


@dataclass(slots=True, eq=False)
class _Request:
    """One caller's texts; complete when `missing` is zero. The caller cancels `future` to withdraw them."""

    texts: Sequence[str]
    vectors: NDArray[np.float32]
    # The vectors of each text's tokens; None where the caller does not need them.
    tokens: list[NDArray[np.float32]] | None
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

    @property
    def is_small(self) -> bool:
        return is_small(self.texts)

    def deliver(self, index: int, vector: NDArray[np.float32], tokens: NDArray[np.float32]) -> None:
        self.vectors[index] = vector
        if self.tokens is not None:
            self.tokens[index] = tokens
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
    """Requests with waiting texts, in the order of their turns, batches of planned texts, and the threads for them."""

    max_texts: int
    threads: int
    executor: ThreadPoolExecutor
    # Threads at work.
    running: int = 0
    # Texts in requests and batches.
    depth: int = 0
    requests: deque[_Request] = field(default_factory=deque)
    batches: deque[list[_Tokens]] = field(default_factory=deque)


class Batcher:
    """Two queues with threads of their own: one for small requests, and some of low priority for bulk ones.

    Within a queue, requests take turns text by text, so that a long one does not block the others. There is no timer:
    texts that arrive while a batch runs form the next one.
    """

    def __init__(
        self,
        model: Model,
        hooks: EmbedderHooks | None = None,
        *,
        bulk_threads: BulkThreads = DEFAULT_BULK_THREADS,
    ) -> None:
        """The threads start with the first texts. See `LocalEmbedder.load`."""
        self._model = model
        self._hooks = hooks or EmbedderHooks()
        # Of all that threads share. A future's callbacks run inside of it.
        self._lock = RLock()
        self._is_closed = False
        self._small = _Queue(SMALL_QUEUE_TEXTS, 1, ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder"))
        self._bulk = _Queue(
            BULK_QUEUE_TEXTS,
            bulk_threads.count,
            ThreadPoolExecutor(
                max_workers=bulk_threads.count,
                thread_name_prefix="embedder-bulk",
                initializer=bulk_threads.lower_priority,
            ),
        )

    @property
    def depth(self) -> int:
        """Texts in both queues."""
        return self._small.depth + self._bulk.depth

    def submit(
        self, texts: Sequence[str], tokens: list[NDArray[np.float32]] | None = None
    ) -> Future[NDArray[np.float32]]:
        """Queue texts; the result is float32 (texts, dimensions). Cancel the future to drop those that have not run.

        Into `tokens`, one for each text, the vectors of their tokens are written before the result is there.
        Raises EmbedderClosed, and EmbedderBusy when the queue is full.
        """
        vectors = np.empty((len(texts), self._model.dimensions), dtype=np.float32)
        request = _Request(texts, vectors, tokens, missing=len(texts))
        queue = self._small if request.is_small else self._bulk
        with self._lock:
            if self._is_closed:
                raise EmbedderClosed
            if queue.depth and queue.depth + len(texts) > queue.max_texts:
                raise EmbedderBusy
            queue.requests.append(request)
            queue.depth += len(texts)
            self._start(queue, 1)
        return request.future

    def close(self) -> None:
        """Finish the running batches, fail the queues, end the threads; blocks until then."""
        with self._lock:
            self._is_closed = True
        for queue in (self._small, self._bulk):
            queue.executor.shutdown(wait=True)

    def _start(self, queue: _Queue, count: int) -> None:
        """Have up to `count` more threads work on a queue."""
        for _ in range(min(count, queue.threads - queue.running)):
            queue.running += 1
            queue.executor.submit(self._run, queue)

    def _run(self, queue: _Queue) -> None:
        while (batch := self._next_batch(queue)) is not None:
            self._run_batch(batch)

    def _next_batch(self, queue: _Queue) -> list[_Tokens] | None:
        """Take the next batch; None ends the run of this thread, and later texts start another."""
        while True:
            with self._lock:
                if self._is_closed:
                    self._fail_all()
                if queue.batches:
                    batch = queue.batches.popleft()
                    queue.depth -= len(batch)
                    return batch
                _drop_cancelled(queue)
                head = _take_head(queue.requests)
                if not head:
                    queue.running -= 1
                    return None
            self._plan(queue, head)

    def _fail_all(self) -> None:
        for queue in (self._small, self._bulk):
            requests = set(queue.requests)
            requests.update(entry.request for batch in queue.batches for entry in batch)
            queue.requests.clear()
            queue.batches.clear()
            queue.depth = 0
            for request in requests:
                request.fail(EmbedderClosed())

    def _plan(self, queue: _Queue, head: list[_Text]) -> None:
        """Tokenize the head of a queue and cut it into batches of similar length."""
        try:
            rows = self._model.tokens([entry.text for entry in head])
        except Exception as error:  # noqa: BLE001 - the callers get it; the thread serves on
            with self._lock:
                queue.depth -= len(head)
                _fail(head, error)
            return
        tokens = [_Tokens(entry.request, entry.index, ids) for entry, ids in zip(head, rows, strict=True)]
        with self._lock:
            queue.batches.extend(batches(tokens))
            if not self._is_closed:
                # This thread takes one of the batches.
                self._start(queue, len(queue.batches) - 1)

    def _run_batch(self, batch: list[_Tokens]) -> None:
        entries = [entry for entry in batch if not entry.request.future.done()]
        if not entries:
            return
        try:
            began = time.perf_counter()
            self._report_waits(entries, began)
            rows = [entry.ids for entry in entries]
            if any(entry.request.tokens is not None for entry in entries):
                vectors, tokens = self._model.vectors_and_tokens(rows)
            else:
                vectors, tokens = self._model.vectors(rows), [_NO_TOKENS] * len(rows)
            if self._hooks.on_batch is not None:
                self._hooks.on_batch(len(entries), time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - the callers get it; the thread serves on
            with self._lock:
                _fail(entries, error)
            return
        with self._lock:
            for entry, vector, vectors_of_tokens in zip(entries, vectors, tokens, strict=True):
                entry.request.deliver(entry.index, vector, vectors_of_tokens)

    def _report_waits(self, batch: list[_Tokens], at: float) -> None:
        """Report the waiting times of requests that have their first texts in a batch."""
        with self._lock:
            requests = list({entry.request: None for entry in batch if entry.request.is_waiting})
            for request in requests:
                request.is_waiting = False
        for request in requests:
            if self._hooks.on_begin is not None:
                self._hooks.on_begin(at - request.arrival)
            if self._hooks.on_small_begin is not None and request.is_small:
                self._hooks.on_small_begin(at - request.arrival)


def is_small(texts: Sequence[str]) -> bool:
    """Return whether a request of these texts is embedded before bulk ones, at normal priority."""
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


class LocalEmbedders:
    """The embedders by the names of their models; the end of the block closes all of them."""

    def __init__(
        self,
        *,
        threads: int = 1,
        bulk_threads: BulkThreads = DEFAULT_BULK_THREADS,
        hooks: EmbedderHooks | None = None,
        has_tokens: bool = True,
    ) -> None:
        """See `LocalEmbedder.load`."""
        self._threads = threads
        self._bulk_threads = bulk_threads
        self._hooks = hooks
        self.has_tokens = has_tokens
        self._loads: dict[str, asyncio.Task[LocalEmbedder]] = {}

    async def __aenter__(self) -> Self:
        """Return the embedders."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every embedder, those that are being loaded too."""
        for load in self._loads.values():
            with suppress(Exception):
                await (await load).aclose()

    @property
    def queue_depth(self) -> int:
        """Texts in the queues of all models, without the running batches."""
        loads = [load for load in self._loads.values() if load.done() and not load.cancelled()]
        return sum(load.result().queue_depth for load in loads if load.exception() is None)

    async def get(self, name: str) -> LocalEmbedder:
        """Return the embedder of a model; load it in a thread if need be. Raises WeightsUnavailable.

        The cancellation of one caller does not stop the loading for others.
        """
        load = self._loads.get(name)
        if load is None or (load.done() and load.exception() is not None):
            load = self._loads[name] = asyncio.create_task(self._load(name))
        return await asyncio.shield(load)

    async def _load(self, name: str) -> LocalEmbedder:
        return await asyncio.to_thread(
            LocalEmbedder.load,
            EMBEDDED_MODELS[name],
            threads=self._threads,
            bulk_threads=self._bulk_threads,
            hooks=self._hooks,
            has_tokens=self.has_tokens,
        )
