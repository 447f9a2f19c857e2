"""mem0 on Postgres with the texts of one person; peers.py runs it in an environment of its own.

    python tests/bench/peer_mem0.py FOLDER URL before|after

FOLDER holds the corpus, URL is that of a Postgres. Texts are stored as they are (infer=False), so no language model
takes part, and vectors are looked up, so no embedder does. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bench.lives import TENANT, search_and_delete, write_and_search
from bench.searches import Corpus
from mem0 import Memory

_PERSON = "anna"


class _Mem0:
    """mem0 as a store, with an embedder that looks vectors up."""

    def __init__(self, corpus: Corpus, folder: Path, url: str) -> None:
        self._corpus = corpus
        self._texts = corpus.population.tenants[TENANT]
        self._vectors: dict[str, list[float]] = dict(zip(self._texts, corpus.entries[TENANT].tolist(), strict=True))
        model = {"provider": "openai", "config": {"api_key": "none"}}
        store = {"connection_string": url, "collection_name": "mem0", "embedding_model_dims": len(corpus.questions[0])}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "pgvector", "config": store},
                "llm": model,
                "embedder": model,
                "history_db_path": str(folder / "mem0-history.db"),
            }
        )
        self._memory.embedding_model = self

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        return self._vectors[text]

    def embed_batch(self, texts: list[str], _action: str | None = None) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    async def write(self, number: int) -> None:
        self._memory.add(self._texts[number], user_id=_PERSON, metadata={"number": number}, infer=False)

    async def search(self, number: int) -> int | None:
        filters = {"user_id": _PERSON}
        found = self._memory.search(self._texts[number], top_k=1, filters=filters, threshold=0.0)["results"]
        return int(found[0]["metadata"]["number"]) if found else None

    async def delete(self) -> None:
        self._memory.delete_all(user_id=_PERSON)


async def main(folder: Path, url: str, phase: str) -> None:
    """Do what comes before the restart, or after it."""
    corpus = Corpus.load(folder)
    store = _Mem0(corpus, folder, url)
    life = await (write_and_search if phase == "before" else search_and_delete)(store, corpus)
    print(json.dumps(life.as_json()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
