"""`make soak`: random histories, and whether answers as of each moment are those that were given then.

    .venv/bin/python tests/bench/histories.py --seed 1 --count 1000

A history is a tenant that changes at random. It creates, updates, deletes, merges and supersedes memories, writes,
edits and deletes messages, brings vectors and changes its policy. In the last fifth the active model changes, too: from
then on every item gets vectors of both. At 20 moments the answers to 13 queries are taken, and at the end asked for
again as of that moment. They must be equal hit for hit and component for component. It prints how many were compared,
and ends with 1 for any difference.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

# The folder of the tests, as in tests/bench/outages.py.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
from fix_cluster import Cluster, running_cluster, test_environment
from fix_histories import DIMENSIONS, QUERIES, History, Moment
from fix_models import EMBEDDED, SCAN_NOW

from skein.recall.v1 import recall_pb2 as pb

_MOMENTS, _CHANGES, _CHANGES_AFTER = 20, 6, 20
# Histories that go on side by side, so that all of them see the same changes of the model.
_BESIDE = 4
_OTHER = "e5-small-v2"
# The share of the histories before the other model is there.
_SHARE_OF_ONE_MODEL = 0.8
# The share of the steps at which the active model changes.
_MODEL_CHANGES = 0.15
# After which every process follows a policy.
_POLICY_SECONDS = 1.1
_WAITING = """
    SELECT EXISTS (SELECT FROM memory.trust_work WHERE tenant_id = ANY ($1))
        OR EXISTS (SELECT FROM recall.documents WHERE tenant_id = ANY ($1) AND pending)
"""
_SETTINGS = {"SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "0", "SKEIN_ADVANCED_RECALL_MODELS_SECONDS": "0"}


@click.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first history; the next ones count on.")
@click.option("--count", type=click.IntRange(min=1), default=1000, show_default=True, help="Of histories.")
@click.option("--seconds", type=float, default=0.0, help="No history begins later than this; 0: all are played.")
def main(*, seed: int, count: int, seconds: float) -> None:
    """Play histories and compare answers; exit with 1 when one differs."""
    sys.exit(1 if asyncio.run(_bench(seed, count, seconds)) else 0)


async def _bench(seed: int, count: int, seconds: float) -> int:
    """Return how many answers differ."""
    played, different = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        async with running_cluster(Path(folder), test_environment() | _SETTINGS) as cluster:
            changes_model, started = False, time.monotonic()
            while played < count and (not seconds or time.monotonic() - started < seconds):
                done_share = max(played / count, (time.monotonic() - started) / seconds if seconds else 0.0)
                if done_share >= _SHARE_OF_ONE_MODEL and not changes_model:
                    changes_model = True
                    await _register_other(cluster)
                seeds = range(seed + played, seed + min(played + _BESIDE, count))
                differences = await _play(cluster, seeds, changes_model=changes_model)
                for difference in differences:
                    click.echo(difference)
                played += len(seeds)
                different += len(differences)
    answers = played * _MOMENTS * len(QUERIES)
    click.echo(
        f"{played} histories from seed {seed}, {answers:,} answers, {different} different, "
        f"{time.monotonic() - started:.0f} s"
    )
    return different


async def _register_other(cluster: Cluster) -> None:
    """Register the other model; once it was active, what is written later gets vectors of both."""
    other = pb.EmbeddingModel(model=_OTHER, provider="embedded", dimensions=DIMENSIONS)
    await cluster.operator.recall.RegisterEmbeddingModel(pb.RegisterEmbeddingModelRequest(embedding_model=other))
    for model in (_OTHER, EMBEDDED):
        await _activate(cluster, model)


async def _activate(cluster: Cluster, model: str) -> None:
    request = pb.ActivateEmbeddingModelRequest(model=model, force=True)
    await cluster.operator.recall.ActivateEmbeddingModel(request)


async def _play(cluster: Cluster, seeds: Sequence[int], *, changes_model: bool) -> list[str]:
    """Play histories side by side; return what differs, with the seed of the history."""
    histories = [History(await cluster.new_tenant(), random.Random(seed)) for seed in seeds]
    models = random.Random(seeds[0])
    await asyncio.gather(*(history.begin() for history in histories))
    moments: list[list[Moment]] = [[] for _ in histories]
    for _ in range(_MOMENTS):
        await asyncio.gather(*(history.go_on(_CHANGES, history.merge, history.set_policy) for history in histories))
        if changes_model and models.random() < _MODEL_CHANGES:
            await _activate(cluster, models.choice([EMBEDDED, _OTHER]))
        await _settle(cluster, histories)
        taken = await asyncio.gather(*(Moment.take(history.tenant) for history in histories))
        for of_history, moment in zip(moments, taken, strict=True):
            of_history.append(moment)
    await asyncio.gather(*(history.go_on(_CHANGES_AFTER, history.merge) for history in histories))
    compared = await asyncio.gather(
        *(_differences(history, of_history) for history, of_history in zip(histories, moments, strict=True))
    )
    return [f"seed {seed}: {one}" for seed, ones in zip(seeds, compared, strict=True) for one in ones]


async def _differences(history: History, moments: Sequence[Moment]) -> list[str]:
    return [difference for moment in moments for difference in await moment.differences(history.tenant)]


async def _settle(cluster: Cluster, histories: Sequence[History]) -> None:
    """Wait until all processes follow the policies, items have vectors, and memories their trust."""
    await asyncio.sleep(_POLICY_SECONDS)
    tenant_ids = [history.tenant.tenant_id for history in histories]
    async with cluster.superuser() as connection, asyncio.timeout(300):
        while await connection.fetchval(_WAITING, tenant_ids):
            await connection.execute(SCAN_NOW)
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    main()
