"""A whole cluster changes its model: the operator runs the command, the worker does the work, no caller notices."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fix_cluster import Cluster, Tenant, running_cluster, test_environment
from fix_command import skein
from fix_endpoint import DIMENSIONS, Answer, EmbeddingServer, vector_of
from fix_models import EMBEDDED, WORDS, until

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster import registry
from skein_cluster.cli.exit_codes import ExitCode
from skein_kit.telemetry.metrics import READY

TEXTS = ["Green tea is steeped at eighty degrees.", "Marta keeps bees behind the barn.", "The night train leaves late."]
QUESTION = "what does Marta keep behind the barn"


@pytest.fixture
async def changing(endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A cluster of a test's own whose worker reindexes as soon as it can."""
    environment = test_environment() | {
        "SKEIN_OUTBOUND_ALLOW": endpoint.url,
        "SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "0.5",
        "SKEIN_ADVANCED_RECALL_MODELS_SECONDS": "0.2",
        "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "0.1",
    }
    async with running_cluster(tmp_path_factory.mktemp("changing"), environment) as cluster:
        yield cluster
    # The cluster of all tests is still ready; in one process they share the gauge.
    for name in registry.NAMES:
        READY.labels(name).set(1)


async def remember(tenant: Tenant, *texts: str) -> None:
    memories = [memory_pb2.Memory(content=text) for text in texts]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def recalled(tenant: Tenant, query: str = QUESTION) -> gateway_pb2.RecallResponse:
    return await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=query, branches=[gateway_pb2.BRANCH_MEMORIES]))


async def test_the_operator_changes_the_model_and_back_while_tenants_recall(
    changing: Cluster, endpoint: EmbeddingServer
) -> None:
    operator = {
        **test_environment(),
        "SKEIN_ENDPOINT": changing.endpoint,
        "SKEIN_OPERATOR_KEY": changing.operator_key,
    }

    async def models(*arguments: str) -> object:
        ended = await skein("models", *arguments, "--json", environment=operator)
        assert ended.code == ExitCode.OK, ended.err
        return ended.json

    tenants = [await changing.new_tenant() for _ in range(3)]
    for tenant in tenants:
        await remember(tenant, *TEXTS)
        # Asked, so that there is something to compare by.
        await recalled(tenant)

    texts = ("--query-prefix", "ask: ", "--passage-prefix", "tell: ")
    scale = ("--similarity-floor", "0.1", "--similarity-ceiling", "0.9")
    where = ("--dimensions", str(DIMENSIONS), "--endpoint", endpoint.endpoint)
    registered = await models("register", WORDS, *where, *texts, *scale)
    early = await skein("models", "activate", WORDS, environment=operator)
    reindexed = await models("reindex", WORDS, "--wait", "--rate", "10000")
    compared = await models("compare", WORDS, "--top", "1")
    used = await models("activate", WORDS)

    assert registered["passage_prefix"] == "tell: "  # type: ignore[index]  # JSON.
    assert (registered["similarity_floor"], registered["similarity_ceiling"]) == (0.1, 0.9)  # type: ignore[index]  # JSON.
    assert {f"tell: {text}" for text in TEXTS} <= {text for batch in endpoint.batches for text in batch}
    assert (early.code, "VECTORS_MISSING" in early.err or "force" in early.err) == (ExitCode.REFUSED, True)
    (reindex,) = reindexed["reindexes"]  # type: ignore[index]  # JSON.
    assert (reindex["state"], reindex["embedded_count"]) == ("REINDEX_STATE_COMPLETE", str(3 * len(TEXTS)))
    assert compared["overall"]["query_count"] == 3  # type: ignore[index]  # JSON.
    assert (used["embedding_model"]["model"], used["former_model"]) == (WORDS, EMBEDDED)  # type: ignore[index]  # JSON.

    async def is_of(model: str) -> bool:
        return {(await recalled(tenant)).model for tenant in tenants} == {model}

    await until(lambda: is_of(WORDS))
    for tenant in tenants:
        await remember(tenant, "Owls hunt at night.")
        answer = await recalled(tenant)
        assert answer.branches[0].state == gateway_pb2.BRANCH_STATE_OK
        assert answer.hits[0].memory.content == TEXTS[1]

    listed = await skein("models", "list", environment=operator)
    shown = await skein("models", "reindexes", environment=operator)
    assert WORDS in listed.out
    assert "active" in listed.out
    assert WORDS in shown.out

    endpoint.breaks(Answer(b"500 Oops"))
    degraded = await recalled(tenants[0], "bees in the barn")
    assert degraded.branches[0].state == gateway_pb2.BRANCH_STATE_LEXICAL_ONLY
    assert degraded.hits[0].memory.content == TEXTS[1]
    endpoint.heals()

    await models("activate", EMBEDDED)
    await until(lambda: is_of(EMBEDDED))

    async def has_owls() -> bool:
        hits = [(await recalled(tenant, "a nocturnal bird of prey")).hits[0] for tenant in tenants]
        return all(hit.memory.content == "Owls hunt at night." and hit.similarity for hit in hits)

    await until(has_owls)
    await models("cancel-reindex", reindex["reindex_id"])

    async def is_dropped() -> bool:
        return (await skein("models", "delete", WORDS, environment=operator)).code == ExitCode.OK

    await until(is_dropped)
    assert await is_of(EMBEDDED)


@pytest.mark.essential
async def test_a_vector_that_comes_with_a_memory_is_one_of_the_model_in_force(
    changing: Cluster, endpoint: EmbeddingServer
) -> None:
    tenant = await changing.new_tenant()
    operator = {
        **test_environment(),
        "SKEIN_ENDPOINT": changing.endpoint,
        "SKEIN_OPERATOR_KEY": changing.operator_key,
    }
    words = ("register", WORDS, "--dimensions", str(DIMENSIONS), "--endpoint", endpoint.endpoint)
    for arguments in (words, ("reindex", WORDS, "--wait"), ("activate", WORDS)):
        ended = await skein("models", *arguments, environment=operator)
        assert ended.code == ExitCode.OK, ended.err

    async def is_in_force() -> bool:
        return (await recalled(tenant)).model == WORDS

    await until(is_in_force)
    memory = memory_pb2.Memory(content="Owls hunt at night.", embedding=vector_of("something else entirely"))

    created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    answer = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="something else entirely"))
    assert answer.hits[0].memory.memory_id == created.memory.memory_id
    assert answer.hits[0].similarity == pytest.approx(1.0, abs=1e-2)
