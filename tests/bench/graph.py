"""`python tests/bench/graph.py`: prints how long walks take around a memory with 10,000 links.

Nothing here is asserted. The cluster is a `skein up` of its own; the memories and links are written straight into its
tables, as their words and vectors do not matter here. Calls go through the gateway, one after another.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/graph.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import report
from bench.subject import ONE_PROCESS, data_folder, running

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_client.client import Client
from skein_kit.ids import new_ids, now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from bench.subject import Subject

HUB_LINKS = 10_000
# A second memory with many links, to half of what the first is linked with.
SECOND_HUB_LINKS = 5_000
# Links among the others, so that a second hop meets thousands more.
OTHER_LINKS = 30_000
CALLS = 40
WARM_UP = 5
_RELATIONS = ("related", "supports", "causes", "example_of", "supersedes", "contradicts", "mentors")
_TAGS = 50
_SEED = 1
_TIMEOUT = 30.0


class Town:
    """A tenant's memories: the first is the hub, the second another, the last is linked with nothing."""

    def __init__(self, tenant_id: uuid.UUID) -> None:
        """Draw it."""
        self.tenant_id = tenant_id
        self.chance = random.Random(_SEED)
        self.at = now() - timedelta(minutes=1)
        self.ids = new_ids(self.at, HUB_LINKS + 3)
        self.hub, self.second, *self.others, self.alone = self.ids

    def entries(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows of memories."""
        for memory_id in self.ids:
            text = f"memory {memory_id}"
            digest = hashlib.sha256(text.encode()).digest()
            yield (
                *(self.tenant_id, memory_id, "note", text, text, "global", "operational", 0.7, 0.5, digest),
                *(self.at, self.at, "bench", "bench"),
            )

    def links(self) -> list[tuple[object, ...]]:
        """Return the rows of links."""
        pairs: dict[tuple[uuid.UUID, uuid.UUID, str], float] = {}
        for number, other in enumerate(self.others):
            ends = (self.hub, other) if number % 2 else (other, self.hub)
            pairs[*ends, self.chance.choice(_RELATIONS)] = self._weight()
        for other in self.chance.sample(self.others, SECOND_HUB_LINKS):
            pairs[self.second, other, self.chance.choice(_RELATIONS)] = self._weight()
        for _ in range(OTHER_LINKS):
            start, end = self.chance.sample(self.others, 2)
            pairs[start, end, self.chance.choice(_RELATIONS)] = self._weight()
        ids = new_ids(self.at, len(pairs))
        return [
            (self.tenant_id, link_id, start, end, relation, weight, self.at, "bench")
            for link_id, ((start, end, relation), weight) in zip(ids, pairs.items(), strict=True)
        ]

    def tags(self) -> list[tuple[object, ...]]:
        """Return the rows of tags: three of each memory."""
        return [
            (self.tenant_id, memory_id, f"tag{number}")
            for memory_id in self.ids
            for number in self.chance.sample(range(_TAGS), 3)
        ]

    def _weight(self) -> float:
        return self.chance.choice((0.25, 0.5, 0.75, 1.0))

    async def move_in(self, subject: Subject) -> None:
        """Write everything."""
        connection = await asyncpg.connect(subject.database_url)
        try:
            columns = (
                *("tenant_id", "memory_id", "type", "title", "content", "scope", "level", "confidence", "importance"),
                *("content_hash", "create_time", "update_time", "created_by", "updated_by"),
            )
            await connection.copy_records_to_table(
                "entries", schema_name="memory", columns=columns, records=self.entries()
            )
            link_columns = (
                *("tenant_id", "link_id", "from_memory_id", "to_memory_id", "relation", "weight", "create_time"),
                "created_by",
            )
            await connection.copy_records_to_table(
                "links", schema_name="memory", columns=link_columns, records=self.links()
            )
            tag_columns = ("tenant_id", "memory_id", "tag")
            await connection.copy_records_to_table(
                "tags", schema_name="memory", columns=tag_columns, records=self.tags()
            )
            await connection.execute("VACUUM (ANALYZE)")
        finally:
            await connection.close()


@click.command()
def main() -> None:
    """Print the times of TraverseLinks, GetSubgraph, FindPaths, SpreadActivation and SuggestLinks."""
    uvloop.run(_bench())


async def _bench() -> None:
    out = report.console()
    with data_folder() as folder:
        async with (
            running(folder, ONE_PROCESS) as subject,
            Client(endpoint=subject.addresses["gateway"], api_key=subject.api_key, timeout=_TIMEOUT) as skein,
        ):
            me = await skein.auth.GetMe(auth_pb2.GetMeRequest())
            town = Town(uuid.UUID(me.tenant_id))
            await town.move_in(subject)
            out.print(
                f"A memory with {HUB_LINKS:,} links, another with {SECOND_HUB_LINKS:,}, {OTHER_LINKS:,} links among "
                f"what they are linked with; {CALLS} calls each, one after another.",
                style="dim",
            )
            for name, call in _questions(skein, town).items():
                times, said = await _timed(call)
                p95 = quantiles(times, n=20)[-1]
                out.print(f"{name:<46} p50 {median(times):7.1f} ms   p95 {p95:7.1f} ms   {said}")


async def _timed(call: Callable[[], Awaitable[str]]) -> tuple[list[float], str]:
    times: list[float] = []
    said = ""
    for number in range(WARM_UP + CALLS):
        started = time.perf_counter()
        said = await call()
        if number >= WARM_UP:
            times.append((time.perf_counter() - started) * 1000)
        await asyncio.sleep(0)
    return times, said


def _questions(skein: Client, town: Town) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return what is asked, by name; each answers with what came back."""

    async def traverse(start: uuid.UUID, **fields: int) -> str:
        found = await skein.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=str(start), **fields))  # type: ignore[arg-type]
        return f"{len(found.nodes)} nodes, {len(found.links)} links, truncated {found.truncated}"

    async def related(start: uuid.UUID) -> str:
        wanted = pb.LinkFilter(relations=["causes", "supports"], min_weight=0.5)
        found = await skein.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=str(start), hops=2, filter=wanted))
        return f"{len(found.nodes)} nodes, {len(found.links)} links, truncated {found.truncated}"

    async def subgraph(start: uuid.UUID, *, infer: bool) -> str:
        found = await skein.links.GetSubgraph(pb.GetSubgraphRequest(memory_ids=[str(start)], infer_links=infer))
        return f"{len(found.nodes)} nodes, {len(found.links)} + {len(found.inferred_links)} links"

    async def paths(start: uuid.UUID, end: uuid.UUID, **fields: int) -> str:
        request = pb.FindPathsRequest(from_memory_id=str(start), to_memory_id=str(end), **fields)  # type: ignore[arg-type]
        found = await skein.links.FindPaths(request)
        hops = [len(path.links) for path in found.paths]
        return f"{len(hops)} paths of {sorted(set(hops))} hops, truncated {found.truncated}"

    async def activate(start: uuid.UUID) -> str:
        found = await skein.links.SpreadActivation(
            pb.SpreadActivationRequest(seeds=[pb.ActivationSeed(memory_id=str(start))])
        )
        return f"{len(found.memories)} memories, truncated {found.truncated}"

    async def suggest(start: uuid.UUID) -> str:
        found = await skein.links.SuggestLinks(pb.SuggestLinksRequest(memory_id=str(start)))
        return f"{len(found.suggestions)} suggestions"

    def other() -> uuid.UUID:
        return town.chance.choice(town.others)

    return {
        "TraverseLinks from the hub, 1 hop": lambda: traverse(town.hub),
        "TraverseLinks from the hub, 2 hops": lambda: traverse(town.hub, hops=2),
        "TraverseLinks from the hub, 2 hops by 2 relations": lambda: related(town.hub),
        "TraverseLinks from beside the hub, 4 hops": lambda: traverse(other(), hops=4),
        "TraverseLinks from the hub, 4 hops, 1,000 nodes": lambda: traverse(town.hub, hops=4, max_nodes=1000),
        "GetSubgraph around the hub, radius 2": lambda: subgraph(town.hub, infer=False),
        "GetSubgraph around the hub, with inferred": lambda: subgraph(town.hub, infer=True),
        "FindPaths hub to hub": lambda: paths(town.hub, town.second),
        "FindPaths hub to another": lambda: paths(town.hub, other()),
        "FindPaths another to another": lambda: paths(other(), other()),
        "FindPaths hub to hub, 8 hops, 20 paths": lambda: paths(town.hub, town.second, max_hops=8, max_paths=20),
        "FindPaths hub to what is linked with nothing": lambda: paths(town.hub, town.alone),
        "SpreadActivation of the hub, 2 hops": lambda: activate(town.hub),
        "SuggestLinks for the hub": lambda: suggest(town.hub),
    }


if __name__ == "__main__":
    main()
