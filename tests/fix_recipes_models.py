"""Requests about models and their vectors: nothing that another test's search would notice."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from fix_recipe import service
from fix_world import MAKERS, World

from skein.recall.v1 import recall_pb2 as pb

if TYPE_CHECKING:
    from typing import Any

_recall = service("skein.recall.v1.RecallService", pb)
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
_recall("DeleteEmbeddingModel", "unused_model", build=lambda t, _w: {"model": t["unused_model"]})
_index("ListDueTenants")
_index("ListDueReindexes")
_index("ContinueReindex")
