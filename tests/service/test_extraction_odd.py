"""Extraction where things go wrong: several workers, texts of any kind, and messages that change meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_extraction import (
    current,
    extract,
    extraction_job,
    extractor_token,
    facts,
    job_of,
    learning_tenant,
    say,
    settings_of,
)
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import approvals_pb2, curation_pb2, memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc, states_pb2
from skein.tenancy.v1 import jobs_pb2, tenancy_pb2

PORTO = "I live in Porto"
# Longer than what it corrects, so that no quote ends behind it.
BINS = "Remember that the bins go out on every other Monday, before the first bus"
KEY = "Remember that the key lies under the mat"


class InterruptedStub:
    """A stub that lets something happen before its first call of a method."""

    def __init__(self, stub: Any, method: str, happen: Callable[[], Awaitable[object]]) -> None:
        self._stub = stub
        self._method = method
        self._happen: Callable[[], Awaitable[object]] | None = happen

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any) -> Any:
            if name == self._method and self._happen is not None:
                happen, self._happen = self._happen, None
                await happen()
            return await getattr(self._stub, name)(request)

        return call


async def extract_interrupted(
    cluster: Cluster, tenant: Tenant, method: str, happen: Callable[[], Awaitable[object]]
) -> None:
    """Read one session while something happens before a call of the worker."""
    job = job_of(settings_of(cluster), cluster.addresses, lambda stub: InterruptedStub(stub, method, happen))
    await job.extract_session(str(tenant.tenant_id))


async def correct(tenant: Tenant, message: session_pb2.Message, text: str) -> None:
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(message_id=message.message_id, content=text),
            update_mask=FieldMask(paths=["content"]),
        )
    )


async def start(tenant: Tenant) -> None:
    await tenant.sessions.StartExtraction(session_pb2.StartExtractionRequest())


async def extraction_job_of(tenant: Tenant) -> jobs_pb2.Job:
    jobs = (await tenant.tenancy.GetJobs(jobs_pb2.GetJobsRequest())).jobs
    return next(one for one in jobs if one.kind == jobs_pb2.JOB_KIND_EXTRACTION)


@pytest.mark.system
@pytest.mark.parametrize("is_backfill", [False, True])
async def test_several_workers_at_once_store_each_fact_once_and_lose_none(
    cluster: Cluster, *, is_backfill: bool
) -> None:
    tenant = await learning_tenant(cluster)
    notes = [f"Remember that box {number} has the cups" for number in range(40)]
    for number, note in enumerate(notes):
        await say(tenant, note, session_id=f"talk-{number % 8}")
    if is_backfill:
        async with cluster.superuser() as connection:
            for table in ("extraction_messages", "extractions"):
                await connection.execute(f"DELETE FROM session.{table} WHERE tenant_id = $1", tenant.tenant_id)  # noqa: S608 - two names.
        await start(tenant)

    await asyncio.gather(*(extract(cluster, tenant) for _ in range(4)))
    await extract(cluster, tenant)

    assert sorted(fact.content for fact in await facts(tenant)) == sorted(notes)


@pytest.mark.system
@pytest.mark.parametrize("method", ["BatchCreateMemories", "CompleteExtraction"])
async def test_a_message_that_is_corrected_meanwhile_leaves_the_facts_of_its_new_text_alone(
    cluster: Cluster, method: str
) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, f"{PORTO}. {KEY}.")

    await extract_interrupted(cluster, tenant, method, lambda: correct(tenant, message, f"I live in Lisbon. {BINS}."))
    await extract(cluster, tenant)

    assert sorted(await current(tenant)) == ["I live in Lisbon", BINS]


async def test_what_waits_of_a_message_that_is_corrected_meanwhile_is_withdrawn(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster, approval="all")
    (message,) = await say(tenant, PORTO)

    await extract_interrupted(
        cluster, tenant, "BatchCreateMemories", lambda: correct(tenant, message, "I live in Lisbon")
    )
    await extract(cluster, tenant)

    response = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    assert [one.memory.content for one in response.pending_memories] == ["I live in Lisbon"]


@pytest.mark.parametrize("method", ["BatchCreateMemories", "CompleteExtraction"])
@pytest.mark.parametrize("is_purged", [False, True])
async def test_a_message_that_goes_meanwhile_leaves_no_fact(cluster: Cluster, method: str, *, is_purged: bool) -> None:
    tenant = await learning_tenant(cluster)
    (message, _) = await say(tenant, PORTO, KEY)

    async def remove() -> None:
        if is_purged:
            await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.message_id]))
        else:
            await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))

    await extract_interrupted(cluster, tenant, method, remove)
    await extract(cluster, tenant)

    assert await current(tenant) == [KEY]


@pytest.mark.system
async def test_messages_of_a_session_that_is_purged_meanwhile_leave_nothing(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO, KEY)

    await extract_interrupted(
        cluster,
        tenant,
        "CompleteExtraction",
        lambda: tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="talk")),
    )
    await extract(cluster, tenant)

    assert await facts(tenant) == []


async def test_messages_that_come_meanwhile_are_read_next(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)

    await extract_interrupted(cluster, tenant, "CompleteExtraction", lambda: say(tenant, KEY))
    await extract(cluster, tenant)

    assert await current(tenant) == [PORTO, KEY]


async def purge(cluster: Cluster, tenant: Tenant) -> None:
    """Purge what a deleted tenant has, as the worker does. Services see the deletion within seconds."""
    async with (
        asyncio.timeout(60),
        cluster.direct("session", caller="worker") as session,
        cluster.direct("memory", caller="worker") as memory,
    ):
        while True:
            try:
                token = await extractor_token(cluster, str(tenant.tenant_id), extractor="")
                sessions = session_pb2_grpc.SessionInternalServiceStub(Stubs.of(session, token).channel)
                memories = memory_pb2_grpc.MemoryInternalServiceStub(Stubs.of(memory, token).channel)
                while (await sessions.PurgeTenant(session_pb2.PurgeTenantRequest())).more:
                    pass
                while (await memories.PurgeTenant(memory_pb2.PurgeTenantRequest())).more:
                    pass
            except aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    # The cluster's own worker was here before.
                    return
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                    raise
                await asyncio.sleep(0.2)
            else:
                return


@pytest.mark.system
async def test_a_tenant_that_is_deleted_meanwhile_has_nothing_after_its_purge(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    request = tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id), grace=Duration())

    # Its tokens are valid for some seconds: the worker may store the fact, or fail.
    with suppress(aio.AioRpcError):
        await extract_interrupted(
            cluster, tenant, "BatchCreateMemories", lambda: cluster.operator.tenancy.DeleteTenant(request)
        )
    await purge(cluster, tenant)

    async with cluster.superuser() as connection:
        for table in ("memory.memories", "session.messages", "session.extractions", "session.extraction_messages"):
            query = f"SELECT count(*) FROM {table} WHERE tenant_id = $1"  # noqa: S608 - four names.
            assert await connection.fetchval(query, tenant.tenant_id) == 0, table


async def test_a_megabyte_is_refused_and_the_longest_message_holds_up_no_other(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TOO_LONG"):
        await say(tenant, "I live in Porto. " * 62_000)
    await say(tenant, ("I live in Porto. " * 6_000)[:100_000], KEY)

    await extract(cluster, tenant)

    assert await current(tenant) == [KEY]


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("👩‍👩‍👧‍👦🎉 I live in Porto. 🎉", "I live in Porto"),
        ("Hi 🦊! My name is Mira.", "My name is Mira"),
        ("שמש! My name is Noa.", "My name is Noa"),
        ("\u2067שמש\u2069! I live in Porto.", "I live in Porto"),
        ("🎂我叫小梅。", "我叫小梅"),
    ],
)
async def test_characters_of_a_quote_count_code_points_whatever_stands_before(
    cluster: Cluster, text: str, quote: str
) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, text)

    await extract(cluster, tenant)

    (fact,) = await facts(tenant)
    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[fact.memory_id]))
    (edge,) = (edge for edge in lineage.edges if lineage.nodes[edge.source_number].id == message.message_id)
    assert fact.content == message.content[edge.start_character : edge.end_character] == quote


@pytest.mark.parametrize("name", ["Mi\u202era", "🦊", "מירה", "Zo\u0301e", "M\u200bira"])
async def test_a_name_of_odd_characters_is_kept_as_it_was_said_or_not_at_all(cluster: Cluster, name: str) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, f"My name is {name}.", KEY)

    await extract(cluster, tenant)

    contents = await current(tenant)
    assert KEY in contents
    assert set(contents) <= {f"My name is {name}", KEY}


async def test_no_fact_is_made_of_two_messages(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "I live in", "Porto.", "Remember that", "the key lies under the mat.")

    await extract(cluster, tenant)

    assert await facts(tenant) == []


async def test_a_quote_that_ends_behind_its_message_is_refused(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, PORTO)
    source = memory_pb2.SourceReference(
        kind=memory_pb2.SOURCE_KIND_MESSAGE, id=message.message_id, start_character=4, end_character=400
    )
    fact = memory_pb2.Memory(content="Porto", derived_from=[source])

    async with cluster.direct("memory", caller="worker") as channel:
        extractor = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id)))
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await extractor.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=[fact]))

    assert await facts(tenant) == []


async def test_a_pause_holds_back_new_messages_and_no_deletion(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (first,) = await say(tenant, PORTO)
    await extract(cluster, tenant)
    await tenant.tenancy.PauseJob(jobs_pb2.PauseJobRequest(kind=jobs_pb2.JOB_KIND_EXTRACTION))

    await say(tenant, KEY)
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=first.message_id))
    await extract(cluster, tenant)
    paused = await current(tenant)
    await tenant.tenancy.ResumeJob(jobs_pb2.ResumeJobRequest(kind=jobs_pb2.JOB_KIND_EXTRACTION))
    await extract(cluster, tenant)

    assert (paused, await current(tenant)) == ([], [KEY])


@pytest.mark.system
async def test_a_backfill_tells_how_many_messages_are_left(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, *(f"It rains in town {number}." for number in range(50)))
    async with cluster.superuser() as connection:
        for table in ("extraction_messages", "extractions"):
            await connection.execute(f"DELETE FROM session.{table} WHERE tenant_id = $1", tenant.tenant_id)  # noqa: S608 - two names.
    await start(tenant)
    worker = extraction_job(cluster)

    await worker.extract_session(str(tenant.tenant_id))
    first = await extraction_job_of(tenant)
    await extract(cluster, tenant)
    last = await extraction_job_of(tenant)

    assert (first.done_count, first.remaining_count) == (32, 18)
    assert (last.done_count, last.remaining_count) == (50, 0)
    assert last.state == jobs_pb2.JOB_STATE_IDLE
