from __future__ import annotations

import math

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import refused
from fix_recall import RecallServer, RecallTenant

from skein.recall.v1 import recall_pb2 as pb


def register(model: str, provider: str = "caller", dimensions: int = 8) -> pb.RegisterEmbeddingModelRequest:
    return pb.RegisterEmbeddingModelRequest(
        embedding_model=pb.EmbeddingModel(model=model, provider=provider, dimensions=dimensions, active=True)
    )


async def test_the_embedded_model_is_registered_and_active(recall_tenant: RecallTenant) -> None:
    response = await recall_tenant.stub.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())

    (active,) = [model for model in response.embedding_models if model.active]
    assert (active.model, active.provider, active.dimensions) == ("all-minilm-l6-v2", "embedded", 384)


@pytest.mark.parametrize("dimensions", [1, 1280, 1281, 4000])
async def test_a_model_of_the_caller_s_gets_a_table_and_does_not_become_active(
    recall_server: RecallServer, recall_tenant: RecallTenant, dimensions: int
) -> None:
    name = f"house-model.v{dimensions}"

    made = (await recall_server.operator.RegisterEmbeddingModel(register(name, dimensions=dimensions))).embedding_model

    assert (made.model, made.provider, made.dimensions, made.active) == (name, "caller", dimensions, False)
    listed = (await recall_tenant.stub.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())).embedding_models
    assert made in listed
    async with recall_server.superuser() as connection:
        assert await connection.fetchval("SELECT to_regclass($1)", f"recall.embeddings_house_model_v{dimensions}")


@over("name", ["all-minilm-l6-v2", "all.minilm.l6.v2"])
async def test_a_name_that_is_taken_is_refused(recall_server: RecallServer, name: str) -> None:
    with refused(grpc.StatusCode.ALREADY_EXISTS, "MODEL_EXISTS"):
        await recall_server.operator.RegisterEmbeddingModel(register(name))


async def test_a_refused_registration_leaves_its_request_id_free(recall_server: RecallServer) -> None:
    request = register("all-minilm-l6-v2")
    request.request_id = "corrected"
    with refused(grpc.StatusCode.ALREADY_EXISTS, "MODEL_EXISTS"):
        await recall_server.operator.RegisterEmbeddingModel(request)
    request.embedding_model.model = "corrected"

    made = await recall_server.operator.RegisterEmbeddingModel(request)

    assert made.embedding_model.model == "corrected"


@over(("name", "dimensions"), [("bge-m3", 1024), ("all-minilm-l6-v2", 512)])
async def test_a_model_that_this_cluster_cannot_embed_with_is_refused(
    recall_server: RecallServer, name: str, dimensions: int
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_server.operator.RegisterEmbeddingModel(register(name, "embedded", dimensions))


async def test_texts_are_embedded_in_order_to_unit_length(recall_tenant: RecallTenant) -> None:
    response = await recall_tenant.stub.EmbedText(pb.EmbedTextRequest(texts=["tea", "", "coffee " * 2000, "tea"]))

    vectors = [list(embedding.values) for embedding in response.embeddings]
    assert response.model == "all-minilm-l6-v2"
    assert [len(vector) for vector in vectors] == [384] * 4
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0] * 4, abs=1e-4)
    assert vectors[0] == pytest.approx(vectors[3], abs=1e-5)


async def test_more_text_than_the_model_is_given_at_once_is_refused(recall_tenant: RecallTenant) -> None:
    fitting = ["x" * 100_000, "y" * 100_000]

    await recall_tenant.stub.EmbedText(pb.EmbedTextRequest(texts=fitting))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_tenant.stub.EmbedText(pb.EmbedTextRequest(texts=[*fitting, "z"]))
