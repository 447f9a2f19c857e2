"""The embedded embedding model as the rest of the service sees it: await vectors, cut long text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from skein_recall.embedded_model import chunks as chunking
from skein_recall.embedded_model.batcher import Batcher, EmbedderBusy, EmbedderClosed
from skein_recall.embedded_model.minilm import DIMENSIONS, SPECIAL_TOKENS, WINDOW, MiniLM, ModelUnavailable
from skein_recall.query_cache import QueryCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["EmbedderBusy", "EmbedderClosed", "LocalEmbedder", "ModelUnavailable"]

# What a chunk may hold: the window without [CLS] and [SEP].
CHUNK_TOKENS: Final = WINDOW - SPECIAL_TOKENS

# What is read of a text at most. The window is full long before in any writing; the tokenizer would go on to the end.
READ_CHARACTERS: Final = 8192

# 1.5 kB each.
CACHED_QUERIES: Final = 1024


class LocalEmbedder:
    """all-MiniLM-L6-v2 in this process: load one, share it, `aclose` it.

    Callers of any event loop may use it at the same time; their texts share batches. Cancelling one caller withdraws
    its texts and touches no other's.
    """

    model: Final = "all-MiniLM-L6-v2"
    dimensions: Final = DIMENSIONS

    def __init__(
        self,
        loaded: MiniLM,
        *,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> None:
        """Wrap a loaded model; `load` is the usual way in."""
        self._model = loaded
        self._batcher = Batcher(loaded, on_batch, on_begin)
        self._queries = QueryCache(most=CACHED_QUERIES)

    @classmethod
    def load(
        cls,
        *,
        threads: int = 1,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> Self:
        """Map the weights and prepare the graph: some 0.2 s, and it blocks. Raises `ModelUnavailable`.

        Called on the embedder's own thread, for metrics: `on_batch(texts, seconds)` after each batch, and
        `on_begin(seconds)` when a request's first texts run, with the time that it waited.
        """
        return cls(MiniLM.load(threads=threads), on_batch=on_batch, on_begin=on_begin)

    async def __aenter__(self) -> Self:
        """Lend itself to `async with`."""
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
        """Texts that wait for their batch, the running one not counted."""
        return self._batcher.depth

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector for each text, as rows of (n, 384).

        Of a text beyond 256 tokens, or READ_CHARACTERS, only the beginning counts. Few texts pass a backlog of many.
        The array belongs to the caller. Raises `EmbedderClosed`, and `EmbedderBusy` when too many texts wait already.
        """
        texts = [text[:READ_CHARACTERS] for text in texts]
        for text in texts:
            # A lone surrogate cannot be tokenised; it must fail its own caller here, not the batch of several.
            if not text.isascii():
                text.encode()
        if not texts:
            return np.empty((0, DIMENSIONS), dtype=np.float32)
        return await asyncio.wrap_future(self._batcher.submit(texts))

    async def embed_query(self, text: str, *, scope: str = "") -> NDArray[np.float32]:
        """The vector (384,) of one query, remembered for the next time; read-only, because it is shared.

        Callers who ask the same at the same time share one run of the model; a cancelled one takes it from nobody.

        Pass the tenant as `scope`: the time of an answer must not tell whether *another* tenant asked the same. Only
        a digest of the text is kept.
        """

        async def make() -> NDArray[np.float32]:
            vector: NDArray[np.float32] = (await self.embed([text]))[0]
            return vector

        return await self._queries.vector(text, scope, make)

    def drop(self, scope: str | None) -> None:
        """Forget the vectors of a scope's queries; None: of every scope's."""
        self._queries.drop(scope)

    def chunks(self, text: str) -> list[str]:
        """The text itself when the model can read it whole, else overlapping pieces of it that the model can."""
        return [text[start:end] for start, end in self.spans(text)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each chunk begins and ends, in characters.

        Takes 0.5 ms for each 1,000 characters and may be called from any thread, so give a long text to
        `asyncio.to_thread`.
        """
        # Every ASCII character is at most one token; others may be several.
        if text.isascii() and len(text) <= CHUNK_TOKENS:
            return [(0, len(text))]
        word_ids, offsets = self._model.words(text)
        if len(offsets) <= CHUNK_TOKENS:
            return [(0, len(text))]
        return list(chunking.spans(text, chunking.words(text, word_ids, offsets), window=CHUNK_TOKENS))

    async def aclose(self) -> None:
        """Let the running batch end, refuse what waits with `EmbedderClosed`, end the thread; may be repeated."""
        await asyncio.to_thread(self._batcher.close)
