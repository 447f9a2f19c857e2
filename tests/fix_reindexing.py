"""A process that goes on with the reindexes of a tenant, to be killed.

Its arguments: the database, the tenant, and what SKEIN_OUTBOUND_ALLOW says.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast
from uuid import UUID

from skein_kit.database.transactions import Database
from skein_kit.jobs.store import JobStore
from skein_kit.outbound.fetch import SafeHttpClient
from skein_recall.index.store import IndexStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.models.model import ModelRegistry
from skein_recall.models.store import ModelStore
from skein_recall.providers.api_keys import ApiKeys
from skein_recall.providers.text_embedder import ProviderRegistry, TextEmbedder
from skein_recall.reindexes.reindexer import ChosenModels, Reindexer
from skein_recall.reindexes.store import ReindexStore
from skein_recall.service import prepare_connection
from skein_recall.settings import RecallSettings


async def main(url: str, tenant: str, allow: str) -> None:
    async with Database.open(url, service="recall", size=2, timeout=5, init=prepare_connection) as database:
        models = ModelStore(database, settle_seconds=0.0)
        registry = ModelRegistry(models, seconds=5.0)
        # What is reindexed here, an endpoint embeds.
        providers = ProviderRegistry(cast("Any", None), SafeHttpClient(allow=[allow]), ApiKeys.read({}))
        embedder = TextEmbedder(providers, query_seconds=1.0)
        stores = ReindexStore(database), IndexStore(database), VectorStore(database)
        choices = ChosenModels(database, stores[0], models, registry, RecallSettings())
        reindexer = Reindexer(*stores, registry, embedder, JobStore(database), choices)
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        await reindexer.continue_reindex(UUID(tenant), 60.0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
