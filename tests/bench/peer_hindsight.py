"""Hindsight on Postgres with the texts of one person; peers.py runs it in an environment of its own.

    python tests/bench/peer_hindsight.py FOLDER URL before|after

FOLDER holds the corpus, URL is that of a Postgres. Without a language model Hindsight stores each text as one chunk.
Vectors are looked up, so no embedder takes part, and ranks are fused without a reranker. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# Read when the module is loaded.
os.environ |= {
    "HINDSIGHT_API_LLM_PROVIDER": "none",
    "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
    "HINDSIGHT_API_LOG_LEVEL": "critical",
}

from bench.lives import TENANT, search_and_delete, write_and_search
from bench.searches import Corpus
from hindsight_api import MemoryEngine
from hindsight_api.engine.embeddings import Embeddings
from hindsight_api.models import RequestContext

_PERSON = "anna"
_DATE = " (happened"


class _Vectors(Embeddings):  # type: ignore[misc]  # Its types are in another environment.
    """An embedder that looks vectors up."""

    def __init__(self, corpus: Corpus) -> None:
        texts = corpus.population.tenants[TENANT]
        self._vectors: dict[str, list[float]] = dict(zip(texts, corpus.entries[TENANT].tolist(), strict=True))

    @property
    def provider_name(self) -> str:
        return "given"

    @property
    def dimension(self) -> int:
        return len(next(iter(self._vectors.values())))

    async def initialize(self) -> None:
        """Nothing is loaded."""

    async def encode(self, texts: list[str]) -> list[list[float]]:
        # Hindsight embeds a stored text with its date after it.
        return [self._vectors[text if text in self._vectors else text.rpartition(_DATE)[0]] for text in texts]


class _Hindsight:
    """A bank of Hindsight as a store."""

    def __init__(self, engine: MemoryEngine, texts: Sequence[str]) -> None:
        self._engine = engine
        self._texts = texts
        self._caller = RequestContext()

    async def write(self, number: int) -> None:
        await self._engine.retain_async(
            _PERSON, self._texts[number], document_id=str(number), request_context=self._caller
        )

    async def search(self, number: int) -> int | None:
        found = await self._engine.recall_async(_PERSON, self._texts[number], request_context=self._caller)
        numbers = [int(fact.document_id) for fact in found.results]
        return number if number in numbers else next(iter(numbers), None)

    async def delete(self) -> None:
        await self._engine.delete_bank(_PERSON, delete_bank_profile=False, request_context=self._caller)


async def main(folder: Path, url: str, phase: str) -> None:
    """Do what comes before the restart, or after it."""
    corpus = Corpus.load(folder)
    engine = MemoryEngine(db_url=url, embeddings=_Vectors(corpus))
    await engine.initialize()
    store = _Hindsight(engine, corpus.population.tenants[TENANT])
    life = await (write_and_search if phase == "before" else search_and_delete)(store, corpus)
    await engine.close()
    print(json.dumps(life.as_json()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
