"""How many statements a write takes, and that writers of one tenant do not wait for each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from fix_database import TestDatabase
from fix_memory import MemoryServer
from fix_session_server import run_session_server
from prometheus_client import REGISTRY

from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc

# Read once in some seconds or once for a tenant, or written later for many calls.
CACHED = {"read_policy", "list_limits", "read_oldest_memory", "ensure_month", "read_access_key", "create_access_key"}
LATE = {"insert_accesses", "narrow_accesses", "finish_access", "count_accesses"}
# Lets writers end once they have done all but their commit, which counts what is used.
NO_USAGE = "LOCK TABLE memory.usage IN SHARE MODE"
WAITING = (
    "SELECT locktype, relation::regclass::text AS name FROM pg_locks WHERE NOT granted "
    "AND database IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


def statements(service: str) -> Counter[str]:
    """Return how often each named statement of a service ran in this process."""
    (family,) = REGISTRY.restricted_registry(["skein_database_query_duration_seconds_count"]).collect()
    return Counter(
        {
            sample.labels["query"]: int(sample.value)
            for sample in family.samples
            if sample.name.endswith("_count")
            and sample.labels["service"] == service
            and sample.labels["query"] not in CACHED | LATE
        }
    )


async def statements_of(service: str, write: Callable[[int], Awaitable[object]]) -> Counter[str]:
    """Return the statements that each of three writes takes: beside one of them other servers may run some."""
    of_each = []
    for number in range(3):
        before = statements(service)
        await write(number)
        of_each.append(statements(service) - before)
    return of_each[0] & of_each[1] & of_each[2]


def create(content: str, **fields: object) -> memory_pb2.CreateMemoryRequest:
    memory = memory_pb2.Memory(content=content, **fields)  # type: ignore[arg-type]  # Any fields.
    return memory_pb2.CreateMemoryRequest(memory=memory, request_id=content, defer_embedding=True)


@pytest.mark.system
async def test_a_memory_takes_three_statements_with_all_that_belongs_to_it(memory_server: MemoryServer) -> None:
    def task(number: int) -> memory_pb2.CreateMemoryRequest:
        request = create(f"Repair the boiler {number}", type="task", tags=["cellar", "winter"])
        request.memory.metadata.update({"floor": "2", "room": "cellar"})
        request.memory.derived_from.add(kind=memory_pb2.SOURCE_KIND_DOCUMENT, name="the manual")
        return request

    async with memory_server.serving(), memory_server.channel() as channel:
        memory = memory_pb2_grpc.MemoryServiceStub(channel)
        for number in range(2):
            await memory.CreateMemory(create(f"The first ones fill the caches, {number}"))
        plain = await statements_of(
            "memory", lambda number: memory.CreateMemory(create(f"The plumber repaired boiler {number} in the cellar"))
        )
        whole = await statements_of("memory", lambda number: memory.CreateMemory(task(number)))
        stored, again = [await memory.CreateMemory(task(3)) for _ in range(2)]

    assert plain == Counter(
        {
            "claim_request": 1,
            "analyse": 1,
            "insert_memories+insert_changes+insert_documents+insert_postings+read_trust": 1,
        }
    )
    # The rest computes the trust that follows from its source.
    assert Counter({name: count for name, count in whole.items() if "insert" in name}) == Counter(
        {
            "insert_memories+insert_changes+insert_tags+put_task+insert_properties+insert_documents+insert_postings"
            "+insert_sources+read_trust": 1
        }
    )
    assert again == stored


@pytest.mark.system
async def test_a_batch_takes_as_many_statements_as_one_memory(memory_server: MemoryServer) -> None:
    memories = [memory_pb2.Memory(content=f"Felines hunt rodents {number}", tags=["cats"]) for number in range(50)]
    async with memory_server.serving(), memory_server.channel() as channel:
        memory = memory_pb2_grpc.MemoryServiceStub(channel)
        for number in range(2):
            await memory.CreateMemory(create(f"The first ones fill the caches, {number}"))
        taken = await statements_of(
            "memory",
            lambda number: memory.BatchCreateMemories(
                memory_pb2.BatchCreateMemoriesRequest(memories=memories, request_id=f"r{number}")
            ),
        )

    assert taken.total() == 3
    counts = await memory_server.rows(
        "SELECT (SELECT count(*) FROM memory.tags), (SELECT count(DISTINCT item_id) FROM recall.postings)"
    )
    assert tuple(counts[0]) == (150, 152)


@pytest.mark.system
async def test_an_append_takes_five_statements_whatever_the_number_of_its_messages(database: TestDatabase) -> None:
    def append(count: int, request_id: str) -> session_pb2.AppendMessagesRequest:
        messages = [
            session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"Felines hunt rodents {number}")
            for number in range(count)
        ]
        return session_pb2.AppendMessagesRequest(
            session_id="s", create_session=True, messages=messages, request_id=request_id, defer_embedding=True
        )

    async def statements_for(sessions: session_pb2_grpc.SessionServiceAsyncStub, count: int) -> Counter[str]:
        return await statements_of(
            "session", lambda number: sessions.AppendMessages(append(count, f"r{count}-{number}"))
        )

    async with run_session_server(database, {}) as session_server, session_server.channel() as channel:
        sessions = session_pb2_grpc.SessionServiceStub(channel)
        await sessions.AppendMessages(append(1, "first"))
        found = [await statements_for(sessions, count) for count in (1, 40)]

    assert (
        found[0]
        == found[1]
        == Counter(
            {
                "claim_request": 1,
                "analyse": 1,
                "advance_session": 1,
                "insert_messages+insert_message_order+insert_documents+insert_postings": 1,
                "save_response_of_session": 1,
            }
        )
    )


async def test_writers_of_one_tenant_do_not_wait_for_each_other(memory_server: MemoryServer) -> None:
    async with memory_server.serving(), memory_server.channel() as channel, memory_server.database.superuser() as other:
        memory = memory_pb2_grpc.MemoryServiceStub(channel)
        for number in range(2):
            await memory.CreateMemory(create(f"The first ones fill the caches, {number}"))
        async with other.transaction():
            await other.execute(NO_USAGE)
            writers = [asyncio.ensure_future(memory.CreateMemory(create(f"Written {number}"))) for number in range(2)]
            waiting: list[tuple[str, str]] = []
            while len(waiting) < 2 and not any(writer.done() for writer in writers):
                waiting = [(row["locktype"], row["name"]) for row in await other.fetch(WAITING)]
        stored = await asyncio.gather(*writers)

    # Both stand at their commit, and neither has what the other wants: that would be a wait for its transaction.
    assert waiting == [("relation", "memory.usage")] * 2
    assert [each.memory.content for each in stored] == ["Written 0", "Written 1"]
