"""A fact in the last sentence of a long entry is found by its meaning, whenever its vectors are made."""

from __future__ import annotations

import pytest
from fix_cluster import Cluster, Tenant
from fix_world import system_identity

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2, recall_pb2_grpc

LENGTH = 10_000
FACT = "The doctor prescribed penicillin for the ear infection."
# No word of it stands in the fact.
QUESTION = "which antibiotic treats hearing problems"
OTHERS = [
    "Our fence was painted green last spring.",
    "Marta keeps bees.",
    "Trains leave at ten.",
    "Tea is steeped hot.",
]


def long_entry() -> str:
    filler = "Chapter nine. We had fair weather and nobody spoke much about our garden or their fence. " * 200
    return f"{filler[: LENGTH - len(FACT) - 1]} {FACT}"


async def embedded(cluster: Cluster, tenant: Tenant) -> None:
    """Make the vectors that are missing, as the worker does."""
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("recall") as channel:
        index = recall_pb2_grpc.RecallInternalServiceStub(channel)
        headers = (("authorization", f"Bearer {token}"),)
        while (await index.IndexBacklog(recall_pb2.IndexBacklogRequest(limit=1), metadata=headers)).more:
            pass


@pytest.mark.parametrize("count", [1, 3], ids=["embedded at once", "left to the worker"])
async def test_the_last_sentence_of_a_long_entry_is_found(cluster: Cluster, tenant: Tenant, count: int) -> None:
    assert len(long_entry()) == LENGTH
    for text in OTHERS:
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=text)))
    memories = [memory_pb2.Memory(content=long_entry(), metadata={"number": number}) for number in range(count)]
    created = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    # Where a slow machine did not make them at once, the worker does.
    assert created.pending_embedding_count in ({0, 1} if count == 1 else {count})
    await embedded(cluster, tenant)

    hits = (
        await tenant.gateway.Recall(
            gateway_pb2.RecallRequest(query=QUESTION, limit=count + 1, min_relevance=0, show_duplicates=True)
        )
    ).hits

    assert [hit.memory.content for hit in hits[:count]] == [long_entry()] * count
    assert min(hit.similarity for hit in hits[:count]) > 0.15 > hits[count].similarity
