"""Chroma with a collection for each tenant, in this process; peers.py runs it in the peers' environment.

    python tests/bench/peer_chroma.py FOLDER CALLS

FOLDER holds the corpus and takes Chroma's files, CALLS is JSON. Prints the rows as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import chromadb
import numpy as np
from bench.searches import DEPTH, LOADED, TEXT, VECTOR, Calls, Corpus, Engine, measure
from chromadb.config import Settings
from numpy.typing import NDArray

from skein_recall.embedded_model.embedder import LocalEmbedder

_BATCH = 1000


async def main(folder: Path, calls: Calls) -> None:
    """Store the corpus, search it, print the rows."""
    corpus = Corpus.load(folder)
    # A search blocks its thread.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LOADED))
    async with LocalEmbedder.load() as embedder:
        rows = await measure(_engine(folder, corpus, embedder), corpus, calls)
    print(json.dumps([row.as_json() for row in rows]))


def _engine(folder: Path, corpus: Corpus, embedder: LocalEmbedder) -> Engine:
    client = chromadb.PersistentClient(str(folder / "chroma"), Settings(anonymized_telemetry=False))
    collections = []
    for tenant, texts in enumerate(corpus.population.tenants):
        collection = client.create_collection(
            f"tenant-{tenant}", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            collection.add(
                ids=[str(start + index) for index in range(len(batch))],
                embeddings=corpus.entries[tenant][start : start + _BATCH],
                documents=list(batch),
            )
        collections.append(collection)

    async def search(number: int, vector: NDArray[np.float32]) -> Sequence[int]:
        collection = collections[corpus.population.questions[number].tenant]
        answer = await asyncio.to_thread(collection.query, query_embeddings=[vector], n_results=DEPTH)
        return [int(name) for name in answer["ids"][0]]

    async def by_text(number: int) -> Sequence[int]:
        (vector,) = await embedder.embed([corpus.population.questions[number].text])
        return await search(number, vector)

    return Engine(
        name="Chroma",
        searches={TEXT: by_text, VECTOR: lambda number: search(number, corpus.questions[number])},
        server_cpu=lambda: 0.0,
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Calls(**json.loads(sys.argv[2]))))
