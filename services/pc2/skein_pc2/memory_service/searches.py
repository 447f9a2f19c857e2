"""Searches of port 7140: by words, by meaning, and by type alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_pc2 import fields
from skein_pc2.errors import SEARCH_ERROR, Rejected
from skein_pc2.memory_service import records, relations
from skein_pc2.signals import MEANING, WORDS

if TYPE_CHECKING:
    from skein_pc2.api import Api
    from skein_pc2.verbs import Ask

_DEFAULT_LIMIT, _DEFAULT_K, _HIGHEST_LIMIT = 10, 5, 100


async def by_words(api: Api, ask: Ask) -> list[dict[str, Any]]:
    """Find memories by their words, best first; without words those of a type, newest first."""
    limit = _count(ask, "limit", _DEFAULT_LIMIT)
    kind = ask.said.get("memory_type")
    types = [] if kind is None else [records.memory_type(kind)]
    query = fields.text(ask.said, "query")
    if not query.strip():
        if not types:
            raise fields.invalid("query", "is needed, or a memory_type")
        listing = pb.ListMemoriesRequest(page_size=limit, filter=pb.MemoryFilter(types=types))
        listed = await api.call(api.memories.ListMemories, listing, ask)
        return await relations.written(api, ask, listed.memories)
    request = _request(query, limit, WORDS)
    request.filter.types.extend(types)
    answer = await api.call(api.index.Recall, request, ask)
    return await _scored(api, ask, [(hit, score) for hit in answer.hits if (score := _likeness_of_words(hit))][:limit])


async def by_meaning(api: Api, ask: Ask) -> list[dict[str, Any]]:
    """Find the memories that are nearest in meaning."""
    k = _count(ask, "k", _DEFAULT_K)
    answer = await api.call(api.index.Recall, _request(fields.needed(ask.said, "query"), k, MEANING), ask)
    if answer.dense_unavailable:
        text = "The model that understands meaning does not answer; use search_memory or try again soon"
        raise Rejected(SEARCH_ERROR, text)
    found = [(hit, max(0.0, hit.similarity)) for hit in answer.hits if hit.HasField("similarity")]
    found.sort(key=lambda pair: pair[1], reverse=True)
    return await _scored(api, ask, found[:k])


def _request(query: str, limit: int, weights: dict[str, float]) -> recall_pb2.RecallRequest:
    return recall_pb2.RecallRequest(
        query=query,
        limit=limit,
        kinds=[recall_pb2.ITEM_KIND_MEMORY],
        weights=weights,
        fusion="scores",
    )


def _likeness_of_words(hit: recall_pb2.Hit) -> float:
    """Return how well the words of a hit answer, up to 1; 0 when they were not found."""
    return max((part.value for part in hit.components if part.signal == "lexical" and part.rank), default=0.0)


async def _scored(api: Api, ask: Ask, found: list[tuple[recall_pb2.Hit, float]]) -> list[dict[str, Any]]:
    near = await relations.around(api, ask, [hit.item_id for hit, _ in found])
    return [
        # What recall returns is without the counts of use.
        {**near.record(near.memories.get(hit.item_id, hit.memory)), "score": round(score, 6)}
        for hit, score in found
    ]


def _count(ask: Ask, name: str, default: int) -> int:
    return min(_HIGHEST_LIMIT, fields.whole(ask.said.get(name), name, default=default, least=1))
