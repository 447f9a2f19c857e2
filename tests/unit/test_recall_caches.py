"""What recall keeps in memory by tenant, and that all of a tenant can be dropped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from skein_kit.ids import new_ids
from skein_recall.models.model import EmbeddingModel
from skein_recall.providers.provider import QueryEmbedding
from skein_recall.providers.text_embedder import QueryCache
from skein_recall.quality.recent_queries import RecentQueries

AT = datetime(2026, 3, 1, tzinfo=UTC)
TENANT, OTHER = new_ids(AT, 2)
MODEL = EmbeddingModel(
    model="m", provider="caller", dimensions=3, table_name="embeddings_m", active=True, create_time=AT
)


class Provider:
    """Embeds texts, and counts them."""

    def __init__(self) -> None:
        self.runs = 0
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def embed(self) -> QueryEmbedding:
        self.runs += 1
        await self.may_go_on.wait()
        return QueryEmbedding(np.zeros(3, dtype=np.float32))


async def test_a_query_is_embedded_once_per_tenant_and_model() -> None:
    provider, cache = Provider(), QueryCache()
    later = replace(MODEL, create_time=AT + timedelta(days=1))

    first = await cache.get(TENANT, MODEL, "tea", provider.embed)
    again = await cache.get(TENANT, MODEL, "tea", provider.embed)
    assert provider.runs == 1
    other = await cache.get(OTHER, MODEL, "tea", provider.embed)
    assert provider.runs == 2
    of_later_model = await cache.get(TENANT, later, "tea", provider.embed)

    assert provider.runs == 3
    assert again is first
    assert other is not first
    assert of_later_model is not first
    assert not first.vector.flags.writeable


async def test_concurrent_callers_share_one_run_and_a_cancelled_one_does_not_end_it() -> None:
    provider, cache = Provider(), QueryCache()
    provider.may_go_on.clear()
    first, *others = [asyncio.create_task(cache.get(TENANT, MODEL, "tea", provider.embed)) for _ in range(3)]
    while not provider.runs:
        await asyncio.sleep(0)

    first.cancel()
    provider.may_go_on.set()
    vectors = await asyncio.gather(*others)

    assert first.cancelled()
    assert provider.runs == 1
    assert vectors[0] is vectors[1]


async def test_the_query_cache_removes_the_least_recent() -> None:
    provider, cache = Provider(), QueryCache(max_queries=2)
    for text in ("tea", "coffee", "tea", "milk"):
        await cache.get(TENANT, MODEL, text, provider.embed)
    assert provider.runs == 3

    await cache.get(TENANT, MODEL, "tea", provider.embed)
    assert provider.runs == 3
    await cache.get(TENANT, MODEL, "coffee", provider.embed)

    assert provider.runs == 4


async def test_a_dropped_tenant_has_its_vectors_made_anew_and_others_keep_theirs() -> None:
    provider, cache = Provider(), QueryCache()
    for tenant_id in (TENANT, OTHER):
        await cache.get(tenant_id, MODEL, "tea", provider.embed)

    cache.drop(TENANT)
    await cache.get(OTHER, MODEL, "tea", provider.embed)
    assert provider.runs == 2
    await cache.get(TENANT, MODEL, "tea", provider.embed)

    assert provider.runs == 3


async def test_a_vector_that_is_being_made_while_its_tenant_is_dropped_is_not_kept() -> None:
    provider, cache = Provider(), QueryCache()
    provider.may_go_on.clear()
    pending = asyncio.create_task(cache.get(TENANT, MODEL, "tea", provider.embed))
    while not provider.runs:
        await asyncio.sleep(0)

    cache.drop(None)
    provider.may_go_on.set()
    await pending
    await cache.get(TENANT, MODEL, "tea", provider.embed)

    assert provider.runs == 2


def test_the_queries_of_a_dropped_tenant_are_gone() -> None:
    recent = RecentQueries()
    for tenant_id in (TENANT, OTHER):
        recent.add(tenant_id, "tea")

    recent.drop(TENANT)
    assert (recent.queries(TENANT, 9), recent.queries(OTHER, 9)) == ([], ["tea"])
    recent.drop(None)

    assert recent.tenants() == []
