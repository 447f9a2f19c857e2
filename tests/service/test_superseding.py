"""A new value of a fact supersedes the older one, which stays as it was, with an end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_mcp import Mcp
from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import approvals_pb2, curation_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_client import Client

SUPERSEDE = pb.ON_CONFLICT_SUPERSEDE
MOVED = Timestamp(seconds=1_700_000_000)
TAKEN = (grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN")


def fact(content: str, **fields: Any) -> pb.Memory:
    return pb.Memory(**{"content": content, "type": "fact", "key": "city", "subject_id": "anna", **fields})


async def create(caller: Stubs, memory: pb.Memory, **fields: Any) -> pb.CreateMemoryResponse:
    request = pb.CreateMemoryRequest(memory=memory, on_conflict=SUPERSEDE, **fields)
    return await caller.memory.CreateMemory(request)


async def read(caller: Stubs, memory: pb.Memory, **fields: Any) -> pb.Memory:
    return (await caller.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory.memory_id, **fields))).memory


async def links_of(caller: Stubs, memory: pb.Memory) -> Sequence[tuple[str, str, str]]:
    request = pb.ListLinksRequest(memory_id=memory.memory_id)
    links = (await caller.links.ListLinks(request)).links
    return [(link.from_memory_id, link.relation, link.to_memory_id) for link in links]


async def test_the_new_fact_takes_the_key_and_the_older_one_gets_an_end(tenant: Tenant) -> None:
    older = (await create(tenant, fact("Lives in Graz", tags=["home"]))).memory

    response = await create(tenant, fact("Lives in Oslo", key="City", valid_from_time=MOVED))

    newer, ended = response.memory, await read(tenant, older)
    assert not response.is_existing
    assert (newer.key, newer.revision) == ("City", 1)
    assert (ended.content, list(ended.tags), ended.key) == ("Lives in Graz", ["home"], "")
    assert ended.valid_to_time == MOVED
    assert await links_of(tenant, older) == [(newer.memory_id, "supersedes", older.memory_id)]
    assert (await read(tenant, older, as_of_time=older.record_time)).key == "city"


async def test_recall_finds_the_newer_value_and_then_the_older_one_at_its_time(tenant: Tenant) -> None:
    older = (await create(tenant, fact("Anna lives in Graz", valid_from_time=Timestamp(seconds=1_600_000_000)))).memory
    newer = (await create(tenant, fact("Anna lives in Oslo", valid_from_time=MOVED))).memory
    request: dict[str, Any] = {"query": "Where does Anna live?", "min_relevance": 0}

    now = await tenant.recall.Recall(recall_pb2.RecallRequest(**request))
    then = await tenant.recall.Recall(
        recall_pb2.RecallRequest(**request, filter={"valid_at_time": {"seconds": 1_650_000_000}})
    )

    assert [hit.memory.memory_id for hit in now.hits] == [newer.memory_id]
    assert [hit.memory.memory_id for hit in then.hits] == [older.memory_id]


async def test_the_same_statement_is_returned_and_changes_nothing(tenant: Tenant) -> None:
    first = (await create(tenant, fact("Lives in Graz"))).memory

    again = await create(tenant, fact("Lives in Graz", tags=["home"]))

    assert again.is_existing
    assert (again.memory.memory_id, again.memory.revision) == (first.memory_id, 1)
    assert await links_of(tenant, first) == []


async def test_an_end_never_lies_before_the_beginning_and_an_earlier_end_stays(tenant: Tenant) -> None:
    early, late = Timestamp(seconds=1_500_000_000), Timestamp(seconds=1_600_000_000)
    begun = (await create(tenant, fact("Lives in Graz", valid_from_time=late))).memory
    await create(tenant, fact("Lives in Oslo", valid_from_time=early, valid_to_time=late))
    (ended,) = [memory for memory in await tenant.list_memories() if memory.key]
    await create(tenant, fact("Lives in Rome", valid_from_time=MOVED))

    assert (await read(tenant, begun)).valid_to_time.seconds >= late.seconds
    assert (await read(tenant, ended)).valid_to_time == late


@pytest.mark.system
async def test_of_values_that_are_written_at_once_one_holds_the_key_and_all_are_linked(tenant: Tenant) -> None:
    cities = [f"Lives in city {number}" for number in range(8)]

    results = await asyncio.gather(*(create(tenant, fact(city)) for city in cities))

    memories = await tenant.list_memories()
    assert sorted(memory.memory_id for memory in memories) == sorted(each.memory.memory_id for each in results)
    assert [memory.key for memory in memories].count("city") == 1
    assert sum(memory.HasField("valid_to_time") for memory in memories) == len(memories) - 1


async def test_a_batch_supersedes_with_external_ids_and_sources(tenant: Tenant) -> None:
    older = (await create(tenant, fact("Lives in Graz"))).memory
    letter = (await create(tenant, pb.Memory(content="A letter from Oslo"))).memory
    source = pb.SourceReference(kind=pb.SOURCE_KIND_MEMORY, id=letter.memory_id)
    memories = [pb.Memory(content="Tea is hot"), fact("Lives in Oslo", external_id="oslo", derived_from=[source])]

    batch = await tenant.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(memories=memories, on_conflict=SUPERSEDE)
    )

    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=["oslo"]))
    assert list(batch.existing_indexes) == []
    assert await links_of(tenant, older) == [(batch.memories[1].memory_id, "supersedes", older.memory_id)]
    assert [node.id for node in lineage.nodes] == [batch.memories[1].memory_id, letter.memory_id]


async def test_a_caller_that_may_not_read_supersedes_nothing(cluster: Cluster, tenant: Tenant) -> None:
    request = auth_pb2.CreateApiKeyRequest(display_name="k", permissions=["memory.write"])
    writer = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await create(writer, fact("Lives in Oslo"))


async def test_what_waits_for_approval_supersedes_nothing(cluster: Cluster, tenant: Tenant) -> None:
    await tenant.set_policy(approval="agents")
    older = (await create(tenant, fact("Lives in Graz"))).memory
    request = auth_pb2.CreateApiKeyRequest(
        display_name="k", permissions=["memory.read", "memory.write"], agent_id="cook"
    )
    agent = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)

    waiting = (await create(agent, fact("Lives in Oslo"))).memory
    pending = (await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())).pending_memories
    with refused(*TAKEN):
        await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=pending[0].pending_id))

    assert waiting.pending_approval
    assert not (await read(tenant, older)).HasField("valid_to_time")


@pytest.mark.parametrize("door", ["client", "mcp"])
async def test_clients_and_models_supersede(cluster: Cluster, tenant: Tenant, door: str) -> None:
    known: dict[str, Any] = {"type": "fact", "key": "city"}
    if door == "client":
        async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
            for city in ("Graz", "Oslo"):
                await skein.remember(pb.Memory(content=f"Lives in {city}", **known), on_conflict="supersede")
    else:
        async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=core,memories") as mcp:
            for city in ("Graz", "Oslo"):
                await mcp.call("remember", content=f"Lives in {city}", on_conflict="supersede", **known)

    memories = {memory.content: memory for memory in await tenant.list_memories()}
    assert memories["Lives in Oslo"].key == "city"
    assert memories["Lives in Graz"].HasField("valid_to_time")
