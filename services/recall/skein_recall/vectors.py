"""Vectors of texts and of items: bounded in time, timed, traced. Holds no database connection."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skein_kit import logs
from skein_kit.errors import FieldInvalid, ServiceUnavailable
from skein_kit.telemetry import EMBEDDER_TEXTS, EMBEDDER_TIME, TRACING
from skein_recall.embedder import EmbedderBusy, EmbedderClosed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_recall.embedder import Embedder

log = logs.get("recall")
# Shorter texts are cut in less time than a thread takes to answer.
LONG_CHARACTERS = 4000
# What is left of a call's time for the search itself.
_SHARE_OF_TIME = 0.5


@dataclass(frozen=True, slots=True)
class Item:
    """An item whose vectors are to be made from its text at one revision."""

    item_id: UUID
    revision: int
    text: str


class Vectors:
    """Makes vectors with the embedded model."""

    def __init__(self, embedder: Embedder, *, query_seconds: float) -> None:
        self._embedder = embedder
        self._query_seconds = query_seconds

    async def of_query(self, text: str, *, tenant_id: UUID, seconds: float) -> NDArray[np.float32] | None:
        """The vector of a query, or None when the embedder fails or is late.

        It gets no more than half of the `seconds` that the call has left.
        """
        try:
            with _span(1):
                async with asyncio.timeout(min(self._query_seconds, seconds * _SHARE_OF_TIME)):
                    return await self._embedder.embed_query(text, scope=str(tenant_id))
        except Exception as error:  # noqa: BLE001 - whatever it is, words alone still find something.
            log.warning("embedder_did_not_answer", error=type(error).__name__)
            return None

    async def of_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector for each text, of what the model's window holds of it."""
        with _span(len(texts)):
            try:
                return await self._embedder.embed(texts)
            except (EmbedderBusy, EmbedderClosed):
                # Writers leave their items to the backlog.
                raise ServiceUnavailable(service="recall") from None

    async def of_items(self, items: Sequence[Item]) -> dict[UUID, NDArray[np.float32]]:
        """The vectors of each item, one for each chunk of its text; none for a blank text."""
        if sum(len(item.text) for item in items) > LONG_CHARACTERS:
            chunks = await asyncio.to_thread(self._chunks, items)
        else:
            chunks = self._chunks(items)
        made = await self.of_texts([chunk for parts in chunks for chunk in parts])
        ends = np.cumsum([len(parts) for parts in chunks])[:-1]
        return {item.item_id: vectors for item, vectors in zip(items, np.split(made, ends), strict=True)}

    def _chunks(self, items: Sequence[Item]) -> list[list[str]]:
        return [self._embedder.chunks(item.text) if item.text.strip() else [] for item in items]


def given(values: Sequence[float]) -> NDArray[np.float32]:
    """A caller's vector, made of unit length so that it fits half precision; refused when it points nowhere."""
    vector = np.array(values, dtype=np.float64)
    length = np.linalg.norm(vector)
    if not length:
        raise FieldInvalid(violations=[("embedding", "is zero in every dimension")])
    return (vector / length).astype(np.float32)


def observe_batch(texts: int, seconds: float) -> None:
    """Count a batch of the model; called on its own thread."""
    EMBEDDER_TEXTS.inc(texts)
    EMBEDDER_TIME.observe(seconds)


@contextmanager
def _span(texts: int) -> Iterator[None]:
    if not TRACING.on:
        yield
        return
    with TRACING.tracer.start_as_current_span(
        "embed",
        attributes={"skein.texts": texts},
        # The words of an error may quote the text.
        record_exception=False,
        set_status_on_exception=False,
    ):
        yield
