"""A stolen token of an extractor reads, leases, adds, and ends its own facts; it changes and deletes nothing."""

from __future__ import annotations

from collections.abc import Awaitable

import grpc
import pytest
from fix_cluster import Cluster, Stubs, refused
from fix_extraction import current, extract, extractor_token, facts, learning_tenant, say
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2
from skein_kit.identity.permissions import ACCESS_RULES, EXTRACT, EXTRACTOR_PERMISSIONS, TENANT_PERMISSIONS

ADDED = {
    "/skein.memory.v1.MemoryService/BatchCreateMemories",
    "/skein.memory.v1.MemoryInternalService/RetractFacts",
    "/skein.memory.v1.MemoryInternalService/KeepRefusedFacts",
    "/skein.session.v1.SessionInternalService/LeaseExtraction",
    "/skein.session.v1.SessionInternalService/LeaseModelExtraction",
    "/skein.session.v1.SessionInternalService/StartModelCall",
    "/skein.session.v1.SessionInternalService/CompleteModelExtraction",
    "/skein.session.v1.SessionInternalService/CompleteExtraction",
}


def test_an_extractor_has_one_permission_beside_reading_and_no_key_can_have_it() -> None:
    assert {EXTRACT, "memory.read"} == EXTRACTOR_PERMISSIONS
    assert EXTRACT not in TENANT_PERMISSIONS


def test_that_permission_opens_eight_methods() -> None:
    opened = {path for path, rule in ACCESS_RULES.items() if rule.permission == EXTRACT or rule.for_extractors}

    assert opened == ADDED


async def test_it_neither_changes_nor_deletes_nor_purges_a_memory(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    own = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="Tea.")))
    memory_id = own.memory.memory_id
    async with cluster.direct("memory") as channel:
        extractor = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id)))
        calls: list[Awaitable[object]] = [
            extractor.memory.UpdateMemory(
                memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=memory_id, content="Coffee."))
            ),
            extractor.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id)),
            extractor.memory.PurgeMemories(
                memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(memory_ids=[memory_id]))
            ),
            extractor.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="Rum."))),
        ]
        for call in calls:
            with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
                await call

    assert await current(tenant) == ["Tea."]


async def test_it_overwrites_no_fact_by_its_key(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    fact = memory_pb2.Memory(type="fact", key="lives_in", subject_id="mira", content="In Porto.")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=fact))
    fact.content = "In hell."
    async with cluster.direct("memory") as channel:
        extractor = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id)))
        request = memory_pb2.BatchCreateMemoriesRequest(memories=[fact], on_conflict=memory_pb2.ON_CONFLICT_UPDATE)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await extractor.memory.BatchCreateMemories(request)

    assert await current(tenant) == ["In Porto."]


@pytest.mark.system
async def test_whatever_it_reads_every_memory_stays_and_says_what_it_said(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    known: set[str] = set()
    turns = [
        ("USER", "I live in Porto. I love jazz. Remember that the blue bin goes out on Mondays."),
        ("USER", "I now live in Porto."),
        ("USER", "I live in Lisbon."),
        ("USER", "Forget that I love jazz."),
        ("ASSISTANT", "So you live in Graz?"),
        ("USER", "Yes"),
        ("USER", "Forget that."),
        ("USER", "Do I like tea? I'm vegan."),
    ]
    for role, text in turns:
        (message,) = await say(tenant, text, role=role)
        await extract(cluster, tenant)
        memory_ids = {memory.memory_id for memory in await facts(tenant)}
        assert known <= memory_ids
        known = memory_ids
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))
    await extract(cluster, tenant)

    async with cluster.superuser() as connection:
        texts = await connection.fetch(
            "SELECT memory_id::text AS memory_id, content, title, data FROM memory.memories WHERE tenant_id = $1 "
            "UNION SELECT memory_id::text, content, title, data FROM memory.versions WHERE tenant_id = $1",
            tenant.tenant_id,
        )
    assert len(known) >= 5
    assert sorted(row["memory_id"] for row in texts) == sorted(known)


async def test_it_ends_no_fact_that_a_person_wrote(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, "Good morning!")
    source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=message.message_id)
    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="Rises early.", derived_from=[source]))
    )
    later = Timestamp(seconds=message.create_time.seconds + 86400)
    async with cluster.direct("memory", caller="worker") as channel:
        extractor = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id)))
        request = memory_pb2.RetractFactsRequest(message_id=message.message_id, before_time=later)
        response = await memory_pb2_grpc.MemoryInternalServiceStub(extractor.channel).RetractFacts(request)

    assert (response.retracted_count, await current(tenant)) == (0, ["Rises early."])


async def test_the_system_purges_no_fact_of_a_message_that_is_stored(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, "I live in Porto")
    await extract(cluster, tenant)
    identity = await extractor_token(cluster, str(tenant.tenant_id), extractor="")
    async with cluster.direct("memory", caller="worker") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(Stubs.of(channel, identity).channel)
        await stub.PurgeFacts(memory_pb2.PurgeFactsRequest(message_ids=[message.message_id]))

    assert await current(tenant) == ["I live in Porto"]


async def test_nobody_becomes_an_extractor_without_the_system_key_or_outside_a_tenant(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await extractor_token(cluster, str(tenant.tenant_id), key="k" * 40)
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await extractor_token(cluster, "")
