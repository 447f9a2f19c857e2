"""Reindexes of tenants that paused or limited their job `reindex`."""

from __future__ import annotations

from typing import Any, cast

import grpc
from fix_cluster import refused
from fix_models import WORDS, Deployment
from fix_recall import RecallTenant
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from skein.recall.v1 import recall_pb2 as pb

TEXTS = (
    "Green tea is steeped at eighty degrees.",
    "The harbour freezes over in January.",
    "A violin has four strings.",
)


async def remember(recall_tenant: RecallTenant) -> list[str]:
    return [await recall_tenant.remember(text) for text in TEXTS]


def missing_tenants(error: aio.AioRpcError) -> tuple[str, str]:
    """Return how many tenants are not reindexed, and how many because they paused or limited that."""
    status, info = rpc_status.from_call(cast("Any", error)), error_details_pb2.ErrorInfo()
    assert status is not None
    assert status.details[0].Unpack(info)
    return info.metadata["tenants"], info.metadata["limited_tenants"]


async def limit_reindex(deployment: Deployment, recall_tenant: RecallTenant, values: str) -> None:
    """Set columns of a tenant's job `reindex`, as tenancy does."""
    async with deployment.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.jobs (tenant_id, kind, refill_time, day_time)"
            " VALUES ($1, 'reindex', now(), date_trunc('day', now(), 'UTC')) ON CONFLICT DO NOTHING",
            recall_tenant.tenant_id,
        )
        await connection.execute(
            f"UPDATE tenancy.jobs SET {values} WHERE tenant_id = $1 AND kind = 'reindex'",  # noqa: S608 - written here.
            recall_tenant.tenant_id,
        )


async def test_the_rest_of_a_batch_that_exceeds_the_rate_waits(deployment: Deployment) -> None:
    ids = await remember(deployment.tenant)
    # It counts the documents, which the progress compares with.
    await deployment.backlog()
    await deployment.register()
    # The bucket holds one item and is full.
    await limit_reindex(deployment, deployment.tenant, "items_per_second = 0.0002, tokens = 1")
    reindex = await deployment.start()

    first = await deployment.work()
    partly = await deployment.progress(reindex.reindex_id)
    await limit_reindex(deployment, deployment.tenant, "items_per_second = NULL")
    rest = await deployment.work()

    assert (first, partly.seen_count, partly.state) == (1, 1, pb.REINDEX_STATE_RUNNING)
    assert rest == len(ids) - 1
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE


async def test_a_switch_names_the_tenants_that_paused_their_reindex_apart(deployment: Deployment) -> None:
    other = await deployment.service.new_tenant()
    for recall_tenant in (deployment.tenant, other):
        await remember(recall_tenant)
    await deployment.register()
    await limit_reindex(deployment, other, "pause_time = now(), paused_by = 'account:admin'")
    await deployment.start()

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING") as before:
        await deployment.use(WORDS)
    for recall_tenant in (deployment.tenant, other):
        await deployment.work(recall_tenant)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING") as after:
        await deployment.use(WORDS)
    await limit_reindex(deployment, other, "pause_time = NULL, paused_by = ''")
    await deployment.work(other)
    await deployment.use(WORDS)

    assert missing_tenants(before.value) == ("1", "1")
    assert missing_tenants(after.value) == ("0", "1")
    assert "1 tenants have paused or limited" in str(after.value.details())
