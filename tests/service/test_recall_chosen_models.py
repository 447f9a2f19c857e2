"""A tenant chooses among the models that the operator offers; the others keep the one of the cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import refused
from fix_endpoint import Answer, EmbeddingServer, vector_of
from fix_models import EMBEDDED, WORDS, Deployment, run_deployment, until
from fix_recall import RecallTenant

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.embedded.server import Server
from skein_kit.database.named_queries import Query
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings, vector_columns

LARGE = 1536
CHOOSE = """
INSERT INTO tenancy.policies (tenant_id, embedding_model, update_time) VALUES ($1, $2, now())
ON CONFLICT (tenant_id) DO UPDATE SET embedding_model = excluded.embedding_model
"""
INSERT_MEMORY = Query.parse(
    "insert",
    """
    INSERT INTO memory.memories (tenant_id, memory_id, type, content, scope, level, confidence, importance,
                                 content_hash, create_time, update_time, created_by, updated_by)
    VALUES (:tenant_id, :item_id, 'note', :content, 'global', 'operational', 0.7, 0.5, '', :at, :at, 'test', 'test')
    """,
)


async def offer(deployment: Deployment, model: str = WORDS, **values: Any) -> pb.EmbeddingModel:
    request = pb.OfferEmbeddingModelRequest(model=model, **values)
    return (await deployment.operator.OfferEmbeddingModel(request)).embedding_model


async def choose(deployment: Deployment, tenant: RecallTenant, model: str | None) -> None:
    """Do what UpdatePolicy does."""
    async with deployment.service.superuser() as connection:
        await connection.execute(CHOOSE, tenant.tenant_id, model)


async def choices(deployment: Deployment, tenant: RecallTenant) -> list[str | None]:
    async with deployment.service.superuser() as connection:
        rows: list[asyncpg.Record] = await connection.fetch(
            "SELECT model FROM recall.model_choices WHERE tenant_id = $1 ORDER BY from_time", tenant.tenant_id
        )
    return [row["model"] for row in rows]


async def model_of(tenant: RecallTenant, at: datetime | None = None) -> str:
    request = pb.RecallRequest(query="tea")
    if at is not None:
        request.as_of_time.FromDatetime(at)
    return (await tenant.stub.Recall(request)).model


async def bring(tenant: RecallTenant, content: str, vector: list[float]) -> str:
    """Write a memory with a caller vector."""
    item_id, at = new_id(now()), now()
    async with tenant.service.memory.global_transaction() as tx:
        await tx.execute(Query.parse("month", "SELECT memory.ensure_month(:at)"), at=at)
    async with tenant.service.memory.transaction(tenant.tenant_id) as tx:
        await tx.execute(INSERT_MEMORY, tenant_id=tenant.tenant_id, item_id=item_id, content=content, at=at)
        document = postings.Document(
            item_id=item_id, kind="memory", text=content, embedding=vector_columns.normalize(vector)
        )
        await postings.add_documents(tx, tenant.tenant_id, [document])
    return str(item_id)


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers of caller vectors read their model each time."""
    monkeypatch.setattr(vector_columns, "CACHE_SECONDS", 0.0)


@pytest.mark.system
async def test_a_tenant_searches_the_model_that_it_chose_and_the_others_do_not(deployment: Deployment) -> None:
    tenant, other = deployment.tenant, await deployment.service.new_tenant()
    ids = [await tenant.remember("Green tea."), await tenant.say("Black coffee.")]
    await other.remember("White tea.")
    await deployment.register()
    assert (await offer(deployment)).offered

    await choose(deployment, tenant, WORDS)
    assert await deployment.due() == [str(tenant.tenant_id)]
    assert await deployment.work() == len(ids)

    ids.append(await tenant.remember("Rooibos."))
    await other.remember("Oolong.")
    assert (await model_of(tenant), await model_of(other)) == (WORDS, EMBEDDED)
    assert set(await deployment.vectors(WORDS)) == set(ids)
    assert ids[-1] not in await deployment.vectors(EMBEDDED)
    assert await deployment.due() == []
    # Its reindex has ended.
    reindexes = (await deployment.operator.ListReindexes(pb.ListReindexesRequest())).reindexes
    assert [(one.model, one.tenant_id, one.state) for one in reindexes] == [
        (WORDS, str(tenant.tenant_id), pb.REINDEX_STATE_CANCELLED)
    ]
    listed = await tenant.stub.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())
    assert {one.model: (one.active, one.offered) for one in listed.embedding_models} == {
        EMBEDDED: (False, False),
        WORDS: (True, True),
    }
    states = (await tenant.stub.BatchGetIndexStates(pb.BatchGetIndexStatesRequest(item_ids=ids[:1]))).states
    assert {one.model: one.active for one in states[0].vectors} == {EMBEDDED: False, WORDS: True}
    texts = await tenant.stub.EmbedText(pb.EmbedTextRequest(texts=["tea"]))
    assert texts.model == WORDS


@pytest.mark.system
async def test_searches_stay_whole_while_a_tenant_changes_its_model_under_writes(deployment: Deployment) -> None:
    tenant = deployment.tenant
    first = await tenant.remember("Green tea.")
    await deployment.register()
    await offer(deployment)
    deployment.endpoint.breaks(Answer(status=b"503 Service Unavailable"))
    await choose(deployment, tenant, WORDS)

    await deployment.work()
    second = await tenant.remember("Black tea.")
    during = await tenant.recall("tea", mode=pb.SEARCH_MODE_SEMANTIC)
    deployment.endpoint.heals()
    third = await tenant.remember("White tea.")

    async def is_switched() -> bool:
        # The endpoint is asked again after a pause.
        await deployment.backlog()
        await deployment.work()
        return await model_of(tenant) == WORDS

    await until(is_switched)
    await deployment.backlog()
    after = await tenant.recall("tea", mode=pb.SEARCH_MODE_SEMANTIC)

    assert (during.model, {hit.item_id for hit in during.hits}) == (EMBEDDED, {first, second})
    assert (after.model, {hit.item_id for hit in after.hits}) == (WORDS, {first, second, third})
    assert (await tenant.recall("tea")).pending_embedding_count == 0


@pytest.mark.system
async def test_a_tenant_returns_to_the_model_of_the_cluster_with_what_it_wrote_meanwhile(
    deployment: Deployment,
) -> None:
    tenant = deployment.tenant
    await tenant.remember("Green tea.")
    await deployment.register()
    await offer(deployment)
    await choose(deployment, tenant, WORDS)
    await deployment.work()
    meanwhile = await tenant.remember("Black tea.")
    assert meanwhile not in await deployment.vectors(EMBEDDED)

    await choose(deployment, tenant, None)
    await deployment.work()

    assert await model_of(tenant) == EMBEDDED
    assert meanwhile in await deployment.vectors(EMBEDDED)
    assert await choices(deployment, tenant) == [WORDS, None]


@pytest.mark.system
async def test_a_wish_that_is_withdrawn_before_the_switch_leaves_no_reindex(deployment: Deployment) -> None:
    tenant = deployment.tenant
    await tenant.remember("Green tea.")
    await deployment.register()
    await offer(deployment)
    deployment.endpoint.breaks(Answer(status=b"503 Service Unavailable"))
    await choose(deployment, tenant, WORDS)
    await deployment.work()

    await choose(deployment, tenant, None)
    await deployment.work()

    assert await deployment.due() == []
    assert await choices(deployment, tenant) == []
    reindexes = (await deployment.operator.ListReindexes(pb.ListReindexesRequest())).reindexes
    assert [one.state for one in reindexes] == [pb.REINDEX_STATE_CANCELLED]


@pytest.mark.system
async def test_vectors_of_callers_with_other_dimensions_are_searched_where_a_tenant_chose_them(
    deployment: Deployment,
) -> None:
    tenant, other = deployment.tenant, await deployment.service.new_tenant()
    kept = await tenant.remember("Green tea.")
    await deployment.register("large", provider="caller", dimensions=LARGE, endpoint="")
    request = pb.PutEmbeddingRequest(model="large", item_id=kept)
    request.embeddings.add(values=vector_of("green", LARGE))
    await tenant.stub.PutEmbedding(request)
    await offer(deployment, "large")

    await choose(deployment, tenant, "large")
    await deployment.work()
    brought = await bring(tenant, "Black tea.", vector_of("black", LARGE))
    found = await tenant.stub.Recall(
        pb.RecallRequest(embedding=vector_of("black", LARGE), mode=pb.SEARCH_MODE_SEMANTIC)
    )

    assert [hit.item_id for hit in found.hits] == [brought, kept]
    assert found.model == "large"
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "DIMENSIONS_MISMATCH"):
        await other.stub.Recall(pb.RecallRequest(embedding=vector_of("black", LARGE)))
    await bring(other, "White tea.", vector_of("white", 384))
    assert await model_of(other) == EMBEDDED


@pytest.mark.system
async def test_a_search_as_of_a_time_uses_what_the_tenant_searched_then(deployment: Deployment) -> None:
    tenant, other = deployment.tenant, await deployment.service.new_tenant()
    await tenant.remember("Green tea.")
    await other.remember("White tea.")
    await deployment.register()
    await offer(deployment)
    first = now()
    await choose(deployment, tenant, WORDS)
    await deployment.work()
    second = now()
    await choose(deployment, tenant, None)
    await deployment.work()

    assert [await model_of(tenant, at) for at in (first, second, now())] == [EMBEDDED, WORDS, EMBEDDED]
    assert await model_of(other, second) == EMBEDDED


@pytest.mark.system
async def test_a_switch_of_the_cluster_leaves_a_tenant_with_what_it_chose(deployment: Deployment) -> None:
    tenant, other = deployment.tenant, await deployment.service.new_tenant()
    await tenant.remember("Green tea.")
    await deployment.register("mine")
    await offer(deployment, "mine")
    await choose(deployment, tenant, "mine")
    await deployment.work()
    await deployment.register()
    await deployment.start()
    await deployment.work()
    await deployment.work(other)

    await deployment.use(WORDS)

    await deployment.work()
    await tenant.remember("Black tea.")
    assert (await model_of(tenant), await model_of(other)) == ("mine", WORDS)
    assert len(await deployment.vectors("mine")) == 2


@pytest.mark.system
async def test_a_model_that_a_tenant_chose_is_not_deleted_and_the_error_names_the_tenant(
    deployment: Deployment,
) -> None:
    tenant = deployment.tenant
    await deployment.register()
    await offer(deployment)
    await choose(deployment, tenant, WORDS)

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_CHOSEN") as wished:
        await deployment.drop(WORDS)
    await deployment.work()
    await choose(deployment, tenant, None)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_CHOSEN") as searched:
        await deployment.drop(WORDS)
    await deployment.work()
    await offer(deployment, withdraw=True)
    await deployment.drop(WORDS)

    for caught in (wished, searched):
        assert str(tenant.tenant_id) in str(caught.value) + str(caught.value.trailing_metadata())
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_DROPPED_SINCE"):
        await model_of(tenant, await switch_time(deployment, tenant))


async def switch_time(deployment: Deployment, tenant: RecallTenant) -> Any:
    async with deployment.service.superuser() as connection:
        return await connection.fetchval(
            "SELECT from_time FROM recall.model_choices WHERE tenant_id = $1 AND model IS NOT NULL", tenant.tenant_id
        )


async def test_a_model_that_does_not_answer_is_not_offered(deployment: Deployment) -> None:
    await deployment.register()
    deployment.endpoint.breaks(Answer(status=b"401 Unauthorized"))

    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await offer(deployment)
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await offer(deployment, "nobody-s")
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await deployment.tenant.stub.OfferEmbeddingModel(pb.OfferEmbeddingModelRequest(model=WORDS))


@pytest.mark.system
async def test_what_a_process_writes_that_does_not_know_of_the_switch_gets_both_vectors(
    server: Server, template: str, endpoint: EmbeddingServer
) -> None:
    settings = {"SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "600"}
    async with run_deployment(server, template, endpoint, **settings) as deployment:
        tenant = deployment.tenant
        await deployment.register("large", provider="caller", dimensions=LARGE, endpoint="")
        await offer(deployment, "large")
        await choose(deployment, tenant, "large")
        await deployment.work()
        item_id = await tenant.remember("Green tea.")
        await deployment.backlog()

        assert item_id in await deployment.vectors(EMBEDDED)
        assert await model_of(tenant) == "large"
