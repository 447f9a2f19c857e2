"""What spaces cost a recall: a tenant with a hundred of them and a caller of three, against tenants with one.

    python tests/bench/spaces.py [MEMORIES [CALLS]]

Three tenants: one with MEMORIES in the default space; one with the same memories in a hundred spaces, of which the
caller sees three beside the default one; one without spaces with as many memories as that caller sees. Calls alternate
between the tenants, in an order that turns with each round, and every question is new to each tenant.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.sentences import Sentences
from fix_cluster import Cluster, Stubs, Tenant, running_cluster, test_environment
from fix_spaces import new_key, new_space

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2

_MEMORIES, _CALLS, _WARM_UP, _BATCH = 3000, 300, 20, 100
_SPACES, _SEEN = 100, 3
# Every row of a memory that has a space, and the column that names the memory.
_TABLES = (("memory.memories", "memory_id"), ("recall.documents", "item_id"))


async def store(tenant: Stubs, contents: list[str]) -> None:
    """Store memories."""
    for start in range(0, len(contents), _BATCH):
        memories = [memory_pb2.Memory(content=content) for content in contents[start : start + _BATCH]]
        await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


async def settle(cluster: Cluster) -> None:
    """Wait for the vectors, then bring statistics and visibility up to date, as autovacuum does sooner or later."""
    async with cluster.superuser() as connection:
        while await connection.fetchval("SELECT count(*) FROM recall.documents WHERE pending"):
            await asyncio.sleep(0.5)
        await connection.execute("VACUUM (ANALYZE)")


async def spread(cluster: Cluster, tenant: Tenant) -> Stubs:
    """Spread the memories of a tenant over its spaces; return the stubs of a caller that sees some of these."""
    spaces = [await new_space(tenant, f"space {number}") for number in range(_SPACES)]
    _, secret = await new_key(cluster, tenant, spaces[:_SEEN])
    async with cluster.superuser() as connection:
        for table, column in _TABLES:
            await connection.execute(
                f"UPDATE {table} AS t SET space_id = ($2::uuid[])[1 + ranked.number % {_SPACES}]"  # noqa: S608 - constants.
                f" FROM (SELECT {column}, row_number() OVER (ORDER BY {column}) AS number FROM {table}"
                f" WHERE tenant_id = $1) AS ranked WHERE t.tenant_id = $1 AND t.{column} = ranked.{column}",
                tenant.tenant_id,
                [uuid.UUID(space_id) for space_id in spaces],
            )
    return cluster.with_key(secret)


async def measure(callers: dict[str, Stubs], questions: list[str], calls: int) -> dict[str, list[float]]:
    """Return the milliseconds of each recall by caller."""
    milliseconds: dict[str, list[float]] = {name: [] for name in callers}
    names = list(callers)
    for number in range(calls + _WARM_UP):
        names.append(names.pop(0))
        for name in names:
            request = gateway_pb2.RecallRequest(query=questions[number], limit=10, min_relevance=0)
            start = time.perf_counter()
            await callers[name].gateway.Recall(request)
            if number >= _WARM_UP:
                milliseconds[name].append((time.perf_counter() - start) * 1000)
    return milliseconds


async def main(memories: int, calls: int) -> None:
    sentences = Sentences(1)
    contents = [sentences.statement() for _ in range(memories)]
    questions = [sentences.question() for _ in range(calls + _WARM_UP)]
    with tempfile.TemporaryDirectory() as folder:
        async with running_cluster(Path(folder), test_environment()) as cluster:
            whole, many, small = [await cluster.new_tenant() for _ in range(3)]
            await store(whole, contents)
            await store(many, contents)
            await store(small, contents[: memories * _SEEN // _SPACES])
            await settle(cluster)
            callers = {
                "one space": whole,
                "100 spaces, caller of 3": await spread(cluster, many),
                "one space, as many memories as the caller sees": small,
            }
            await settle(cluster)
            measured = await measure(callers, questions, calls)
    base = statistics.median(measured["one space"])
    print(f"{memories} memories, {calls} calls each, alternating")
    for name, values in measured.items():
        ordered = sorted(values)
        p50, p95 = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
        print(f"{name:50} p50 {p50:7.1f} ms  p95 {p95:7.1f} ms  ratio of p50 {p50 / base:.2f}")


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    asyncio.run(main(*given, *(_MEMORIES, _CALLS)[len(given) :]))
