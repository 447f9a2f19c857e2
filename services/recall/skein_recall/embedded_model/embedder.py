"""The interface of the embedded model: embed texts, and cut long ones into chunks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from skein_recall.embedded_model import DIMENSIONS, NAME
from skein_recall.embedded_model import chunks as chunking
from skein_recall.embedded_model.batcher import Batcher, EmbedderBusy, EmbedderClosed
from skein_recall.embedded_model.minilm import SPECIAL_TOKENS, WINDOW, MiniLM, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["EmbedderBusy", "EmbedderClosed", "LocalEmbedder", "ModelUnavailable"]

# Tokens of a chunk: the window without [CLS] and [SEP].
CHUNK_TOKENS: Final = WINDOW - SPECIAL_TOKENS

# Characters that are tokenized of a text: any writing fills the window long before.
READ_CHARACTERS: Final = 8192


class LocalEmbedder:
    """all-MiniLM-L6-v2 in this process.

    Callers of any event loop may use one embedder at the same time; their texts share batches. The cancellation of one
    caller removes its texts alone.
    """

    model: Final = NAME
    dimensions: Final = DIMENSIONS

    def __init__(
        self,
        loaded: MiniLM,
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
        *,
        threads: int = 1,
        on_batch: Callable[[int, float], None] | None = None,
        on_begin: Callable[[float], None] | None = None,
    ) -> Self:
        """Load the weights and prepare the graph; blocks for about 0.2 s. Raises ModelUnavailable.

        For metrics, the embedder's thread calls `on_batch(texts, seconds)` after each batch, and `on_begin(seconds)`
        with the time that a request waited until its first text runs.
        """
        return cls(MiniLM.load(threads=threads), on_batch=on_batch, on_begin=on_begin)

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

    def chunks(self, text: str) -> list[str]:
        """Cut a text into overlapping chunks that the model reads whole; a short text is one chunk."""
        return [text[start:end] for start, end in self.spans(text)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each chunk in characters.

        It takes 0.5 ms per 1,000 characters and is thread-safe: use `asyncio.to_thread` for a long text.
        """
        # An ASCII character is at most one token; another one may be several.
        if text.isascii() and len(text) <= CHUNK_TOKENS:
            return [(0, len(text))]
        word_ids, offsets = self._model.words(text)
        if len(offsets) <= CHUNK_TOKENS:
            return [(0, len(text))]
        return list(chunking.spans(text, chunking.words(text, word_ids, offsets), window=CHUNK_TOKENS))

    async def aclose(self) -> None:
        """Finish the running batch, fail the queue with EmbedderClosed, end the thread. May be called again."""
        await asyncio.to_thread(self._batcher.close)
