"""Searches of port 7140: by words, by meaning, by status, and by type alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import links, search_filters
from skein_pc2.memory_service import query as query_rules
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionRequest
from skein_pc2.protocol.frames import Message

_DEFAULT_LIMIT, _DEFAULT_K, _MAX_LIMIT, _MAX_K = 10, 5, 200, 100
# Extra hits, because some are removed afterwards.
_SPARE_HITS = 10
# Lowest cosine of a hit that has no word of the query. Source: all-MiniLM-L6-v2, whose unrelated pairs are below 0.27
# and related pairs above 0.38. Facts have a higher bound: a fact about another topic is a wrong answer (0.44 between
# two capitals).
_MIN_SIMILARITY, _MIN_FACT_SIMILARITY = 0.3, 0.5
# No text is expected to contain a longer query.
_MAX_PHRASE_CHARACTERS = 300
# Scores of a memory that contains the query, or has it as its topic.
_PHRASE_SCORE, _TOPIC_SCORE = 0.5, 1.0
_BY_IMPORTANCE, _NEWEST = "importance desc", "create_time desc"
# Memories sorted by importance here, and the calls that read them.
_MAX_SORTED_MEMORIES, _MAX_SORT_CALLS = 200, 10


async def search_by_words(api: GatewayApi, request: ActionRequest) -> Message:
    """Find memories by words, most important first; without words, by type or status."""
    limit = _parse_count(request, "limit", _DEFAULT_LIMIT, _MAX_LIMIT)
    text = fields.text(request.fields, "query")
    scope = await search_filters.parse_scope(api, request)
    if not text.strip() and not (scope.has_type() or scope.is_narrow):
        raise fields.invalid("query", "is needed, or a memory_type or parent_id")
    if not text.strip() or (statuses := query_rules.statuses(text)):
        filters = (
            scope.with_condition(search_filters.one_of("metadata.status", statuses)) if text.strip() else scope.filters
        )
        memories, has_more = await _list_by_importance(api, request, filters, limit)
        return await _to_reply(
            api, request, scope, [(memory, None) for memory in memories], limit, is_truncated=has_more
        )
    query = query_rules.Query.of(text)
    hits, text_matches = await asyncio.gather(
        _recall(api, request, text, scope, min(_MAX_K, limit + _SPARE_HITS), recall_pb2.SEARCH_MODE_KEYWORD),
        _list_containing(api, request, text, scope, limit + 1),
    )
    scored_memories = {hit.item_id: (hit.memory, hit.score) for hit in hits}
    for memory in text_matches:
        scored_memories.setdefault(memory.memory_id, (memory, _PHRASE_SCORE))
    ranked = sorted(
        (
            (rank, memory, score)
            for memory, score in scored_memories.values()
            if (rank := _keyword_rank(query, memory, score)) is not None
        ),
        key=lambda entry: entry[0],
    )
    return await _to_reply(api, request, scope, [(memory, score) for _, memory, score in ranked], limit)


async def search_by_meaning(api: GatewayApi, request: ActionRequest) -> Message:
    """Find the memories nearest in meaning; none when no memory of the tenant matches the query."""
    k = _parse_count(request, "k", _parse_count(request, "limit", _DEFAULT_K, _MAX_K), _MAX_K)
    text = fields.required_text(request.fields, "query")
    query = query_rules.Query.of(text)
    scope = await search_filters.parse_scope(api, request)
    limit = min(_MAX_K, k + _SPARE_HITS)
    semantic_hits, keyword_hits = await asyncio.gather(
        _recall(api, request, text, scope, limit, recall_pb2.SEARCH_MODE_SEMANTIC),
        _recall(api, request, text, scope, limit, recall_pb2.SEARCH_MODE_KEYWORD),
    )
    # Keyword hits include new memories without a vector. Hits with a distant vector are excluded.
    semantic_ids = {hit.item_id for hit in semantic_hits}
    extra_hits = [hit for hit in keyword_hits if hit.item_id not in semantic_ids]
    extra_hits = [hit for hit in extra_hits if len(semantic_hits) < limit or query.is_topic_of(hit.memory)]
    ranked: list[tuple[pb.Memory, float]] = []
    has_match = scope.is_narrow
    for hit in (*semantic_hits, *extra_hits):
        is_match, score = _match_meaning(query, hit)
        has_match |= is_match
        if score is not None and (is_match or scope.is_narrow or not query_rules.topic_of(hit.memory)):
            ranked.append((hit.memory, score))
    ranked.sort(key=lambda entry: entry[1], reverse=True)
    reply = await _to_reply(api, request, scope, ranked if has_match else [], k)
    if not scope.is_truncated:
        # The client requested the nearest k, so further hits are not a truncation.
        reply.pop("truncated", None)
    return reply


async def _recall(
    api: GatewayApi,
    request: ActionRequest,
    text: str,
    scope: search_filters.SearchScope,
    limit: int,
    mode: recall_pb2.SearchMode,
) -> list[recall_pb2.Hit]:
    async def hits_of(condition: pb.MemoryFilter) -> recall_pb2.RecallResponse:
        call = recall_pb2.RecallRequest(
            query=text,
            limit=limit,
            kinds=[recall_pb2.ITEM_KIND_MEMORY],
            mode=mode,
            filter=condition,
            min_relevance=0,
            show_duplicates=True,
        )
        return await api.call(api.index.Recall, call, request)

    responses = await asyncio.gather(*(hits_of(condition) for condition in scope.filters))
    return [hit for response in responses for hit in response.hits]


async def _list_containing(
    api: GatewayApi, request: ActionRequest, text: str, scope: search_filters.SearchScope, limit: int
) -> list[pb.Memory]:
    """List memories that contain a query as it is, also inside a word, or have it as tag or topic.

    The scan for contents reads the tenant's most important memories, within the limits of one call.
    """
    phrase = text.strip()
    if len(phrase) > _MAX_PHRASE_CHARACTERS:
        return []
    literal = json.dumps(phrase)
    tags = ", ".join(dict.fromkeys((literal, json.dumps(phrase.lower()))))
    index_conditions = [f"tags:any({tags})", search_filters.one_of("metadata.topic", [phrase])]
    newest = [
        links.list_memories(api, request, condition, order_by=_NEWEST, limit=limit)
        for where in index_conditions
        for condition in scope.with_condition(where)
    ]
    scans = [
        links.list_memories(api, request, condition, order_by=_BY_IMPORTANCE, limit=limit, max_calls=1)
        for condition in scope.with_condition(f"content:{literal}")
    ]
    return [memory for memories, _ in await asyncio.gather(*newest, *scans) for memory in memories]


async def _list_by_importance(
    api: GatewayApi, request: ActionRequest, filters: Sequence[pb.MemoryFilter], limit: int
) -> tuple[list[pb.Memory], bool]:
    """List memories that match one of the filters, by importance, then newest first.

    Return them, and whether there may be more.
    """

    async def list_matching(condition: pb.MemoryFilter) -> tuple[list[pb.Memory], bool]:
        # The filter's index has the order of creation; the order of importance scans all memories.
        memories, has_more = await links.list_memories(
            api, request, condition, order_by=_NEWEST, limit=max(limit, _MAX_SORTED_MEMORIES), max_calls=_MAX_SORT_CALLS
        )
        if not has_more:
            return memories, False
        most_important, _ = await links.list_memories(
            api, request, condition, order_by=_BY_IMPORTANCE, limit=limit, max_calls=_MAX_SORT_CALLS
        )
        return [*most_important, *memories], True

    lists = await asyncio.gather(*(list_matching(condition) for condition in filters))
    memories = list({memory.memory_id: memory for memory_list, _ in lists for memory in memory_list}.values())
    memories.sort(key=lambda memory: (-memory.importance, -memory.create_time.ToNanoseconds()))
    return memories[:limit], len(memories) > limit or any(has_more for _, has_more in lists)


async def _to_reply(
    api: GatewayApi,
    request: ActionRequest,
    scope: search_filters.SearchScope,
    ranked: Sequence[tuple[pb.Memory, float | None]],
    limit: int,
    *,
    is_truncated: bool = False,
) -> Message:
    """Reply with the first `limit` memories, each with its score if any."""
    scores = {memory.memory_id: score for memory, score in ranked}
    # Memories of a session that have a parent memory are removed below.
    spare = _SPARE_HITS if scope.session_id else 0
    shown_memories = links.fit_reply([memory for memory, _ in ranked], limit + spare)
    neighborhood = await links.read_neighborhood(api, request, [memory.memory_id for memory in shown_memories])
    result_records: list[dict[str, Any]] = []
    for memory in shown_memories:
        # Hits of Recall have no access counts.
        record = neighborhood.to_record(neighborhood.memories.get(memory.memory_id, memory))
        score = scores[memory.memory_id]
        if scope.contains(record):
            result_records.append(record if score is None else {**record, "score": round(score, 6)})
    has_more = is_truncated or scope.is_truncated or len(shown_memories) < len(ranked) or len(result_records) > limit
    return links.list_reply(result_records[:limit], "results", is_truncated=has_more)


def _keyword_rank(query: query_rules.Query, memory: pb.Memory, score: float) -> tuple[float, ...] | None:
    """Return the rank of a hit by words; None for a fact of another topic."""
    if query.is_topic_of(memory):
        return (0, -memory.importance, -score)
    if query.matches(memory):
        return (1, -memory.importance, -score)
    return None if query_rules.topic_of(memory) else (2, -score)


def _match_meaning(query: query_rules.Query, hit: recall_pb2.Hit) -> tuple[bool, float | None]:
    """Say whether a hit matches a query, and its similarity: None without a vector and without the words."""
    similarity = min(1.0, max(0.0, hit.similarity)) if hit.HasField("similarity") else None
    if query.is_topic_of(hit.memory):
        return True, _TOPIC_SCORE
    if query.matches(hit.memory):
        return True, hit.score if similarity is None else similarity
    threshold = _MIN_FACT_SIMILARITY if query_rules.topic_of(hit.memory) else _MIN_SIMILARITY
    return similarity is not None and similarity >= threshold, similarity


def _parse_count(request: ActionRequest, name: str, default: int, limit: int) -> int:
    return min(limit, fields.integer(request.fields.get(name), name, default=default, minimum=1))
