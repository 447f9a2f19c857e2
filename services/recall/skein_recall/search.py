"""Recall itself: embed the question, find candidates in one statement, rank them, read the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import now
from skein_recall import ranking, vectors
from skein_recall.errors import QueryEmpty
from skein_recall.filters import Filter
from skein_recall.store import Probe

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg
    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models import EmbeddingModel, Registry
    from skein_recall.ranking import Ranked
    from skein_recall.store import Store
    from skein_recall.vectors import Vectors

DEFAULT_LIMIT = 10
KINDS = {pb.ITEM_KIND_MEMORY: "memory", pb.ITEM_KIND_MESSAGE: "message"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a caller looks for: a text, a vector of unit length, or both."""

    text: str
    vector: NDArray[np.float32] | None
    limit: int
    kinds: tuple[str, ...]
    filter: Filter
    min_similarity: float

    @classmethod
    def of(cls, request: pb.RecallRequest) -> Self:
        """Read a request; refuse one that asks for nothing."""
        text = request.query.strip()
        if not text and not request.embedding:
            raise QueryEmpty
        asked = Filter.of(request.filter)
        return cls(
            text=text,
            vector=vectors.given(request.embedding) if request.embedding else None,
            limit=request.limit or DEFAULT_LIMIT,
            kinds=tuple(KINDS[kind] for kind in request.kinds) or tuple(KINDS.values()),
            filter=asked,
            min_similarity=request.min_similarity,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The hits, best first, each with its item's row."""

    model: str
    # There was a vector to compare with.
    dense: bool
    hits: list[tuple[Ranked, asyncpg.Record]]
    # Something was found and nothing passed the filter; more was found than was held against it.
    filter_emptied: bool
    filter_truncated: bool


class Searcher:
    """Answers questions from the index of one cluster."""

    def __init__(self, store: Store, registry: Registry, vectors: Vectors) -> None:
        self._store = store
        self._registry = registry
        self._vectors = vectors

    async def recall(self, tenant_id: UUID, question: Question, *, seconds: float) -> Answer:
        """Find the best items for a question within the `seconds` left. No connection is held while embedding."""
        model = await self._registry.active()
        vector = await self._vector(tenant_id, model, question, seconds)
        probe = Probe(
            text=question.text,
            vector=vector,
            kinds=tuple(kind for kind in question.kinds if kind in question.filter.kinds),
            filter=question.filter,
            limit=question.limit,
            at=now(),
        )
        async with self._store.reading(tenant_id) as reading:
            found = await reading.search(model, probe)
            candidates = await reading.passing(found.candidates, question.filter.where)
            best = ranking.rank(
                candidates,
                dense=vector is not None,
                max_bm25=found.max_bm25,
                limit=question.limit,
                min_similarity=question.min_similarity,
            )
            items = await reading.items([ranked.candidate for ranked in best], probe.at)
            emptied = not candidates and await reading.is_emptied(model, probe, question.kinds)
        # An item that went away between the two statements has no row.
        hits = [(ranked, items[ranked.candidate.item_id]) for ranked in best if ranked.candidate.item_id in items]
        return Answer(
            model=model.model,
            dense=vector is not None,
            hits=hits,
            filter_emptied=emptied,
            filter_truncated=question.filter.where is not None and found.is_cut,
        )

    async def _vector(
        self, tenant_id: UUID, model: EmbeddingModel, question: Question, seconds: float
    ) -> NDArray[np.float32] | None:
        if question.vector is not None:
            model.must_take(len(question.vector))
            return question.vector
        if not model.embeds:
            return None
        return await self._vectors.of_query(question.text, tenant_id=tenant_id, seconds=seconds)
