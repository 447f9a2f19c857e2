"""The embedded models of one process: each is loaded on first use."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from skein_recall.embedded_model.bulk_threads import DEFAULT_BULK_THREADS, BulkThreads
from skein_recall.embedded_model.descriptions import EMBEDDED_MODELS
from skein_recall.embedded_model.embedder import EmbedderHooks, LocalEmbedder


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
