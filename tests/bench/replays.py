"""`make soak`: random recalls and contexts during writes, each replayed: the same answer, the same text byte for byte.

    .venv/bin/python tests/bench/replays.py
    .venv/bin/python tests/bench/replays.py --count 500 --seed 7

Half of the calls are recalls, half contexts with random branches, formats and budgets, beside writers that change
memories, messages, blocks and the profile. It prints how many replayed, and exits with 1 when one did not.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from skein.gateway.v1 import gateway_pb2

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/replays.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
from bench import report
from fix_cluster import Tenant, running_cluster, test_environment
from fix_contexts import Household, build, build_with_receipt, is_same, random_request, replay_context
from fix_receipts import set_policy

from skein.recall.v1 import recall_pb2

_WRITERS, _MEMORIES = 3, 300
# Calls of one round of writes. Between rounds nothing is written while the receipts of the last one are stored.
_ROUND = 500


@click.command()
@click.option("--count", type=click.IntRange(min=2), default=10_000, show_default=True, help="Recalls and contexts.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of texts, writes and queries.")
def main(*, count: int, seed: int) -> None:
    """Replay random answers that were given during writes; exit with 1 when one is not the same."""
    sys.exit(0 if asyncio.run(_bench(count, seed)) else 1)


async def _bench(count: int, seed: int) -> bool:
    out, chosen, failures, write_count = report.console(), random.Random(seed), list[str](), 0
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        async with running_cluster(Path(folder), test_environment()) as cluster:
            tenant = await cluster.new_tenant()
            await set_policy(tenant, recall_receipts="all", audit_query_text=True)
            household = await Household.fill(tenant, chosen, memories=_MEMORIES)
            await build_with_receipt(tenant, random_request(chosen))
            checks: list[Callable[[], Awaitable[str]]] = []
            for start in range(0, count, _ROUND):
                stop = asyncio.Event()
                writers = [
                    asyncio.create_task(household.write_until(stop, seed + start + number))
                    for number in range(1, _WRITERS + 1)
                ]
                for number in range(start, min(start + _ROUND, count)):
                    answer = _recall if number % 2 else _context
                    checks.append(await answer(tenant, random_request(chosen)))
                stop.set()
                write_count += sum(await asyncio.gather(*writers))
                out.print(f"{len(checks)} answers during {write_count} writes", style="dim")
            answered = time.perf_counter()
            for check in checks:
                if failure := await check():
                    failures.append(failure)
                    out.print(failure)
    replayed = time.perf_counter()
    out.print(
        f"{count - len(failures)} of {count} replayed the same after {write_count} writes; seed {seed}; answers "
        f"{answered - started:.0f} s, replays {replayed - answered:.0f} s"
    )
    return not failures


async def _context(tenant: Tenant, request: gateway_pb2.BuildContextRequest) -> Callable[[], Awaitable[str]]:
    response = await build(tenant, request)

    async def check() -> str:
        replayed = await replay_context(tenant, response.receipt_id)
        if is_same(response, replayed):
            return ""
        return f"context {response.receipt_id}: gaps {replayed.gaps}, differing {replayed.differing_ids}"

    return check


async def _recall(tenant: Tenant, request: gateway_pb2.BuildContextRequest) -> Callable[[], Awaitable[str]]:
    recall = request.recall
    response = await tenant.recall.Recall(
        recall_pb2.RecallRequest(
            query=recall.query, mode=recall.mode, limit=recall.limit, filter=recall.filter, min_relevance=0
        )
    )

    async def check() -> str:
        replayed = await tenant.recall.ReplayRecall(recall_pb2.ReplayRecallRequest(receipt_id=response.receipt_id))
        if replayed.identical and _shown(replayed.response) == _shown(response):
            return ""
        differences = [_difference(response, replayed.response, item_id) for item_id in replayed.differing_ids]
        return f"recall {response.receipt_id} in mode {recall.mode}: gaps {replayed.gaps}, differing {differences}"

    return check


def _difference(response: recall_pb2.RecallResponse, replayed: recall_pb2.RecallResponse, item_id: str) -> str:
    """Describe an item in both answers: rank, revision, score and measured signals."""
    texts = []
    for answer in (response, replayed):
        for rank, hit in enumerate(answer.hits, start=1):
            if hit.item_id == item_id:
                signals = " ".join(f"{each.signal} {each.raw:.6f}" for each in hit.components)
                revision = hit.memory.revision or hit.message.revision
                texts.append(f"rank {rank} revision {revision} score {hit.score:.6f} {signals}")
                break
        else:
            texts.append("no hit")
    return f"{item_id}: {'; replayed '.join(texts)}"


def _shown(response: recall_pb2.RecallResponse) -> list[tuple[str, float, str, str]]:
    return [(hit.item_id, hit.score, hit.memory.content, hit.message.content) for hit in response.hits]


if __name__ == "__main__":
    main()
