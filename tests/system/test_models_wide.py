"""A model of more dimensions than the index covers: what is found counts by all of them, words asked for or not."""

from __future__ import annotations

import numpy as np
import pytest
from fix_endpoint import EmbeddingServer
from fix_models import Deployment, run_deployment, until
from numpy.typing import NDArray

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.embedded.server import Server
from skein_kit.search_text.vector_columns import COVERED_DIMENSIONS

DIMENSIONS = 1536
TEXTS = [f"Kettle number {number} stands on the stove." for number in range(30)]


def vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Return vectors of unit length, as the database keeps them, that differ little in what the index covers.

    By that alone their order is another one.
    """
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSIONS))
    drawn[:, :COVERED_DIMENSIONS] = 1 + drawn[:, :COVERED_DIMENSIONS] / 100
    halves = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)
    units: NDArray[np.float32] = halves.astype(np.float32)
    return units


async def remembered(deployment: Deployment) -> dict[str, NDArray[np.float32]]:
    """Put a wide model of the caller's in force, with a vector of each memory."""
    await deployment.register("wide", provider="caller", endpoint="", dimensions=DIMENSIONS)
    known = {}
    for text, vector in zip(TEXTS, vectors(len(TEXTS), 1), strict=True):
        item_id = await deployment.tenant.remember(text, index=False)
        put = pb.PutEmbeddingRequest(item_id=item_id, model="wide", embeddings=[pb.Embedding(values=vector.tolist())])
        await deployment.tenant.stub.PutEmbedding(put)
        known[item_id] = vector
    await deployment.use("wide", force=True)
    return known


async def ask(deployment: Deployment, vector: NDArray[np.float32], query: str) -> pb.RecallResponse:
    return await deployment.tenant.recall(query, embedding=vector.tolist(), limit=len(TEXTS))


@pytest.mark.parametrize("query", ["", "Which kettle is number 7?"])
async def test_similarities_are_over_all_dimensions_by_the_index_and_by_what_is_held(
    server: Server, template: str, endpoint: EmbeddingServer, query: str
) -> None:
    async with run_deployment(server, template, endpoint, SKEIN_ADVANCED_RECALL_CACHE_MIN_CHUNKS="1") as deployment:
        known = await remembered(deployment)
        (vector,) = vectors(1, 2)
        expected = {item_id: float(each @ vector) for item_id, each in known.items()}

        async def is_held() -> bool:
            return (await ask(deployment, vector, query)).dense_path == "cached"

        first = await ask(deployment, vector, query)
        await until(is_held)
        reply = await ask(deployment, vector, query)

    assert (first.dense_path, reply.dense_path) == ("rescored", "cached")
    for answer in (first, reply):
        assert {hit.item_id: hit.similarity for hit in answer.hits} == pytest.approx(expected, abs=1e-3)
    assert [hit.item_id for hit in reply.hits] == [hit.item_id for hit in first.hits]
    assert [hit.score for hit in reply.hits] == pytest.approx([hit.score for hit in first.hits], abs=1e-5)
    if query:
        assert first.hits[0].memory.content == TEXTS[7]
    else:
        assert [hit.item_id for hit in first.hits] == sorted(expected, key=lambda item_id: -expected[item_id])
