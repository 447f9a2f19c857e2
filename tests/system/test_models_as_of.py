"""A search as of a time uses the embedding model that was active then."""

from __future__ import annotations

from datetime import datetime

import grpc
from fix_cluster import refused
from fix_models import EMBEDDED, WORDS, Deployment

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import now

DROPPED_SINCE = (grpc.StatusCode.FAILED_PRECONDITION, "MODEL_DROPPED_SINCE")


async def model_as_of(deployment: Deployment, at: datetime) -> str:
    request = pb.RecallRequest(query="tea")
    request.as_of_time.FromDatetime(at)
    return (await deployment.tenant.stub.Recall(request)).model


async def drop(deployment: Deployment, reindex_id: str) -> None:
    await deployment.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex_id))
    await deployment.drop(WORDS)


async def test_the_model_is_the_one_that_was_active_then(deployment: Deployment) -> None:
    await deployment.tenant.remember("green tea")
    first = now()
    await deployment.change()
    second = now()
    await deployment.use(EMBEDDED)

    models = [await model_as_of(deployment, at) for at in (first, second, now())]

    assert models == [EMBEDDED, WORDS, EMBEDDED]


async def test_a_model_that_is_active_already_does_not_become_so_again(deployment: Deployment) -> None:
    await deployment.use(EMBEDDED)

    async with deployment.service.superuser() as connection:
        assert await connection.fetchval("SELECT count(*) FROM recall.model_activations") == 1


async def test_a_time_whose_model_was_deleted_since_is_refused_also_when_its_name_is_used_again(
    deployment: Deployment,
) -> None:
    await deployment.tenant.remember("green tea")
    reindex_id = await deployment.change()
    then = now()
    await deployment.use(EMBEDDED)

    await drop(deployment, reindex_id)
    with refused(*DROPPED_SINCE):
        await model_as_of(deployment, then)
    await deployment.change()

    with refused(*DROPPED_SINCE):
        await model_as_of(deployment, then)
    assert await model_as_of(deployment, now()) == WORDS
