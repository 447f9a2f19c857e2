"""A tenant of a whole cluster changes its model by its policy: the worker prepares it, and receipts replay."""

from __future__ import annotations

import uuid

from fix_cluster import Cluster, Tenant
from fix_models import EMBEDDED, REINDEX_NOW, until
from fix_receipts import recall_with_receipt

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb

VECTOR = [1.0] * 16


async def replays(tenant: Tenant, response: pb.RecallResponse) -> bool:
    replayed = await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=response.receipt_id))
    return replayed.identical and replayed.response.model == response.model


async def test_answers_of_both_models_replay_after_a_tenant_changed_its_model_by_its_policy(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    name = f"chosen-{uuid.uuid4().hex[:8]}"
    model = pb.EmbeddingModel(model=name, provider="caller", dimensions=len(VECTOR))
    await cluster.operator.recall.RegisterEmbeddingModel(pb.RegisterEmbeddingModelRequest(embedding_model=model))
    await cluster.operator.recall.OfferEmbeddingModel(pb.OfferEmbeddingModelRequest(model=name))
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    item_id = await tenant.remember("The kettle of the mill whistles.")
    await other_tenant.remember("The kettle of the mill is silent.")
    before = await recall_with_receipt(tenant, "the kettle")

    await tenant.set_policy(embedding_model=name)

    async def is_switched() -> bool:
        async with cluster.superuser() as connection:
            await connection.execute(REINDEX_NOW)
        return (await tenant.recall.Recall(pb.RecallRequest(query="the kettle"))).model == name

    await until(is_switched)
    put = pb.PutEmbeddingRequest(item_id=item_id)
    put.embeddings.add(values=VECTOR)
    assert (await tenant.recall.PutEmbedding(put)).model == name
    created = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="A lid.", embedding=VECTOR))
    await tenant.memory.CreateMemory(created)
    after = await tenant.recall.Recall(pb.RecallRequest(query="kettle", embedding=VECTOR))
    assert (before.model, after.model) == (EMBEDDED, name)
    assert len(after.hits) == 2
    assert await replays(tenant, before)
    assert await replays(tenant, after)
    assert (await other_tenant.recall.Recall(pb.RecallRequest(query="the kettle"))).model == EMBEDDED
