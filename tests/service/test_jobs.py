"""Jobs with a budget: pauses, limits and progress of a tenant's background work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused, test_environment
from fix_command import skein
from fix_world import system_identity

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.memory.v1 import memory_pb2, memory_pb2_grpc, scores_pb2
from skein.tenancy.v1 import jobs_pb2 as pb
from skein_client.connection import Connection
from skein_cluster.api.client import open_client
from skein_cluster.cli.exit_codes import ExitCode
from skein_importers import budget
from skein_importers.importer import Importer, Report
from skein_importers.memory_file import export_memory, import_memory
from skein_importers.records import read_jsonl

DECAY, EXPIRY, RETENTION, IMPORT = pb.JOB_KIND_DECAY, pb.JOB_KIND_EXPIRY, pb.JOB_KIND_RETENTION, pb.JOB_KIND_IMPORT


async def job_of(tenant: Tenant, kind: pb.JobKind) -> pb.Job:
    jobs = (await tenant.tenancy.GetJobs(pb.GetJobsRequest())).jobs
    return next(job for job in jobs if job.kind == kind)


async def pause(tenant: Tenant, kind: pb.JobKind) -> pb.Job:
    return (await tenant.tenancy.PauseJob(pb.PauseJobRequest(kind=kind))).job


async def resume(tenant: Tenant, kind: pb.JobKind) -> pb.Job:
    return (await tenant.tenancy.ResumeJob(pb.ResumeJobRequest(kind=kind))).job


async def limit(tenant: Tenant, kind: pb.JobKind, **limits: float) -> pb.Job:
    request = pb.LimitJobRequest(kind=kind, limits=pb.JobLimits(**limits))  # type: ignore[arg-type]
    return (await tenant.tenancy.LimitJob(request)).job


@asynccontextmanager
async def worker_of(cluster: Cluster, tenant: Tenant) -> AsyncIterator[memory_pb2_grpc.MemoryInternalServiceAsyncStub]:
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel:
        yield memory_pb2_grpc.MemoryInternalServiceStub(Stubs.of(channel, token).channel)


@asynccontextmanager
async def failing_updates(cluster: Cluster, tenant: Tenant) -> AsyncIterator[None]:
    """Let every update of the tenant's memories fail."""
    async with cluster.superuser() as connection:
        await connection.execute(
            "CREATE FUNCTION memory.fail_update() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'no update'; END $$"
        )
        await connection.execute(
            "CREATE TRIGGER fail_update BEFORE UPDATE ON memory.memories FOR EACH ROW"
            f" WHEN (old.tenant_id = '{tenant.tenant_id}') EXECUTE FUNCTION memory.fail_update()"
        )
        try:
            yield
        finally:
            await connection.execute("DROP FUNCTION memory.fail_update() CASCADE")


async def idle_memories(cluster: Cluster, tenant: Tenant, count: int) -> None:
    """Store memories whose decay is due."""
    memories = [memory_pb2.Memory(content=f"idle {number}") for number in range(count)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE memory.memories"
            " SET update_time = update_time - $2::interval, decay_time = decay_time - $2::interval"
            " WHERE tenant_id = $1",
            tenant.tenant_id,
            timedelta(days=31),
        )


async def test_a_tenant_has_one_job_of_each_kind_that_is_idle_and_unlimited(tenant: Tenant) -> None:
    jobs = (await tenant.tenancy.GetJobs(pb.GetJobsRequest())).jobs

    assert [job.kind for job in jobs] == [kind for kind in pb.JobKind.values() if kind]
    untouched = [job for job in jobs if job.kind not in {pb.JOB_KIND_EMBEDDING, pb.JOB_KIND_REINDEX}]
    assert {job.state for job in untouched} == {pb.JOB_STATE_IDLE}
    assert not any(job.limits.ListFields() for job in jobs)


async def test_a_paused_job_does_nothing_and_continues_where_it_stopped(cluster: Cluster, tenant: Tenant) -> None:
    await idle_memories(cluster, tenant, 12)
    async with worker_of(cluster, tenant) as worker:
        first = await worker.DecayMemories(memory_pb2.DecayMemoriesRequest(limit=5))
        before = await job_of(tenant, DECAY)
        paused = await pause(tenant, DECAY)
        during = await asyncio.gather(*(worker.DecayMemories(memory_pb2.DecayMemoriesRequest()) for _ in range(2)))
        resumed = await resume(tenant, DECAY)
        rest = await worker.DecayMemories(memory_pb2.DecayMemoriesRequest())
    after = await job_of(tenant, DECAY)

    assert (first.decayed_count, before.state, before.done_count, before.remaining_count) == (
        5,
        pb.JOB_STATE_RUNNING,
        5,
        7,
    )
    assert (paused.state, paused.done_count, resumed.state) == (pb.JOB_STATE_PAUSED, 5, pb.JOB_STATE_RUNNING)
    assert paused.paused_by
    assert [response.decayed_count for response in during] == [0, 0]
    assert all(response.HasField("retry_delay") and not response.more for response in during)
    assert (rest.decayed_count, rest.HasField("retry_delay")) == (7, False)
    assert (after.state, after.done_count, after.remaining_count) == (pb.JOB_STATE_IDLE, 12, 0)
    assert not after.HasField("pause_time")
    assert after.paused_by == ""


async def test_a_ceiling_holds_for_workers_at_once(cluster: Cluster, tenant: Tenant) -> None:
    await idle_memories(cluster, tenant, 12)
    await limit(tenant, DECAY, max_cost_per_day=4)

    async with worker_of(cluster, tenant) as worker:
        responses = await asyncio.gather(*(worker.DecayMemories(memory_pb2.DecayMemoriesRequest()) for _ in range(4)))
        reached = await job_of(tenant, DECAY)
        await limit(tenant, DECAY)
        rest = await worker.DecayMemories(memory_pb2.DecayMemoriesRequest())

    assert sum(response.decayed_count for response in responses) == 4
    assert (reached.state, reached.day_cost, reached.limits.max_cost_per_day) == (pb.JOB_STATE_CEILING_REACHED, 4, 4)
    assert rest.decayed_count == 8


@pytest.mark.system
async def test_batches_that_fail_use_up_no_limit(cluster: Cluster, tenant: Tenant) -> None:
    await idle_memories(cluster, tenant, 4)
    await limit(tenant, DECAY, max_cost_per_day=4, items_per_second=0.4)

    async with worker_of(cluster, tenant) as worker:
        async with failing_updates(cluster, tenant):
            for _ in range(2):
                with refused(grpc.StatusCode.INTERNAL, "INTERNAL"):
                    await worker.DecayMemories(memory_pb2.DecayMemoriesRequest())
        failed = await job_of(tenant, DECAY)
        done = await worker.DecayMemories(memory_pb2.DecayMemoriesRequest())

    assert (failed.state, failed.day_cost, done.decayed_count) == (pb.JOB_STATE_IDLE, 0, 4)


async def test_a_rate_grants_what_it_allows_and_names_the_delay(cluster: Cluster, tenant: Tenant) -> None:
    await idle_memories(cluster, tenant, 12)
    # Ten seconds of it are one item.
    await limit(tenant, DECAY, items_per_second=0.001)

    async with worker_of(cluster, tenant) as worker:
        responses = [await worker.DecayMemories(memory_pb2.DecayMemoriesRequest()) for _ in range(2)]

    assert [response.decayed_count for response in responses] == [1, 0]
    assert all(response.retry_delay.seconds == 60 for response in responses)


@pytest.mark.system
async def test_a_paused_expiry_keeps_memories_that_readers_no_longer_see(cluster: Cluster, tenant: Tenant) -> None:
    memory = (
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="short")))
    ).memory
    await pause(tenant, EXPIRY)
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE memory.memories SET expire_time = now() - interval '30 days' WHERE tenant_id = $1", tenant.tenant_id
        )
        async with worker_of(cluster, tenant) as worker:
            kept = await worker.DeleteExpired(memory_pb2.DeleteExpiredRequest())
            with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
                await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory.memory_id))
            count = await connection.fetchval(
                "SELECT count(*) FROM memory.memories WHERE tenant_id = $1", tenant.tenant_id
            )
            await resume(tenant, EXPIRY)
            purged = await worker.DeleteExpired(memory_pb2.DeleteExpiredRequest())
        left = await connection.fetchval("SELECT count(*) FROM memory.memories WHERE tenant_id = $1", tenant.tenant_id)

    assert kept.HasField("retry_delay")
    assert (count, left) == (1, 0)
    assert not purged.HasField("retry_delay")


async def test_a_paused_retention_keeps_old_memories(cluster: Cluster, tenant: Tenant) -> None:
    old = memory_pb2.Memory(content="of another age")
    old.create_time.FromSeconds(1)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=old))
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE memory.memories SET update_time = create_time, record_time = create_time WHERE tenant_id = $1",
            tenant.tenant_id,
        )
    await pause(tenant, RETENTION)

    async with worker_of(cluster, tenant) as worker:
        kept = await worker.ApplyRetention(memory_pb2.ApplyRetentionRequest())
        await resume(tenant, RETENTION)
        purged = await worker.ApplyRetention(memory_pb2.ApplyRetentionRequest())

    assert (kept.purged_count, kept.HasField("retry_delay"), purged.purged_count) == (0, True, 1)
    assert (await job_of(tenant, RETENTION)).done_count == 1


async def test_paused_consolidations_are_refused_but_for_dry_runs(tenant: Tenant) -> None:
    for _ in range(3):
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="twice")))
    await pause(tenant, pb.JOB_KIND_CONSOLIDATION)

    dry = await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest(dry_run=True))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "JOB_PAUSED"):
        await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())
    await resume(tenant, pb.JOB_KIND_CONSOLIDATION)
    done = await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())
    await limit(tenant, pb.JOB_KIND_CONSOLIDATION, max_cost_per_day=0)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "JOB_LIMITED"):
        await tenant.memory.ConsolidateMemories(scores_pb2.ConsolidateMemoriesRequest())

    assert dry.groups == done.groups
    assert (await job_of(tenant, pb.JOB_KIND_CONSOLIDATION)).done_count == 2


async def test_an_import_gets_its_records_from_the_tenants_limits(tenant: Tenant) -> None:
    async def advance(**fields: Any) -> pb.AdvanceImportResponse:
        return await tenant.tenancy.AdvanceImport(pb.AdvanceImportRequest(**fields))

    free = await advance(requested_count=100)
    await advance(done_count=100, remaining_count=50)
    running = await job_of(tenant, IMPORT)
    await limit(tenant, IMPORT, max_cost_per_day=130)
    limited = await advance(requested_count=100)
    reached = await advance(requested_count=100)
    await limit(tenant, IMPORT)
    await pause(tenant, IMPORT)
    paused = await advance(requested_count=100, done_count=30)
    await resume(tenant, IMPORT)
    await advance(finished=True)
    ended = await job_of(tenant, IMPORT)

    assert (free.granted_count, free.state) == (100, pb.JOB_STATE_RUNNING)
    assert (running.state, running.done_count, running.remaining_count) == (pb.JOB_STATE_RUNNING, 100, 50)
    assert (limited.granted_count, reached.granted_count, reached.state) == (30, 0, pb.JOB_STATE_CEILING_REACHED)
    assert (paused.granted_count, paused.state, paused.retry_delay.seconds) == (0, pb.JOB_STATE_PAUSED, 60)
    assert (ended.state, ended.done_count, ended.remaining_count) == (pb.JOB_STATE_IDLE, 130, 0)


async def test_who_paused_resumed_and_limited_is_in_the_audit_log(tenant: Tenant) -> None:
    await pause(tenant, DECAY)
    await pause(tenant, DECAY)
    await resume(tenant, DECAY)
    await limit(tenant, DECAY, items_per_second=5)

    request = accounts_pb2.ListAuditEventsRequest()
    events = (await tenant.auth.ListAuditEvents(request)).audit_events

    of_jobs = [(event.event, event.target) for event in events if event.target.startswith("job:")]
    assert of_jobs == [("job_limited", "job:decay"), ("job_resumed", "job:decay"), ("job_paused", "job:decay")]
    assert all(event.principal and event.create_time.seconds for event in events if event.event.startswith("job_"))


@pytest.mark.system
async def test_the_command_lists_pauses_limits_and_resumes(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    paused = await skein("jobs", "pause", "session_archive", environment=environment)
    limited = await skein("jobs", "limit", "reindex", "--rate", "20", "--per-day", "500", environment=environment)
    listed = await skein("jobs", "list", environment=environment)
    resumed = await skein("jobs", "resume", "session_archive", "--json", environment=environment)
    unknown = await skein("jobs", "pause", "deletion", environment=environment)

    assert paused.out.strip() == "session_archive is paused."
    assert limited.out.strip().endswith("limited to 20 per second, 500 embeddings per day.")
    assert [listed.code, "paused" in listed.out, "summaries" in listed.out] == [0, True, True]
    assert resumed.json["state"] == "JOB_STATE_IDLE"
    assert unknown.code == ExitCode.USAGE


async def test_an_importer_waits_while_imports_are_paused_and_reports_its_progress(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with as_file(files("skein_cluster") / "sample" / "household.jsonl") as sample:
        lines = [line for line in sample.read_text("utf-8").splitlines() if '"record": "memory"' in line][:3]
    source, report, waits = tmp_path / "some.jsonl", Report(), list[float]()
    source.write_text("\n".join(lines), "utf-8")
    await pause(tenant, IMPORT)

    async def resume_after(seconds: float) -> None:
        waits.append(seconds)
        assert report.written == {}
        await resume(tenant, IMPORT)

    monkeypatch.setattr(budget, "_sleep", resume_after)
    async with open_client(Connection(endpoint=cluster.endpoint, api_key=tenant.api_key, timeout=30.0)) as api:
        await Importer(api, report, lambda _count: None).run(read_jsonl(source))
    job = await job_of(tenant, IMPORT)

    assert waits == [60.0]
    assert (job.state, job.done_count, sum(report.written.values())) == (pb.JOB_STATE_IDLE, 3, 3)


@pytest.mark.system
async def test_an_import_whose_calls_take_too_long_goes_on_in_halves(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source, report = tmp_path / "some.jsonl", Report()
    lines = [json.dumps({"record": "memory", "external_id": f"m{n}", "content": f"slow fact {n}"}) for n in range(5)]
    source.write_text("\n".join(lines), "utf-8")
    async with cluster.superuser() as connection:
        # As a transaction whose time is over.
        await connection.execute(
            """
            CREATE FUNCTION public.too_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF (SELECT count(*) FROM new_rows WHERE content LIKE 'slow fact %') > 2 THEN
                    RAISE SQLSTATE '25P04';
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER too_slow AFTER INSERT ON memory.memories REFERENCING NEW TABLE AS new_rows
                FOR EACH STATEMENT EXECUTE FUNCTION public.too_slow();
            """
        )
        try:
            connect = Connection(endpoint=cluster.endpoint, api_key=tenant.api_key, timeout=30.0)
            async with open_client(connect) as api:
                await Importer(api, report, lambda _count: None).run(read_jsonl(source))
        finally:
            await connection.execute("DROP FUNCTION public.too_slow CASCADE")

    assert (sum(report.written.values()), sum(report.skipped.values())) == (5, 0)


async def test_an_import_of_a_complete_file_waits_while_imports_are_paused(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="prefers tea")))
    lines, waits = list[str](), list[float]()
    async with open_client(Connection(endpoint=cluster.endpoint, api_key=tenant.api_key, timeout=30.0)) as api:
        await export_memory(api, lines.append)
    await pause(other_tenant, IMPORT)

    async def resume_after(seconds: float) -> None:
        waits.append(seconds)
        await resume(other_tenant, IMPORT)

    monkeypatch.setattr(budget, "_sleep", resume_after)
    async with open_client(Connection(endpoint=cluster.endpoint, api_key=other_tenant.api_key, timeout=30.0)) as api:
        dry = await import_memory(api, "".join(lines), "skein", "merge", dry_run=True)
        waits_of_dry_run = len(waits)
        done = await import_memory(api, "".join(lines), "skein", "merge", dry_run=False)
    job = await job_of(other_tenant, IMPORT)

    assert (waits_of_dry_run, waits) == (0, [60.0])
    assert dry.created == done.created
    assert done.created["memory"] == 1
    assert job.state == pb.JOB_STATE_IDLE
    assert job.done_count >= 1


@pytest.mark.parametrize("kind", [pb.JOB_KIND_RETENTION, pb.JOB_KIND_EXPIRY])
async def test_who_sets_no_policy_delays_no_promised_deletion(
    cluster: Cluster, tenant: Tenant, kind: pb.JobKind
) -> None:
    request = auth_pb2.CreateApiKeyRequest(display_name="jobs", permissions=["jobs.write", "tenant.read"])
    caller = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)

    for attempt in (
        caller.tenancy.PauseJob(pb.PauseJobRequest(kind=kind)),
        caller.tenancy.LimitJob(pb.LimitJobRequest(kind=kind, limits=pb.JobLimits(max_cost_per_day=0))),
    ):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await attempt
    paused = await caller.tenancy.PauseJob(pb.PauseJobRequest(kind=DECAY))

    assert paused.job.state == pb.JOB_STATE_PAUSED
    assert (await tenant.tenancy.PauseJob(pb.PauseJobRequest(kind=kind))).job.state == pb.JOB_STATE_PAUSED
