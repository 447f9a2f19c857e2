"""Search: by meaning, by words, or by both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skein.recall.v1 import recall_pb2
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.request import Request
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.fields import integer, invalid, mapping, required_text

SEMANTIC, KEYWORD, HYBRID = "semantic", "keyword", "hybrid"

_DEFAULT_LIMIT, _MAX_LIMIT = 5, 100
_DEFAULT_MIN_SIMILARITY = 0.7
# Signals are fused before the cut, so a search with a threshold of its own takes more candidates.
_MIN_CANDIDATES = 50
_MODES = {
    SEMANTIC: recall_pb2.SEARCH_MODE_SEMANTIC,
    KEYWORD: recall_pb2.SEARCH_MODE_KEYWORD,
    HYBRID: recall_pb2.SEARCH_MODE_HYBRID,
}


class SearchAction:
    """Finds memories."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def search(self, request: Request) -> dict[str, Any]:
        """Find the best memories of a session for a query."""
        search = SearchRequest(request.payload, session_id=request.required_session_id())
        response = await self._api.call(self._api.index.Recall, search.recall_request(), request)
        results = search.results(response)
        return {
            "results": results,
            "total_count": len(results),
            "search_metadata": {
                "search_type": search.type,
                "embedding_model": response.model,
                "query_embedding_dimension": await self._api.dimensions(response.model, request),
            },
        }


class SearchRequest:
    """The payload of `search`."""

    def __init__(self, payload: Mapping[str, Any], *, session_id: str) -> None:
        self._query = required_text(payload, "query")
        filters = mapping(payload.get("filters"), "filters")
        self.type = payload.get("search_type") or HYBRID
        if self.type not in (SEMANTIC, KEYWORD, HYBRID):
            raise invalid("search_type", "is semantic, keyword or hybrid")
        limit = filters.get("limit", payload.get("limit"))
        self.limit = min(integer(limit, "filters.limit", default=_DEFAULT_LIMIT, minimum=1), _MAX_LIMIT)
        self._min_similarity = _parse_similarity(filters.get("min_similarity"))
        self._filter = wire.parse_filter(filters, "filters", session_id=session_id)

    def recall_request(self) -> recall_pb2.RecallRequest:
        """Return the Recall request for candidates."""
        has_own_threshold = self.type == HYBRID and self._min_similarity is not None
        candidates = min(_MAX_LIMIT, max(_MIN_CANDIDATES, 2 * self.limit)) if has_own_threshold else self.limit
        threshold = _DEFAULT_MIN_SIMILARITY if self._min_similarity is None else self._min_similarity
        return recall_pb2.RecallRequest(
            query=self._query,
            limit=candidates,
            kinds=[recall_pb2.ITEM_KIND_MEMORY],
            filter=self._filter,
            # The threshold applies to semantic search alone.
            min_similarity=threshold if self.type == SEMANTIC else 0.0,
            mode=_MODES[self.type],
            min_relevance=0,
            show_duplicates=True,
        )

    def results(self, response: recall_pb2.RecallResponse) -> list[dict[str, Any]]:
        """Return the hits, best first by the search type."""
        scored_hits = [(self._score(hit), hit) for hit in response.hits]
        result = [(score, hit) for score, hit in scored_hits if score is not None]
        result.sort(key=lambda pair: pair[0], reverse=True)
        return [
            {**wire.memory_data(hit.memory), "similarity_score": round(score, 6)} for score, hit in result[: self.limit]
        ]

    def _score(self, hit: recall_pb2.Hit) -> float | None:
        """Return a hit's score for this search type, 0 to 1; None when it does not match."""
        if self.type != HYBRID or self._min_similarity is None:
            return hit.score
        return hit.score if hit.similarity >= self._min_similarity or hit.has_query_words else None


def _parse_similarity(value: object) -> float | None:
    """Read the lowest similarity; None leaves it to the search type."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise invalid("filters.min_similarity", "is a number from 0 to 1")
    return float(value)
