"""Backfills: facts in messages that were written before the policy, each message once, within a ceiling."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused, test_environment
from fix_command import skein
from fix_extraction import current, extract, extraction_job, facts, learning_tenant, say
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import approvals_pb2, memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import jobs_pb2, subjects_pb2
from skein_worker.extraction.model import EXTRACTOR

PORTO = "I live in Porto"
NUTS = "I'm allergic to peanuts"


async def start(tenant: Tenant, **fields: object) -> None:
    request = session_pb2.StartExtractionRequest(**fields)  # type: ignore[arg-type]  # Each has the type of its field.
    await tenant.sessions.StartExtraction(request)


async def job(tenant: Tenant) -> jobs_pb2.Job:
    jobs = (await tenant.tenancy.GetJobs(jobs_pb2.GetJobsRequest())).jobs
    return next(one for one in jobs if one.kind == jobs_pb2.JOB_KIND_EXTRACTION)


async def dequeue(cluster: Cluster, tenant: Tenant) -> None:
    """Leave messages as if they were older than the policy, which services cache for a second."""
    async with cluster.superuser() as connection:
        for table in ("extraction_messages", "extractions"):
            await connection.execute(f"DELETE FROM session.{table} WHERE tenant_id = $1", tenant.tenant_id)  # noqa: S608 - two names.


async def earlier(cluster: Cluster, *texts: str) -> tuple[Tenant, list[session_pb2.Message]]:
    """Return a tenant with messages from before its policy."""
    tenant = await learning_tenant(cluster)
    messages = [message for text in texts for message in await say(tenant, text)]
    await dequeue(cluster, tenant)
    return tenant, messages


@pytest.mark.system
async def test_earlier_messages_are_read_and_the_job_shows_it(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO, "It rains.", NUTS)
    await extract(cluster, tenant)
    before = await facts(tenant)

    await start(tenant)
    running = await job(tenant)
    await extract(cluster, tenant)

    done = await job(tenant)
    assert (before, sorted(await current(tenant))) == ([], [PORTO, NUTS])
    assert (running.state, done.state) == (jobs_pb2.JOB_STATE_RUNNING, jobs_pb2.JOB_STATE_IDLE)
    assert done.done_count == 3


@pytest.mark.system
async def test_the_newest_value_of_a_key_stays(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO, "I live in Lisbon")

    await start(tenant)
    await extract(cluster, tenant)

    assert await current(tenant) == ["I live in Lisbon"]


@pytest.mark.system
async def test_a_message_is_read_once_whatever_reads_it(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO)
    await say(tenant, NUTS)
    await extract(cluster, tenant)
    await start(tenant)
    await extract(cluster, tenant)
    stored = await facts(tenant)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=stored[0].memory_id))

    await start(tenant)
    await extract(cluster, tenant)

    assert len(stored) == 2
    assert await facts(tenant) == stored[1:]


@pytest.mark.system
async def test_it_reads_no_more_than_its_ceiling_newest_first(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, "I live in Porto?", "I live in Lisbon?", "I live in Braga?")

    await start(tenant, max_messages=2)
    await extract(cluster, tenant)

    response = await tenant.curation.ListRefusedFacts(approvals_pb2.ListRefusedFactsRequest())
    assert [one.memory.content for one in response.refused_facts] == ["I live in Braga", "I live in Lisbon"]
    assert (await job(tenant)).done_count == 2


@pytest.mark.system
async def test_it_reads_nothing_before_its_time_and_nothing_that_does_not_count(cluster: Cluster) -> None:
    tenant, (first, gone) = await earlier(cluster, PORTO, "My name is Mira")
    await say(tenant, NUTS, role="ASSISTANT")
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=gone.message_id))

    await start(tenant, since_time=Timestamp(seconds=first.create_time.seconds + 3600))
    await extract(cluster, tenant)
    late = await facts(tenant)
    await start(tenant)
    await extract(cluster, tenant)

    assert (late, await current(tenant)) == ([], [PORTO])


async def test_a_cancelled_one_reads_no_more(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO)
    await start(tenant)

    await tenant.sessions.CancelExtraction(session_pb2.CancelExtractionRequest())
    await extract(cluster, tenant)

    assert (await facts(tenant), (await job(tenant)).state) == ([], jobs_pb2.JOB_STATE_IDLE)


@pytest.mark.system
async def test_a_paused_one_waits(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO)
    await start(tenant)
    await tenant.tenancy.PauseJob(jobs_pb2.PauseJobRequest(kind=jobs_pb2.JOB_KIND_EXTRACTION))
    await extract(cluster, tenant)
    paused = await facts(tenant), (await job(tenant)).state

    await tenant.tenancy.ResumeJob(jobs_pb2.ResumeJobRequest(kind=jobs_pb2.JOB_KIND_EXTRACTION))
    # A paused backfill is looked at again after a minute; a new start is at once.
    await start(tenant)
    await extract(cluster, tenant)

    assert paused == ([], jobs_pb2.JOB_STATE_PAUSED)
    assert await current(tenant) == [PORTO]


@pytest.mark.system
async def test_what_an_extractor_that_died_had_is_read_by_another(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO, NUTS)
    await start(tenant)
    job_of_one = extraction_job(cluster)
    async with job_of_one._system.as_extractor(EXTRACTOR, tenant_id=str(tenant.tenant_id), seconds=30):
        leased = await job_of_one._session.LeaseExtraction(session_pb2.LeaseExtractionRequest())
        again = await job_of_one._session.LeaseExtraction(session_pb2.LeaseExtractionRequest())
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE session.extraction_backfills SET due_time = now() WHERE tenant_id = $1", tenant.tenant_id
        )

    await extract(cluster, tenant)

    assert (len(leased.messages), len(again.messages)) == (2, 0)
    assert sorted(await current(tenant)) == [PORTO, NUTS]
    assert (await job(tenant)).done_count == 2


@pytest.mark.system
async def test_it_is_refused_without_the_policy_and_ends_with_it(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO)
    await start(tenant)
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(extraction="off"), update_mask=FieldMask(paths=["extraction"])
        )
    )

    # Services see a new policy within a second.
    async with asyncio.timeout(60):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "EXTRACTION_OFF"):
            while True:
                await start(tenant)
    await extract(cluster, tenant)

    assert (await facts(tenant), (await job(tenant)).state) == ([], jobs_pb2.JOB_STATE_IDLE)


@pytest.mark.system
async def test_a_purged_message_leaves_no_record_that_it_was_read(cluster: Cluster) -> None:
    tenant, (message,) = await earlier(cluster, PORTO)
    await start(tenant)
    await extract(cluster, tenant)

    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.message_id]))
    await extract(cluster, tenant)

    async with cluster.superuser() as connection:
        query = "SELECT count(*) FROM session.extracted_messages WHERE tenant_id = $1"
        assert await connection.fetchval(query, tenant.tenant_id) == 0
    assert await facts(tenant) == []


@pytest.mark.system
async def test_the_command_starts_and_cancels(cluster: Cluster) -> None:
    tenant, _ = await earlier(cluster, PORTO)
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    started = await skein("extract", "--since", "2020-01-01", "--max", "5", environment=environment)
    shown = await skein("jobs", "list", environment=environment)
    await extract(cluster, tenant)
    cancelled = await skein("extract", "--cancel", "--json", environment=environment)

    assert started.out.startswith("Started.")
    assert "extraction" in shown.out
    assert cancelled.json == {"cancelled": True}
    assert await current(tenant) == [PORTO]
