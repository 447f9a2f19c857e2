"""LangGraph's Postgres store with a namespace for each tenant; peers.py runs it in the peers' environment.

    python tests/bench/peer_langgraph.py FOLDER CALLS URL PID

FOLDER holds the corpus, CALLS is JSON, URL and PID are those of a Postgres. Prints the rows as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import processes
from bench.searches import DEPTH, LOADED, TEXT, VECTOR, Calls, Corpus, Engine, measure
from langgraph.store.base import PutOp
from langgraph.store.postgres import AsyncPostgresStore

from skein_recall.embedded_model.embedder import LocalEmbedder

_BATCH = 100


async def main(folder: Path, calls: Calls, url: str, pid: int) -> None:
    """Store the corpus, search it, print the rows."""
    corpus = Corpus.load(folder)
    async with LocalEmbedder.load() as embedder:
        texts = _Texts(corpus, embedder)
        store_of = AsyncPostgresStore.from_conn_string(
            url,
            pool_config={"min_size": LOADED, "max_size": LOADED},
            index={"dims": embedder.dimensions, "embed": texts.embed, "fields": ["text"]},
        )
        async with store_of as store:
            await store.setup()
            rows = await measure(await _engine(store, corpus, pid), corpus, calls)
    print(json.dumps([row.as_json() for row in rows]))


class _Texts:
    """Embeds texts; those of the corpus, and questions by their numbers, have vectors already.

    A search takes no vector, so a given one is looked up by such a name.
    """

    def __init__(self, corpus: Corpus, embedder: LocalEmbedder) -> None:
        self._embedder = embedder
        self._known = {
            text: vector
            for texts, vectors in zip(corpus.population.tenants, corpus.entries, strict=True)
            for text, vector in zip(texts, vectors, strict=True)
        }
        self._known |= {f"#{number}": vector for number, vector in enumerate(corpus.questions)}

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        if all(text in self._known for text in texts):
            return [self._known[text].tolist() for text in texts]
        return [vector.tolist() for vector in await self._embedder.embed(texts)]


async def _engine(store: AsyncPostgresStore, corpus: Corpus, pid: int) -> Engine:
    for tenant, texts in enumerate(corpus.population.tenants):
        puts = [PutOp((f"tenant-{tenant}",), str(index), {"text": text}) for index, text in enumerate(texts)]
        for start in range(0, len(puts), _BATCH):
            await store.abatch(puts[start : start + _BATCH])

    async def search(number: int, query: str) -> Sequence[int]:
        tenant = corpus.population.questions[number].tenant
        items = await store.asearch((f"tenant-{tenant}",), query=query, limit=DEPTH)
        return [int(item.key) for item in items]

    return Engine(
        name="LangGraph, Postgres",
        searches={
            TEXT: lambda number: search(number, corpus.population.questions[number].text),
            VECTOR: lambda number: search(number, f"#{number}"),
        },
        server_cpu=lambda: processes.cpu_seconds(pid),
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Calls(**json.loads(sys.argv[2])), sys.argv[3], int(sys.argv[4])))
