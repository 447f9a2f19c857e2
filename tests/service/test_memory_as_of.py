"""What is asked as of a time answers as it did at that time: traversals, paths, aliases and blocks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode, aio

from skein.memory.v1 import blocks_pb2, curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_kit.ids import now

NAMES = [f"m{number}" for number in range(8)]
RELATIONS = ["related", "causes", "supports", "contradicts"]
# Changes of one history, and changes between two moments that are compared.
CHANGES, CHANGES_BETWEEN = 60, 10
_REFUSED = {StatusCode.NOT_FOUND, StatusCode.ALREADY_EXISTS, StatusCode.FAILED_PRECONDITION}


class History:
    """A tenant that changes at random; changes that the tenant's state refuses are left out."""

    def __init__(self, tenant: Tenant, seed: int) -> None:
        self.tenant = tenant
        self.random = random.Random(seed)
        self.deleted: set[str] = set()
        self.link_ids: list[str] = []

    async def create(self) -> None:
        memories = [
            pb.Memory(content=f"about {name}", title=name, external_id=name, tags=["all", name]) for name in NAMES
        ]
        await self.tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))
        for block_id in ("b0", "b1", "b2"):
            block = blocks_pb2.Block(block_id=block_id, label=f"plans {block_id}", value="none yet", subject_id="ann")
            await self.tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="helper"))

    async def change(self, number: int) -> None:
        changes = [
            *(5 * [self.link]), self.update_link, self.delete_link, self.update, self.delete, self.resolve,
            self.separate, *(2 * [self.block]), *(3 * [self.attach]), *(2 * [self.key]), self.settle,
        ]  # fmt: skip
        change = self.random.choice(changes)
        try:
            await change(number)
        except aio.AioRpcError as error:
            if error.code() not in _REFUSED:
                raise

    async def link(self, _: int) -> None:
        start, end = self.random.sample(NAMES, 2)
        made = await self.tenant.links.CreateLink(
            pb.CreateLinkRequest(
                link=pb.Link(
                    from_memory_id=start,
                    to_memory_id=end,
                    relation=self.random.choice(RELATIONS),
                    weight=self.random.choice([0.25, 0.5, 1.0]),
                )
            )
        )
        self.link_ids.append(made.link.link_id)

    async def update_link(self, _: int) -> None:
        if self.link_ids:
            link = pb.Link(link_id=self.random.choice(self.link_ids), weight=self.random.random())
            await self.tenant.links.UpdateLink(pb.UpdateLinkRequest(link=link, update_mask=FieldMask(paths=["weight"])))

    async def delete_link(self, _: int) -> None:
        if self.link_ids:
            link_id = self.link_ids.pop(self.random.randrange(len(self.link_ids)))
            await self.tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=link_id))

    async def update(self, number: int) -> None:
        memory = pb.Memory(memory_id=self.random.choice(NAMES), title=f"title {number}", tags=[f"tag {number % 3}"])
        await self.tenant.memory.UpdateMemory(
            pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=["title", "tags"]))
        )

    async def delete(self, _: int) -> None:
        name = self.random.choice(NAMES)
        if name in self.deleted:
            self.deleted.discard(name)
            await self.tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=name))
        else:
            self.deleted.add(name)
            await self.tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=name))

    async def resolve(self, number: int) -> None:
        alias, canonical = self.random.sample(NAMES, 2)
        await self.tenant.curation.ResolveEntity(
            curation_pb2.ResolveEntityRequest(
                alias_memory_id=alias, canonical_memory_id=canonical, note=f"note {number}"
            )
        )

    async def separate(self, _: int) -> None:
        await self.tenant.curation.DeleteAlias(
            curation_pb2.DeleteAliasRequest(alias_memory_id=self.random.choice(NAMES))
        )

    async def key(self, number: int) -> None:
        memory = pb.Memory(memory_id=self.random.choice(NAMES), key=f"key {number % 2}", content=f"says {number}")
        await self.tenant.memory.UpdateMemory(
            pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=["key", "content"]))
        )

    async def settle(self, number: int) -> None:
        a, b = self.random.sample(NAMES, 2)
        status = self.random.choice([curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW, curation_pb2.CONFLICT_STATUS_DISMISSED])
        await self.tenant.curation.ResolveConflict(
            curation_pb2.ResolveConflictRequest(a_memory_id=a, b_memory_id=b, status=status, note=f"note {number}")
        )

    async def attach(self, number: int) -> None:
        block_id, agent_id = f"b{number % 3}", self.random.choice(["helper", "other"])
        attaching = blocks_pb2.AttachBlockRequest(block_id=block_id, agent_id=agent_id)
        detaching = blocks_pb2.DetachBlockRequest(block_id=block_id, agent_id=agent_id)
        if self.random.random() < 0.5:
            await self.tenant.blocks.AttachBlock(attaching)
        else:
            await self.tenant.blocks.DetachBlock(detaching)

    async def block(self, number: int) -> None:
        block_id = f"b{number % 3}"
        block = blocks_pb2.Block(
            block_id=block_id, label=f"plans {block_id}", value=f"value {number}", subject_id="ann"
        )
        kind = self.random.choice(["create", "update", "delete", "undelete"])
        if kind == "create":
            await self.tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
        elif kind == "update":
            await self.tenant.blocks.UpdateBlock(
                blocks_pb2.UpdateBlockRequest(block=block, update_mask=FieldMask(paths=["value"]))
            )
        elif kind == "delete":
            await self.tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block_id))
        else:
            await self.tenant.blocks.UndeleteBlock(blocks_pb2.UndeleteBlockRequest(block_id=block_id))


async def answers(tenant: Tenant, **fields: Any) -> Mapping[str, Any]:
    """Ask everything, of now or with as_of_time; scores and counts of uses are of the present alone."""
    asked: dict[str, Any] = {}

    async def ask(name: str, call: Any, request: Message) -> None:
        try:
            answer = await call(request)
        except aio.AioRpcError as error:
            asked[name] = error.code()
            return
        memories = [node.memory for node in getattr(answer, "nodes", ())]
        memories += [memory for conflict in getattr(answer, "conflicts", ()) for memory in (conflict.a, conflict.b)]
        for memory in memories:
            for field in ("scores", "access_count", "last_access_time"):
                memory.ClearField(field)
        asked[name] = answer

    for name in NAMES:
        walk = pb.TraverseLinksRequest(memory_id=name, hops=2, include_memories=True, **fields)
        await ask(f"walk {name}", tenant.links.TraverseLinks, walk)
        await ask(
            f"canonical {name}",
            tenant.curation.GetCanonicalMemory,
            curation_pb2.GetCanonicalMemoryRequest(memory_id=name, **fields),
        )
        await ask(f"suggested {name}", tenant.links.SuggestLinks, pb.SuggestLinksRequest(memory_id=name, **fields))
        await ask(f"links {name}", tenant.links.ListLinks, pb.ListLinksRequest(memory_id=name, **fields))
    strong = pb.LinkFilter(relations=["causes", "supports"], min_weight=0.3)
    graph = pb.GetSubgraphRequest(memory_ids=NAMES[:3], radius=3, infer_links=True, filter=strong, **fields)
    await ask("graph", tenant.links.GetSubgraph, graph)
    paths = pb.FindPathsRequest(from_memory_id=NAMES[0], to_memory_id=NAMES[1], max_hops=4, **fields)
    await ask("paths", tenant.links.FindPaths, paths)
    seeds = [pb.ActivationSeed(memory_id=NAMES[2])]
    await ask("activation", tenant.links.SpreadActivation, pb.SpreadActivationRequest(seeds=seeds, **fields))
    await ask("aliases", tenant.curation.ListAliases, curation_pb2.ListAliasesRequest(**fields))
    await ask("blocks", tenant.blocks.ListBlocks, blocks_pb2.ListBlocksRequest(show_deleted=True, **fields))
    conflicts = curation_pb2.ListConflictsRequest(all_types=True, show_settled=True, **fields)
    await ask("conflicts", tenant.curation.ListConflicts, conflicts)
    await ask("statistics", tenant.curation.GetStatistics, curation_pb2.GetStatisticsRequest(**fields))
    for block_id in ("b0", "b1", "b2"):
        agents = blocks_pb2.ListBlockAgentsRequest(block_id=block_id, **fields)
        await ask(f"agents {block_id}", tenant.blocks.ListBlockAgents, agents)
    prompt = blocks_pb2.CompileBlocksRequest(agent_id="helper", subject_id="ann", **fields)
    await ask("prompt", tenant.blocks.CompileBlocks, prompt)
    await ask("block", tenant.blocks.GetBlock, blocks_pb2.GetBlockRequest(block_id="b1", **fields))
    return asked


def timestamp() -> Timestamp:
    moment = Timestamp()
    moment.FromDatetime(now())
    return moment


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.system) for seed in (2, 3))])
async def test_an_answer_as_of_a_time_is_the_answer_of_that_time(tenant: Tenant, seed: int) -> None:
    history = History(tenant, seed)
    await history.create()
    then: list[tuple[Timestamp, Mapping[str, Any]]] = []
    for number in range(CHANGES):
        await history.change(number)
        if number % CHANGES_BETWEEN == 0:
            then.append((timestamp(), await answers(tenant)))

    later = [await answers(tenant, as_of_time=moment) for moment, _ in then]

    for asked_later, (_, asked_then) in zip(later, then, strict=True):
        assert asked_later == asked_then
    changed = {name.partition(" ")[0] for name in later[0] if len({str(asked[name]) for asked in later}) > 1}
    assert changed >= {
        "agents",
        "aliases",
        "blocks",
        "conflicts",
        "graph",
        "links",
        "prompt",
        "statistics",
        "suggested",
    }


@pytest.mark.system
async def test_what_is_purged_shows_at_no_time(tenant: Tenant) -> None:
    history = History(tenant, 4)
    await history.create()
    for name in NAMES[1:4]:
        await tenant.links.CreateLink(
            pb.CreateLinkRequest(link=pb.Link(from_memory_id=NAMES[0], to_memory_id=name, relation="related"))
        )
    alias = curation_pb2.ResolveEntityRequest(alias_memory_id=NAMES[1], canonical_memory_id=NAMES[2], note="one")
    await tenant.curation.ResolveEntity(alias)
    alias.note = "two"
    await tenant.curation.ResolveEntity(alias)
    moment = timestamp()
    before = await answers(tenant, as_of_time=moment)
    purged_id = before[f"walk {NAMES[1]}"].nodes[0].memory_id

    await tenant.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=pb.MemorySelection(memory_ids=[NAMES[1]])))

    after = await answers(tenant, as_of_time=moment)
    assert purged_id in str(before)
    assert purged_id not in str(after)
    assert after["aliases"] == curation_pb2.ListAliasesResponse()
    assert after[f"walk {NAMES[1]}"] == StatusCode.NOT_FOUND


async def test_a_memory_that_was_recorded_later_is_not_known_then(tenant: Tenant) -> None:
    moment = timestamp()
    await History(tenant, 5).create()

    with refused(StatusCode.NOT_FOUND, "MEMORY_NOT_KNOWN_THEN"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=NAMES[0], as_of_time=moment))
    with refused(StatusCode.NOT_FOUND, "MEMORY_NOT_KNOWN_THEN"):
        await tenant.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=NAMES[0], as_of_time=moment))
    with refused(StatusCode.NOT_FOUND, "MEMORY_NOT_KNOWN_THEN"):
        await tenant.curation.GetCanonicalMemory(
            curation_pb2.GetCanonicalMemoryRequest(memory_id=NAMES[0], as_of_time=moment)
        )


async def test_links_of_then_lead_to_memories_that_are_deleted_now(tenant: Tenant) -> None:
    await History(tenant, 6).create()
    link = pb.Link(from_memory_id=NAMES[0], to_memory_id=NAMES[1], relation="related")
    made = (await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))).link
    moment = timestamp()
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=NAMES[1]))

    now_listed = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=NAMES[0]))
    then_listed = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=NAMES[0], as_of_time=moment))
    of_deleted = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=NAMES[1], as_of_time=moment))

    assert not now_listed.links
    assert list(then_listed.links) == list(of_deleted.links) == [made]


@pytest.mark.system
async def test_a_time_in_the_future_is_refused(tenant: Tenant) -> None:
    await History(tenant, 0).create()
    future = Timestamp()
    future.FromDatetime(now() + timedelta(hours=1))
    first, second = NAMES[:2]
    calls: list[Any] = [
        tenant.links.TraverseLinks(pb.TraverseLinksRequest(memory_id=first, as_of_time=future)),
        tenant.links.GetSubgraph(pb.GetSubgraphRequest(memory_ids=[first], as_of_time=future)),
        tenant.links.FindPaths(pb.FindPathsRequest(from_memory_id=first, to_memory_id=second, as_of_time=future)),
        tenant.links.SpreadActivation(
            pb.SpreadActivationRequest(seeds=[pb.ActivationSeed(memory_id=first)], as_of_time=future)
        ),
        tenant.curation.GetCanonicalMemory(curation_pb2.GetCanonicalMemoryRequest(memory_id=first, as_of_time=future)),
        tenant.curation.ListAliases(curation_pb2.ListAliasesRequest(as_of_time=future)),
        tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=first, as_of_time=future)),
        tenant.memory.ListMemories(pb.ListMemoriesRequest(as_of_time=future)),
        tenant.links.ListLinks(pb.ListLinksRequest(memory_id=first, as_of_time=future)),
        tenant.links.SuggestLinks(pb.SuggestLinksRequest(memory_id=first, as_of_time=future)),
        tenant.curation.ListConflicts(curation_pb2.ListConflictsRequest(as_of_time=future)),
        tenant.curation.GetStatistics(curation_pb2.GetStatisticsRequest(as_of_time=future)),
        tenant.curation.GetTemporalClusters(curation_pb2.GetTemporalClustersRequest(as_of_time=future)),
        tenant.blocks.ListBlockAgents(blocks_pb2.ListBlockAgentsRequest(block_id="b1", as_of_time=future)),
        tenant.blocks.CompileBlocks(blocks_pb2.CompileBlocksRequest(agent_id="helper", as_of_time=future)),
    ]

    for call in calls:
        with refused(StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await call


async def test_an_item_that_a_later_call_changed_meanwhile_keeps_that_version(cluster: Cluster, tenant: Tenant) -> None:
    made = [
        (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content=text)))).memory
        for text in ("tea", "cup")
    ]
    link = pb.Link(from_memory_id=made[0].memory_id, to_memory_id=made[1].memory_id)
    link = (await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))).link
    block = blocks_pb2.Block(block_id="b", label="plans", value="none yet")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="helper"))
    # As if a call that arrived much later had committed before the next ones.
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with cluster.superuser() as connection:
        await connection.execute("SET session_replication_role = replica")
        for table in ("memory.memories", "memory.links", "memory.blocks", "recall.documents"):
            statement = f"UPDATE {table} SET record_time = '{later}' WHERE tenant_id = $1"  # noqa: S608 - Names of tables.
            await connection.execute(statement, tenant.tenant_id)

    memory = pb.Memory(memory_id=made[0].memory_id, content="coffee")
    await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=["content"])))
    block.value = "tea"
    await tenant.blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=block, update_mask=FieldMask(paths=["value"])))
    link.weight = 0.5
    await tenant.links.UpdateLink(pb.UpdateLinkRequest(link=link, update_mask=FieldMask(paths=["weight"])))
    await tenant.links.DeleteLink(pb.DeleteLinkRequest(link_id=link.link_id))

    async with cluster.superuser() as connection:
        kept = await connection.fetch(
            """
            SELECT 'memory' AS kind, record_time, until_time FROM memory.versions WHERE tenant_id = $1
            UNION ALL
            SELECT 'document', record_time, until_time FROM recall.documents_history WHERE tenant_id = $1
            UNION ALL
            SELECT kind, from_time, until_time FROM memory.revisions WHERE tenant_id = $1
            ORDER BY kind, until_time
            """,
            tenant.tenant_id,
        )
    first, second, third = (later + timedelta(microseconds=count) for count in range(3))
    assert [tuple(row) for row in kept] == [
        ("block", first, second), ("document", first, second), ("link", first, second), ("link", second, third),
        ("memory", first, second),
    ]  # fmt: skip
