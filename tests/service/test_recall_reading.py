"""What a search by vector reads: of a filter that few pass those few, and of what it finds each memory once."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from fix_recall import RecallTenant

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database.transactions import Database
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_recall.models.store import ModelStore
from skein_recall.search.model import SearchOptions
from skein_recall.search.neighbours import REACH
from skein_recall.search.store import QueryStore, QueryTransaction
from skein_recall.service import prepare_connection
from skein_recall.vector_cache.store import VectorCacheStore

OTHERS = 90
VECTOR = np.random.default_rng(5).standard_normal(384).tolist()
FEW = memory_pb2.MemoryFilter(tags_any=["few"])


@pytest.mark.system
async def test_the_few_that_pass_are_all_found_whether_or_not_it_is_known_how_many_there_are(
    recall_tenant: RecallTenant,
) -> None:
    documents = [postings.Document(item_id=new_id(now()), kind="memory", text="tea") for _ in range(OTHERS)]
    async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
        await postings.add_documents(tx, recall_tenant.tenant_id, documents)
    for number in range(4):
        await recall_tenant.remember(f"Kettle number {number}.")
    # Of several chunks, the last of which is no less its own.
    long = "The tide comes in twice a day. " * 60 + "Grandmother's ring lies in the blue tin."
    for content in ("A green bicycle.", long):
        await recall_tenant.remember(content, tags=("few",))

    before = await recall_tenant.recall(embedding=VECTOR, filter=FEW)
    while (await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())).more:
        pass
    after = await recall_tenant.recall(embedding=VECTOR, filter=FEW)
    by_words = await recall_tenant.contents("Where is grandmother's ring?", filter=FEW, limit=1)

    assert {hit.memory.content for hit in before.hits} == {"A green bicycle.", long}
    assert [(hit.item_id, hit.similarity) for hit in after.hits] == [
        (hit.item_id, hit.similarity) for hit in before.hits
    ]
    assert after.dense_path == before.dense_path == "exact"
    assert by_words == [long]


@pytest.mark.system
async def test_a_memory_of_many_chunks_is_read_once(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The tide comes in twice a day. " * 60)
    await recall_tenant.remember("A green bicycle.")

    async with Database.open(
        recall_tenant.service.url, service="recall", size=1, timeout=30.0, init=prepare_connection
    ) as database:
        (model,) = [model for model in await ModelStore(database, settle_seconds=0.0).list_models() if model.active]
        async with QueryStore(database).transaction(recall_tenant.tenant_id, SearchOptions()) as reading:
            rows = await reading.nearest_and_read(
                model,
                np.array(VECTOR, dtype=np.float32),
                ["memory"],
                now(),
                chunks=40,
                first=10,
                show_superseded=False,
            )

    read = [row["memory_id"] for row in rows if row["memory_id"] is not None]
    assert len(rows) > len({row["item_id"] for row in rows}) == len(read) == len(set(read)) == 2
    assert [row["distance"] for row in rows] == sorted(row["distance"] for row in rows)


async def test_a_write_during_a_search_is_known_as_a_change(recall_tenant: RecallTenant) -> None:
    edited, other = [await recall_tenant.remember(text) for text in ("The kettle is red.", "The kettle is blue.")]
    items = [UUID(item_id) for item_id in (edited, other)]

    async with Database.open(
        recall_tenant.service.url, service="recall", size=2, timeout=30.0, init=prepare_connection
    ) as database:
        horizon = (await VectorCacheStore(database).read_horizon()).transaction

        async def changed(reading: QueryTransaction) -> dict[UUID, bool]:
            terms = await reading.terms("kettle", ["memory"], "english")
            result = await reading.measure(terms, ["memory"], items, items, reach=REACH, horizon=horizon)
            return dict(zip(result.item_ids, result.changed.tolist(), strict=True))

        async with QueryStore(database).transaction(recall_tenant.tenant_id, SearchOptions()) as reading:
            before = await changed(reading)
            # Another transaction, committed between two statements of this one.
            async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
                document = postings.Document(item_id=items[0], kind="memory", text="The kettle is green.")
                await postings.remove_documents(tx, recall_tenant.tenant_id, items[:1])
                await postings.add_documents(tx, recall_tenant.tenant_id, [document])
            after = await changed(reading)

    assert before == dict.fromkeys(items, False)
    assert after == {items[0]: True, items[1]: False}
