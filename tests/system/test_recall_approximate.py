"""Searches of a tenant whose codes in the vector cache are approximate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fix_endpoint import EmbeddingServer
from fix_models import run_deployment, until

from skein_cluster.embedded.server import Server

TEXTS = [f"Kettle number {number} stands on the stove." for number in range(30)]
# Every cached tenant has approximate codes.
SETTINGS = {
    "SKEIN_ADVANCED_RECALL_CACHE_MIN_CHUNKS": "1",
    "SKEIN_ADVANCED_RECALL_CACHE_EXACT_CHUNKS": "0",
}


@pytest.mark.parametrize("query", ["", "Which kettle is number 7?"])
async def test_a_search_finds_what_the_index_finds_with_the_same_cosines(
    server: Server, template: str, endpoint: EmbeddingServer, query: str
) -> None:
    async with run_deployment(server, template, endpoint, **SETTINGS) as deployment:
        for text in TEXTS:
            await deployment.tenant.remember(text)
        vector = np.random.default_rng(3).standard_normal(384)
        fields: dict[str, Any] = {"embedding": vector.tolist(), "limit": len(TEXTS) + 1, "min_relevance": 0.0}
        first = await deployment.tenant.recall(query, **fields)

        async def is_approximate() -> bool:
            return (await deployment.tenant.recall(query, **fields)).dense_path == "approximate"

        await until(is_approximate)
        reply = await deployment.tenant.recall(query, **fields)
        later_id = await deployment.tenant.remember(TEXTS[7] + " It is new.")
        later = await deployment.tenant.recall(query, **fields)

    assert (first.dense_path, reply.dense_path) == ("exact", "approximate")
    assert {hit.item_id: hit.similarity for hit in reply.hits} == pytest.approx(
        {hit.item_id: hit.similarity for hit in first.hits}, abs=1e-3
    )
    assert later_id in [hit.item_id for hit in later.hits]
