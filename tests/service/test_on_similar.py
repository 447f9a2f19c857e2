"""Writes that ask what is stored already: kept beside it, told of it, or merged into it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2
from skein.memory.v1 import memory_pb2 as pb

KEEP, RETURN, REINFORCE = pb.ON_SIMILAR_KEEP, pb.ON_SIMILAR_RETURN, pb.ON_SIMILAR_REINFORCE
REX = "The user's dog is called Rex."


async def create(
    caller: Stubs, content: str, on_similar: pb.OnSimilar = KEEP, *, request_id: str = "", **fields: Any
) -> pb.CreateMemoryResponse:
    memory = pb.Memory(content=content, **fields)
    return await caller.memory.CreateMemory(
        pb.CreateMemoryRequest(memory=memory, on_similar=on_similar, request_id=request_id)
    )


async def batch(caller: Stubs, contents: Sequence[str], on_similar: pb.OnSimilar) -> pb.BatchCreateMemoriesResponse:
    memories = [pb.Memory(content=content) for content in contents]
    return await caller.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(memories=memories, on_similar=on_similar)
    )


async def count(tenant: Tenant) -> int:
    return len((await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories)


async def test_a_memory_that_says_the_same_is_kept_unless_the_write_asks(tenant: Tenant) -> None:
    first = await create(tenant, REX)
    second = await create(tenant, REX)

    assert second.memory.memory_id != first.memory.memory_id
    assert not second.is_similar
    assert await count(tenant) == 2


async def test_a_write_is_told_of_the_memory_that_says_the_same(tenant: Tenant) -> None:
    first = await create(tenant, REX, title="dog", tags=["pet"])

    told = await create(tenant, "the user’s dog  is called Rex", RETURN, title="dog")

    assert told.is_similar
    assert told.memory == first.memory
    assert await count(tenant) == 1


async def test_a_write_that_a_reader_can_tell_apart_is_stored(tenant: Tenant) -> None:
    contents = [
        "token is abC9", "token is abc9", "logs in /A/b", "logs in /a/b", "Hears The Who", "Hears Who",
        "if a:\n    b()\n    c()", "if a:\n    b()\nc()", "Sunshine is ill", "sunshine is ill",
    ]  # fmt: skip

    response = await batch(tenant, contents, RETURN)

    assert list(response.similar_indexes) == []
    assert await count(tenant) == len(contents)


async def test_a_merged_write_reinforces_the_stored_memory_alone(tenant: Tenant) -> None:
    first = (await create(tenant, REX, confidence=0.5, importance=0.5)).memory

    merged = await create(tenant, "the user\u2019s dog is called Rex", REINFORCE)

    assert merged.is_similar
    assert merged.memory.memory_id == first.memory_id
    assert merged.memory.content == REX
    assert (round(merged.memory.confidence, 2), round(merged.memory.importance, 2)) == (0.54, 0.56)
    assert merged.memory.revision == 2
    assert await count(tenant) == 1


async def test_a_repeated_merge_reinforces_once(tenant: Tenant) -> None:
    await create(tenant, REX, confidence=0.5)

    first = await create(tenant, REX, REINFORCE, request_id="r")
    again = await create(tenant, REX, REINFORCE, request_id="r")

    assert again == first
    assert again.memory.revision == 2


@pytest.mark.system
async def test_distinct_facts_are_all_stored(tenant: Tenant) -> None:
    facts = [
        REX, "The user's cat is called Rex.", "The user's dog is called Max.", "The user's dog is not called Rex.",
        "Two dogs are called Rex.", "Three dogs are called Rex.", "Rex was born on 2 May.", "Rex was born on 3 May.",
        "Anna gave Bob the key.", "Bob gave Anna the key.",
    ]  # fmt: skip

    for fact in facts:
        assert not (await create(tenant, fact, RETURN)).is_similar, fact

    assert await count(tenant) == len(facts)


@pytest.mark.system
async def test_what_brings_more_or_is_for_other_readers_is_stored(tenant: Tenant) -> None:
    await create(tenant, REX, tags=["a"])
    changes: tuple[dict[str, Any], ...] = (
        {"tags": ["b"]},
        {"metadata_json": '{"a": 1}'},
        {"subject_id": "anna"},
        {"scope": pb.SCOPE_AGENT, "agent_id": "a"},
        {"external_id": "x"},
        {"create_time": Timestamp(seconds=1_600_000_000)},
        {"derived_from": [pb.SourceReference(kind=pb.SOURCE_KIND_DOCUMENT, name="diary")]},
    )

    for change in changes:
        assert not (await create(tenant, REX, RETURN, **change)).is_similar, change


async def test_deleted_and_archived_memories_are_no_reason_not_to_store(tenant: Tenant) -> None:
    first = (await create(tenant, REX)).memory
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=first.memory_id))
    await create(tenant, REX, archive_time=Timestamp(seconds=1_700_000_000))

    assert not (await create(tenant, REX, RETURN)).is_similar


async def test_a_fact_whose_key_is_taken_by_the_same_words_is_returned(tenant: Tenant) -> None:
    first = (await create(tenant, REX, type="fact", key="dog")).memory

    told = await create(tenant, "the user's dog is called Rex", RETURN, type="fact", key="Dog")

    assert told.memory.memory_id == first.memory_id
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
        await create(tenant, "the user's dog is called Max", RETURN, type="fact", key="dog")


async def test_a_batch_says_which_of_its_memories_were_there(tenant: Tenant) -> None:
    first = (await create(tenant, REX)).memory

    response = await batch(tenant, ["tea", "the user's dog is called Rex", "coffee", "tea."], RETURN)

    assert list(response.similar_indexes) == [1, 3]
    assert response.memories[1].memory_id == first.memory_id
    assert response.memories[3].memory_id == response.memories[0].memory_id
    assert [memory.content for memory in response.memories] == ["tea", REX, "coffee", "tea"]
    assert await count(tenant) == 3


async def test_a_batch_reinforces_each_stored_memory_once(tenant: Tenant) -> None:
    await create(tenant, REX, confidence=0.5)

    response = await batch(tenant, [REX, REX], REINFORCE)

    assert [(memory.revision, round(memory.confidence, 2)) for memory in response.memories] == [(2, 0.54)] * 2
    assert await count(tenant) == 1


async def test_remember_asks_too(tenant: Tenant) -> None:
    await create(tenant, REX)
    memories = [pb.Memory(content="tea"), pb.Memory(content=REX)]

    response = await tenant.gateway.Remember(gateway_pb2.RememberRequest(memories=memories, on_similar=RETURN))

    assert list(response.similar_indexes) == [1]
    assert await count(tenant) == 2


async def test_who_may_not_read_is_told_of_nothing(cluster: Cluster, tenant: Tenant) -> None:
    await create(tenant, REX)
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", permissions=["memory.write"]))
    writer = cluster.with_key(key.secret)

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await create(writer, REX, RETURN)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await batch(writer, [REX], REINFORCE)
    assert not (await create(writer, REX)).is_similar


async def test_no_other_tenant_tells_of_its_memories(tenant: Tenant, other_tenant: Tenant) -> None:
    await create(other_tenant, REX)

    assert not (await create(tenant, REX, RETURN)).is_similar


async def test_a_batch_of_one_text_is_compared_with_the_first_ones_of_it(tenant: Tenant) -> None:
    memories = [pb.Memory(content=REX, tags=[str(n % 70)]) for n in range(140)]

    response = await tenant.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(memories=memories, on_similar=RETURN)
    )

    assert list(response.similar_indexes) == list(range(70, 120))
    assert [memory.tags[0] for memory in response.memories] == [str(n % 70) for n in range(140)]


@pytest.mark.parametrize("on_similar", [RETURN, REINFORCE])
async def test_no_write_is_dropped_for_a_distrusted_copy(tenant: Tenant, on_similar: pb.OnSimilar) -> None:
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="forum", trust=0.1))
    distrusted = (await create(tenant, REX, source="forum")).memory

    stored = await create(tenant, REX, on_similar)
    again = await create(tenant, REX, on_similar)

    assert not stored.is_similar
    assert stored.memory.memory_id != distrusted.memory_id
    assert again.is_similar
    assert again.memory.memory_id == stored.memory.memory_id


@pytest.mark.system
async def test_batches_that_merge_in_opposite_orders_do_not_wait_for_each_other(tenant: Tenant) -> None:
    facts = [f"Rex has {n} bones." for n in range(30)]
    await batch(tenant, facts, KEEP)

    responses = await asyncio.gather(*(batch(tenant, facts if n % 2 else facts[::-1], REINFORCE) for n in range(6)))

    assert [len(response.similar_indexes) for response in responses] == [30] * 6
    assert await count(tenant) == 30


async def test_a_write_is_stored_if_the_other_one_is_deleted_meanwhile(cluster: Cluster, tenant: Tenant) -> None:
    first = (await create(tenant, REX)).memory
    async with cluster.superuser() as connection:
        async with connection.transaction():
            await connection.execute(
                "UPDATE memory.memories SET is_active = false, delete_time = now() "
                "WHERE tenant_id = $1 AND memory_id = $2",
                tenant.tenant_id,
                uuid.UUID(first.memory_id),
            )
            merging = asyncio.create_task(batch(tenant, [REX, REX], REINFORCE))
            await _is_blocked_by(connection)

        response = await merging

    assert list(response.similar_indexes) == [1]
    assert response.memories[0].memory_id == response.memories[1].memory_id != first.memory_id
    assert await count(tenant) == 1


async def _is_blocked_by(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until another transaction waits for this one."""
    query = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
    async with asyncio.timeout(30):
        while not await connection.fetchval(query):
            await asyncio.sleep(0.02)
            # A transaction goes on seeing the processes that it saw first.
            await connection.execute("SELECT pg_stat_clear_snapshot()")
