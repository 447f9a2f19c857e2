"""The cost of receipts: Recall and BuildContext with the policy `all` against `off`, in turns, in one process.

Run with `python tests/bench/receipts.py`; it prints the medians in milliseconds.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from fix_cluster import Tenant, running_cluster, test_environment
from fix_contexts import Household, context_request
from fix_receipts import TOPICS, set_policy

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb

_METHODS = ("Recall", "BuildContext")
_MEMORIES, _ROUNDS, _CALLS, _WARM_UP = 2000, 6, 200, 50
# Seconds after which a change of a policy holds, and the receipts of the round before are written.
_SETTLE_SECONDS = 2.5


async def fill(tenant: Tenant) -> None:
    """Write the memories that are searched."""
    chosen = random.Random(3)
    for start in range(0, _MEMORIES, 100):
        memories = [
            memory_pb2.Memory(
                content=f"The {chosen.choice(TOPICS)} and the {chosen.choice(TOPICS)} of house {start + number}."
            )
            for number in range(100)
        ]
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def measure(tenant: Tenant, receipts: str, seed: int) -> dict[str, list[float]]:
    """Return the milliseconds of the calls of one round, by method."""
    await set_policy(tenant, recall_receipts=receipts)
    await asyncio.sleep(_SETTLE_SECONDS)
    chosen, milliseconds = random.Random(seed), {method: list[float]() for method in _METHODS}
    for number in range(2 * (_WARM_UP + _CALLS)):
        query = f"the {chosen.choice(TOPICS)} of house {chosen.randrange(_MEMORIES)}"
        method = "BuildContext" if number % 2 else "Recall"
        context = context_request(query)
        started = time.perf_counter()
        if method == "BuildContext":
            await tenant.gateway.BuildContext(context)
        else:
            await tenant.recall.Recall(pb.RecallRequest(query=query))
        if number >= 2 * _WARM_UP:
            milliseconds[method].append(1000 * (time.perf_counter() - started))
    return milliseconds


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with running_cluster(Path(folder), test_environment()) as cluster:
            tenant = await cluster.new_tenant()
            await fill(tenant)
            await Household.fill(tenant, random.Random(4), memories=0)
            results = {(method, receipts): list[float]() for method in _METHODS for receipts in ("off", "all")}
            for number in range(_ROUNDS):
                for receipts in ("off", "all") if number % 2 else ("all", "off"):
                    for method, values in (await measure(tenant, receipts, number)).items():
                        results[method, receipts] += values
    for method in _METHODS:
        off, all_ = (statistics.median(results[method, receipts]) for receipts in ("off", "all"))
        print(f"{method}: off {off:.3f} ms, all {all_:.3f} ms, {all_ / off - 1:+.1%}")


if __name__ == "__main__":
    asyncio.run(main())
