"""Vectors of tokens: which items get them, who leaves them out, and how hits are ordered by them."""

from __future__ import annotations

from uuid import UUID

import pytest
from fix_endpoint import EmbeddingServer
from fix_models import EMBEDDED, Deployment, run_deployment
from fix_recall import RecallServer, RecallTenant, serving
from joserfc.jwk import OKPKey

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.embedded.server import Server
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.embedded_model.token_vectors import TOKEN_DIMENSIONS

PEANUTS = "Marta is allergic to peanuts."
# With the full stop.
TOKENS_OF_PEANUTS = 6
OFF = {"SKEIN_RECALL_TOKEN_VECTORS": "false"}


async def token_counts(service: RecallServer, item_id: str) -> list[int | None]:
    """Return the number of tokens that are stored of each chunk of an item; None of a chunk without codes."""
    async with service.superuser() as connection:
        rows = await connection.fetch(
            "SELECT octet_length(tokens) AS size FROM recall.embeddings_all_minilm_l6_v2 WHERE item_id = $1 "
            "ORDER BY chunk",
            UUID(item_id),
        )
    return [None if row["size"] is None else row["size"] // TOKEN_DIMENSIONS for row in rows]


def tokens_of(hit: pb.Hit) -> pb.ScoreComponent | None:
    """Return the part of the score by tokens."""
    return next((part for part in hit.components if part.signal == "tokens"), None)


async def leave_out_tokens(tenant: RecallTenant) -> None:
    """Change the tenant's policy, as tenancy does."""
    async with tenant.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, recall_token_vectors, update_time) VALUES ($1, false, $2)",
            tenant.tenant_id,
            now(),
        )


async def test_each_token_of_an_item_has_a_vector(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember(PEANUTS)

    assert await token_counts(recall_tenant.service, item_id) == [TOKENS_OF_PEANUTS]


@pytest.mark.system
async def test_each_chunk_of_a_long_text_has_the_vectors_of_its_tokens(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember("One two three four five six seven eight nine ten. " * 60)

    counts = await token_counts(recall_tenant.service, item_id)

    assert len(counts) > 2
    assert all(count is not None and 0 < count <= 254 for count in counts)


async def test_the_backlog_gives_items_their_vectors_of_tokens(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember(PEANUTS, index=False)

    await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())

    assert await token_counts(recall_tenant.service, item_id) == [TOKENS_OF_PEANUTS]


async def test_a_callers_vector_has_no_vectors_of_tokens(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember(PEANUTS)

    await recall_tenant.stub.PutEmbedding(
        pb.PutEmbeddingRequest(item_id=item_id, embeddings=[pb.Embedding(values=[1.0] * 384)])
    )

    assert await token_counts(recall_tenant.service, item_id) == [None]


async def test_a_tenant_leaves_vectors_of_tokens_out_by_its_policy(recall_tenant: RecallTenant) -> None:
    await leave_out_tokens(recall_tenant)

    item_id = await recall_tenant.remember(PEANUTS)
    answer = await recall_tenant.recall("peanuts")

    assert await token_counts(recall_tenant.service, item_id) == [None]
    assert answer.formula == "scores-7"
    assert tokens_of(answer.hits[0]) is None


async def test_a_policy_leaves_stored_vectors_of_tokens_unread(recall_tenant: RecallTenant) -> None:
    item_id = await recall_tenant.remember(PEANUTS)
    await leave_out_tokens(recall_tenant)

    answer = await recall_tenant.recall("peanuts")

    assert await token_counts(recall_tenant.service, item_id) == [TOKENS_OF_PEANUTS]
    assert answer.formula == "scores-7"
    assert answer.hits[0].HasField("relevance")


async def test_a_hit_says_how_well_its_tokens_match(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(PEANUTS)
    await recall_tenant.remember("The ferry leaves on Saturday at nine.")

    answer = await recall_tenant.recall("What is Marta allergic to?", min_relevance=0)

    assert answer.formula == "scores-8"
    best, other = (tokens_of(hit) for hit in answer.hits)
    assert best is not None
    assert other is not None
    assert best.raw > other.raw > 0
    assert (best.rank, other.rank) == (1, 2)
    assert answer.hits[0].HasField("relevance")
    for hit in answer.hits:
        assert sum(part.value * part.weight for part in hit.components) == pytest.approx(hit.score)


async def test_a_call_without_the_weight_of_tokens_has_the_formula_without_them(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(PEANUTS)

    answer = await recall_tenant.recall("peanuts", weights={"tokens": 0.0})

    assert answer.formula == "scores-7"
    assert answer.hits[0].HasField("relevance")


@pytest.mark.system
async def test_an_item_without_vectors_of_tokens_is_ranked_by_what_the_others_make_expect(
    recall_tenant: RecallTenant,
) -> None:
    by_caller = await recall_tenant.remember("Marta is allergic to hazelnuts and to almonds.")
    await recall_tenant.stub.PutEmbedding(
        pb.PutEmbeddingRequest(item_id=by_caller, embeddings=[pb.Embedding(values=[1.0] * 384)])
    )
    pending = await recall_tenant.remember("Marta is allergic to walnuts and to cashews.", index=False)
    for number in range(20):
        await recall_tenant.remember(f"The ferry number {number} leaves on Saturday at nine.")

    answer = await recall_tenant.recall("What is Marta allergic to?", min_relevance=0)

    assert answer.formula == "scores-8"
    assert {hit.item_id for hit in answer.hits[:2]} == {by_caller, pending}
    for hit in answer.hits[:2]:
        part = tokens_of(hit)
        assert part is not None
        assert (part.raw, part.rank) == (0, 0)
        assert part.value > 0.4


async def test_a_long_text_is_no_question_whose_tokens_are_compared(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(PEANUTS)

    answer = await recall_tenant.recall("What is Marta allergic to? " * 40)

    assert answer.formula == "scores-7"


async def test_a_vector_of_the_caller_has_no_tokens_to_compare(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(PEANUTS)

    answer = await recall_tenant.recall("peanuts", embedding=[1.0] * 384)

    assert answer.formula == "scores-7"


@pytest.mark.system
async def test_an_operator_leaves_them_out_by_a_setting_and_a_reindex_adds_them_later(
    server: Server, template: str, endpoint: EmbeddingServer
) -> None:
    async with run_deployment(server, template, endpoint, **OFF) as without:
        item_id = await without.tenant.remember(PEANUTS)
        by_caller = await without.tenant.remember("Marta lives in Graz.")
        await without.tenant.stub.PutEmbedding(
            pb.PutEmbeddingRequest(item_id=by_caller, embeddings=[pb.Embedding(values=[1.0] * 384)])
        )
        before = await token_counts(without.service, item_id)
        key = OKPKey.generate_key("Ed25519", parameters={"kid": "test"})
        settings = without.settings | {"SKEIN_RECALL_TOKEN_VECTORS": "true"}
        async with serving(without.service.url, key, **settings) as service:
            tenant = RecallTenant(service, without.tenant.tenant_id)
            deployment = Deployment(service, endpoint, tenant, settings)
            await deployment.start(EMBEDDED)
            at = now()
            embedded = await deployment.work()
            present = await tenant.recall("peanuts", kinds=[pb.ITEM_KIND_MEMORY])
            past = await tenant.recall("peanuts", as_of_time=to_timestamp(at))

        assert before == [None]
        assert embedded == 1
        assert (past.formula, present.formula) == ("scores-7", "scores-8")
        assert await token_counts(without.service, item_id) == [TOKENS_OF_PEANUTS]
        assert await token_counts(without.service, by_caller) == [None]
