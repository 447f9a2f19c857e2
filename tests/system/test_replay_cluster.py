"""Answers replay after a restart of the cluster, and after a change of the model while the old vectors are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_cluster import Tenant, running_cluster, test_environment
from fix_command import skein
from fix_endpoint import DIMENSIONS, EmbeddingServer
from fix_models import EMBEDDED, WORDS, until
from fix_receipts import TOPICS, get_receipt, recall_with_receipt

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster import registry
from skein_cluster.cli.exit_codes import ExitCode
from skein_kit.telemetry.metrics import READY


@pytest.fixture(autouse=True)
def _shared_gauge() -> Iterator[None]:
    yield
    # The cluster of all tests is still ready; in one process they share the gauge.
    for name in registry.NAMES:
        READY.labels(name).set(1)


async def replay(tenant: Tenant, receipt_id: str) -> pb.ReplayRecallResponse:
    return await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=receipt_id))


def shown(response: pb.RecallResponse) -> list[tuple[str, float, str]]:
    return [(hit.item_id, hit.score, hit.memory.content) for hit in response.hits]


async def remembered(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the neighbours of the mill.")


@pytest.mark.essential
async def test_an_answer_replays_after_a_restart(tmp_path: Path) -> None:
    environment = test_environment() | {"SKEIN_DATA_DIR": str(tmp_path / "data")}
    async with running_cluster(tmp_path / "data", environment) as cluster:
        tenant = await cluster.new_tenant()
        await remembered(tenant)
        await recall_with_receipt(tenant, "kettle")
        # The last receipt waits to be stored when the cluster ends.
        responses = [await tenant.search(f"whose is the {topic}?", min_relevance=0) for topic in TOPICS]

    async with running_cluster(tmp_path / "data", environment) as cluster:
        again = Tenant(
            channel=cluster.with_key(tenant.api_key).channel, tenant_id=tenant.tenant_id, api_key=tenant.api_key
        )
        await again.remember("The kettle is gone.")
        for response in responses:
            replayed = await replay(again, response.receipt_id)
            assert shown(replayed.response) == shown(response)
            assert replayed.identical, replayed


async def test_an_answer_replays_with_its_model_until_the_model_is_deleted(
    endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    environment = test_environment() | {
        "SKEIN_DATA_DIR": str(tmp_path / "data"),
        "SKEIN_OUTBOUND_ALLOW": endpoint.url,
        "SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "0.5",
        "SKEIN_ADVANCED_RECALL_MODELS_SECONDS": "0.2",
        "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "0.1",
    }
    async with running_cluster(tmp_path / "data", environment) as cluster:
        tenant = await cluster.new_tenant()
        operator = {**environment, "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_OPERATOR_KEY": cluster.operator_key}

        async def models(*arguments: str) -> None:
            ended = await skein("models", *arguments, "--json", environment=operator)
            assert ended.code == ExitCode.OK, ended.err

        async def is_of(model: str) -> bool:
            return (await tenant.search("mill")).model == model

        await models("register", WORDS, "--dimensions", str(DIMENSIONS), "--endpoint", endpoint.endpoint)
        await models("reindex", WORDS, "--wait", "--rate", "10000")
        await models("activate", WORDS)
        await until(lambda: is_of(WORDS))
        await remembered(tenant)
        former = await recall_with_receipt(tenant, "whose is the kettle?", min_relevance=0)
        assert former.model == WORDS

        await models("activate", EMBEDDED)
        await until(lambda: is_of(EMBEDDED))
        await tenant.remember("The kettle is gone.")
        replayed = await replay(tenant, former.receipt_id)

        assert shown(replayed.response) == shown(former)
        assert replayed.identical, replayed
        assert replayed.response.model == WORDS

        listed = await cluster.operator.recall.ListReindexes(pb.ListReindexesRequest())
        for reindex in listed.reindexes:
            await cluster.operator.recall.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))

        async def is_deleted() -> bool:
            return (await skein("models", "delete", WORDS, "--json", environment=operator)).code == ExitCode.OK

        await until(is_deleted)

        async def is_unknown() -> bool:
            return bool((await replay(tenant, former.receipt_id)).gaps)

        await until(is_unknown)
        dropped = await replay(tenant, former.receipt_id)
        assert [(gap.reason, gap.name) for gap in dropped.gaps] == [(pb.REPLAY_GAP_REASON_MODEL_DROPPED, WORDS)]
        assert shown(dropped.response) == shown(former)
        assert (await get_receipt(tenant, former.receipt_id)).statement.model == WORDS
