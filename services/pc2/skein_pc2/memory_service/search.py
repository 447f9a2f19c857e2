"""Searches of port 7140: by words, by meaning, by status, and by type alone."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_pc2.memory_service import links, search_filters
from skein_pc2.memory_service import query as matching
from skein_pc2.protocol import fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.actions import Ask
    from skein_pc2.protocol.frames import Message

_DEFAULT_LIMIT, _DEFAULT_K, _HIGHEST_LIMIT, _HIGHEST_K = 10, 5, 200, 100
# A search looks at so many more hits than it returns, because some are taken out.
_SPARE_HITS = 10
# From these cosines on a memory answers a query that has none of its words: measured with all-MiniLM-L6-v2, where
# unrelated pairs stay below 0.27 and related ones begin at 0.38. A fact answers for its own topic, so a neighbouring
# topic (0.44 between two capitals) must not take its place.
_LEAST_SIMILARITY, _LEAST_OF_FACTS = 0.3, 0.5
# A longer query is in no text as it stands.
_LONGEST_PHRASE = 300
# How well a memory answers that holds the query inside of its words, or as its topic.
_PHRASE_SCORE, _TOPIC_SCORE = 0.5, 1.0
_BY_IMPORTANCE, _NEWEST = "importance desc", "create_time desc"
# Memories that are sorted by importance here, and the calls that look for them.
_SORTED, _SORTING_CALLS = 200, 10


async def by_words(api: GatewayApi, ask: Ask) -> Message:
    """Find memories by their words, the most important first; without words those of a type, or of a status."""
    limit = _count(ask, "limit", _DEFAULT_LIMIT, _HIGHEST_LIMIT)
    text = fields.text(ask.said, "query")
    scope = await search_filters.parse_scope(api, ask)
    if not text.strip() and not (scope.has_type() or scope.is_narrow):
        raise fields.invalid("query", "is needed, or a memory_type or parent_id")
    if not text.strip() or (statuses := matching.statuses(text)):
        filters = (
            scope.with_condition(search_filters.equals("metadata.status", statuses)) if text.strip() else scope.filters
        )
        memories, is_more = await _important(api, ask, filters, limit)
        return await _answer(api, ask, scope, [(memory, None) for memory in memories], limit, more=is_more)
    query = matching.Query.of(text)
    hits, holding = await asyncio.gather(
        _recall(api, ask, text, scope, min(_HIGHEST_K, limit + _SPARE_HITS), recall_pb2.SEARCH_MODE_KEYWORD),
        _holding(api, ask, text, scope, limit + 1),
    )
    likeness = {hit.item_id: (hit.memory, hit.score) for hit in hits}
    for memory in holding:
        likeness.setdefault(memory.memory_id, (memory, _PHRASE_SCORE))
    ranked = sorted(
        (
            (rank, memory, score)
            for memory, score in likeness.values()
            if (rank := _rank_of_words(query, memory, score)) is not None
        ),
        key=lambda one: one[0],
    )
    return await _answer(api, ask, scope, [(memory, score) for _, memory, score in ranked], limit)


async def by_meaning(api: GatewayApi, ask: Ask) -> Message:
    """Find the memories that are nearest in meaning; none when nothing of the tenant is about the query."""
    k = _count(ask, "k", _count(ask, "limit", _DEFAULT_K, _HIGHEST_K), _HIGHEST_K)
    text = fields.required_text(ask.said, "query")
    query = matching.Query.of(text)
    scope = await search_filters.parse_scope(api, ask)
    limit = min(_HIGHEST_K, k + _SPARE_HITS)
    near, worded = await asyncio.gather(
        _recall(api, ask, text, scope, limit, recall_pb2.SEARCH_MODE_SEMANTIC),
        _recall(api, ask, text, scope, limit, recall_pb2.SEARCH_MODE_KEYWORD),
    )
    # Words find what was stored a moment ago and has no vector yet. What has one, and is not near, stays away.
    near_ids = {hit.item_id for hit in near}
    late = [hit for hit in worded if hit.item_id not in near_ids]
    late = [hit for hit in late if len(near) < limit or query.is_topic_of(hit.memory)]
    ranked: list[tuple[pb.Memory, float]] = []
    is_about = scope.is_narrow
    for hit in (*near, *late):
        is_answer, score = _likeness_of_meaning(query, hit)
        is_about |= is_answer
        if score is not None and (is_answer or scope.is_narrow or not matching.topic_of(hit.memory)):
            ranked.append((hit.memory, score))
    ranked.sort(key=lambda one: one[1], reverse=True)
    answer = await _answer(api, ask, scope, ranked if is_about else [], k)
    if not scope.is_cut:
        # The nearest ones are what was asked for, however many are further away.
        answer.pop("truncated", None)
    return answer


async def _recall(
    api: GatewayApi, ask: Ask, text: str, scope: search_filters.SearchScope, limit: int, mode: recall_pb2.SearchMode
) -> list[recall_pb2.Hit]:
    async def hits_of(condition: pb.MemoryFilter) -> recall_pb2.RecallResponse:
        request = recall_pb2.RecallRequest(
            query=text,
            limit=limit,
            kinds=[recall_pb2.ITEM_KIND_MEMORY],
            mode=mode,
            filter=condition,
        )
        return await api.call(api.index.Recall, request, ask)

    answers = await asyncio.gather(*(hits_of(condition) for condition in scope.filters))
    return [hit for answer in answers for hit in answer.hits]


async def _holding(
    api: GatewayApi, ask: Ask, text: str, scope: search_filters.SearchScope, limit: int
) -> list[pb.Memory]:
    """List memories that hold a query as it stands, also inside of a word, or have it for a tag or a topic.

    Of those that hold it inside of a word the most important ones of the tenant are looked at, as far as one call goes.
    """
    phrase = text.strip()
    if len(phrase) > _LONGEST_PHRASE:
        return []
    literal = json.dumps(phrase)
    tags = ", ".join(dict.fromkeys((literal, json.dumps(phrase.lower()))))
    indexed = [f"tags:any({tags})", search_filters.equals("metadata.topic", [phrase])]
    newest = [
        links.listing(api, ask, condition, order_by=_NEWEST, most=limit)
        for where in indexed
        for condition in scope.with_condition(where)
    ]
    scans = [
        links.listing(api, ask, condition, order_by=_BY_IMPORTANCE, most=limit, calls=1)
        for condition in scope.with_condition(f"content:{literal}")
    ]
    return [memory for memories, _ in await asyncio.gather(*newest, *scans) for memory in memories]


async def _important(
    api: GatewayApi, ask: Ask, filters: Sequence[pb.MemoryFilter], most: int
) -> tuple[list[pb.Memory], bool]:
    """List memories that pass one of some filters, the most important first, of equal ones the newest.

    Return them, and whether there may be more.
    """

    async def of(condition: pb.MemoryFilter) -> tuple[list[pb.Memory], bool]:
        # The order of creation is read from the index of the filter; that of importance passes by all memories.
        memories, is_more = await links.listing(
            api, ask, condition, order_by=_NEWEST, most=max(most, _SORTED), calls=_SORTING_CALLS
        )
        if not is_more:
            return memories, False
        first, _ = await links.listing(api, ask, condition, order_by=_BY_IMPORTANCE, most=most, calls=_SORTING_CALLS)
        return [*first, *memories], True

    lists = await asyncio.gather(*(of(condition) for condition in filters))
    memories = list({memory.memory_id: memory for one, _ in lists for memory in one}.values())
    memories.sort(key=lambda memory: (-memory.importance, -memory.create_time.ToNanoseconds()))
    return memories[:most], len(memories) > most or any(is_more for _, is_more in lists)


async def _answer(
    api: GatewayApi,
    ask: Ask,
    scope: search_filters.SearchScope,
    ranked: Sequence[tuple[pb.Memory, float | None]],
    limit: int,
    *,
    more: bool = False,
) -> Message:
    """Write the first of some memories, each with its score if it has one."""
    scores = {memory.memory_id: score for memory, score in ranked}
    # Of a session's memories those drop out that are children of others.
    spare = _SPARE_HITS if scope.session_id else 0
    shown = links.fit_reply([memory for memory, _ in ranked], limit + spare)
    near = await links.read_neighborhood(api, ask, [memory.memory_id for memory in shown])
    written: list[dict[str, Any]] = []
    for memory in shown:
        # What recall returns is without the counts of use.
        record = near.record(near.memories.get(memory.memory_id, memory))
        score = scores[memory.memory_id]
        if scope.holds(record):
            written.append(record if score is None else {**record, "score": round(score, 6)})
    is_more = more or scope.is_cut or len(shown) < len(ranked) or len(written) > limit
    return links.list_reply(written[:limit], "results", more=is_more)


def _rank_of_words(query: matching.Query, memory: pb.Memory, score: float) -> tuple[float, ...] | None:
    """Return the place of a memory among those that words found; None for a fact of another topic."""
    if query.is_topic_of(memory):
        return (0, -memory.importance, -score)
    if query.is_answered_by(memory):
        return (1, -memory.importance, -score)
    return None if matching.topic_of(memory) else (2, -score)


def _likeness_of_meaning(query: matching.Query, hit: recall_pb2.Hit) -> tuple[bool, float | None]:
    """Say whether a hit is about a query, and how near it is: by its words, or not known, while it has no vector."""
    similarity = min(1.0, max(0.0, hit.similarity)) if hit.HasField("similarity") else None
    if query.is_topic_of(hit.memory):
        return True, _TOPIC_SCORE
    if query.is_answered_by(hit.memory):
        return True, hit.score if similarity is None else similarity
    least = _LEAST_OF_FACTS if matching.topic_of(hit.memory) else _LEAST_SIMILARITY
    return similarity is not None and similarity >= least, similarity


def _count(ask: Ask, name: str, default: int, most: int) -> int:
    return min(most, fields.integer(ask.said.get(name), name, default=default, least=1))
