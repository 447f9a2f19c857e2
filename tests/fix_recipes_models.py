"""Requests about models and their vectors: nothing that another test's search would notice."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from fix_recipe import service
from fix_world import MAKERS, World

from skein.auth.v1 import certificates_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.tenancy.v1 import subjects_pb2

_recall = service("skein.recall.v1.RecallService", pb)
_auth_internal = service("skein.auth.v1.AuthInternalService", certificates_pb2)
_index = service("skein.recall.v1.RecallInternalService", pb)
IN_FORCE = "all-minilm-l6-v2"


async def _model(world: World) -> str:
    """A model whose vectors callers bring: nothing follows it."""
    name = f"matrix-{uuid.uuid4().hex[:8]}"
    model = pb.EmbeddingModel(model=name, provider="caller", dimensions=8)
    await world.cluster.operator.recall.RegisterEmbeddingModel(pb.RegisterEmbeddingModelRequest(embedding_model=model))
    return name


async def _reindex(world: World) -> str:
    request = pb.StartReindexRequest(model=await world.thing("model"), tenant_id=str(world.tenant.tenant_id))
    return (await world.cluster.operator.recall.StartReindex(request)).reindex.reindex_id


async def _unused_model(world: World) -> str:
    return await _model(world)


MAKERS["model"] = _model
MAKERS["unused_model"] = _unused_model
MAKERS["reindex_id"] = _reindex


def _vector(things: dict[str, Any], _world: World) -> dict[str, Any]:
    embedding = pb.Embedding(values=[1.0] * 8)
    return {"item_id": things["memory_id"], "model": things["model"], "embeddings": [embedding]}


async def _receipt(world: World) -> str:
    """The receipt of an answer, as soon as the tenant's policy gives one."""
    policy = subjects_pb2.Policy(recall_receipts="all", audit_query_text=True)
    mask = {"paths": ["recall_receipts", "audit_query_text"]}
    await world.tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    while not (response := await world.tenant.recall.Recall(pb.RecallRequest(query="the red kettle"))).receipt_id:
        await asyncio.sleep(0.05)
    return response.receipt_id


def _context_record(things: dict[str, Any], _world: World) -> dict[str, Any]:
    statement = pb.ContextStatement(packer="context-0", text_digest=bytes(32))
    record = pb.ContextRecord(
        receipt_id=things["receipt_id"], statement=statement, salt=bytes(16), inputs=pb.ContextInputs(token_budget=100)
    )
    return {"records": [record]}


MAKERS["receipt_id"] = _receipt
_recall("GetRecallReceipt", "receipt_id")
_recall("ListRecallReceipts", "receipt_id", build=lambda _t, _w: {})
_recall("GetSearchCounts", build=lambda _t, _w: {})
_recall("ReplayRecall", "receipt_id")
_recall(
    "DiffRecall",
    "receipt_id",
    build=lambda t, _w: {"receipt_id": t["receipt_id"], "other_receipt_id": t["receipt_id"]},
)
_auth_internal("SignRecallReceipts", build=lambda _t, _w: {"receipt_ids": [uuid.uuid4().bytes], "digests": [bytes(32)]})
_index("RecordContexts", "receipt_id", build=_context_record)
_recall("BatchGetIndexStates", "memory_id", build=lambda t, _w: {"item_ids": [t["memory_id"]]})
_recall("PutEmbedding", "memory_id", "model", build=_vector)
_recall("StartReindex", "model", build=lambda t, w: {"model": t["model"], "tenant_id": str(w.tenant.tenant_id)})
_recall("GetReindex", "reindex_id")
_recall("ListReindexes", "reindex_id", build=lambda _t, _w: {})
_recall("CancelReindex", "reindex_id")
_recall(
    "CompareEmbeddingModels",
    build=lambda _t, w: {"model": IN_FORCE, "tenant_id": str(w.tenant.tenant_id), "queries": ["the red kettle"]},
)
_recall("ActivateEmbeddingModel", build=lambda _t, _w: {"model": IN_FORCE})
_recall("OfferEmbeddingModel", "model", build=lambda t, _w: {"model": t["model"], "withdraw": True})
_recall("DeleteEmbeddingModel", "unused_model", build=lambda t, _w: {"model": t["unused_model"]})
_index("ListDueTenants")
_index("ListDueReindexes")
_index("ContinueReindex")
