"""Deleted tenants: closed at once, opened again within their grace, and gone to the last row when it is over."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, refused
from fix_deletion import MEMORIES, add_counts, fill
from fix_world import system_identity
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2, tenancy_pb2_grpc
from skein_cluster import registry
from skein_kit.database.named_queries import Queries
from skein_kit.erasure_certificates import document, key_set
from skein_kit.settings import ProcessSettings
from skein_worker.rounds.tenant_deletion import TenantDeletionJob, purge_stages
from skein_worker.system_identity import SystemIdentity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from skein_kit.host.process import Host

    Connection = asyncpg.Connection[asyncpg.Record]

LOCK_PURGE = Queries.load("skein_kit")["lock_purge"].text
AT_ONCE = Duration()
BEHIND = {"memory.access_log", "memory.access_counts", "recall.search_counts"}
# What the worker may take away or count anew at any time.
COUNTED = {"recall.removals", "recall.frequencies", "memory.trust_work"}


class StopAfterChecks(asyncio.Event):
    """Asks to leave off, or fails as a crash would, when it was looked at so many times."""

    def __init__(self, looks: int, *, crash: bool = False) -> None:
        super().__init__()
        self.looks = looks
        self.crash = crash

    def is_set(self) -> bool:
        self.looks -= 1
        if self.looks < 0 and self.crash:
            raise ZeroDivisionError
        return self.looks < 0


@asynccontextmanager
async def hosted(cluster: Cluster) -> AsyncIterator[Host]:
    values = {**cluster.environment, "SKEIN_DATABASE_URL": cluster.postgres.url(user="postgres", database="skein")}
    host = registry.host_of(ProcessSettings.read(values), values)
    host.addresses.update(cluster.addresses)
    try:
        yield host
    finally:
        await host.close()


def tenancy_of(host: Host) -> tenancy_pb2_grpc.TenancyInternalServiceAsyncStub:
    return tenancy_pb2_grpc.TenancyInternalServiceStub(host.channel("tenancy"))


def stages_of(host: Host) -> Mapping[str, Callable[[int], Awaitable[Any]]]:
    return purge_stages(
        session=session_pb2_grpc.SessionInternalServiceStub(host.channel("session")),
        memory=memory_pb2_grpc.MemoryInternalServiceStub(host.channel("memory")),
        recall=recall_pb2_grpc.RecallInternalServiceStub(host.channel("recall")),
        auth=auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth")),
        tenancy=tenancy_of(host),
    )


def system_of(host: Host) -> SystemIdentity:
    return SystemIdentity(auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth")), key=SYSTEM_KEY)


async def work(
    cluster: Cluster,
    leave_off: asyncio.Event | None = None,
    *,
    batch: int = 7,
    certifying: auth_pb2_grpc.AuthInternalServiceAsyncStub | None = None,
) -> None:
    """Do the worker's job once, as a worker of its own, which asks `certifying` for certificates if given."""
    async with hosted(cluster) as host:
        job = TenantDeletionJob(
            tenancy_of(host),
            certifying or auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth")),
            stages_of(host),
            system_of(host),
            seconds=60,
            batch=batch,
        )
        assert await job.run(b"", leave_off or asyncio.Event()) == 60


async def crash(cluster: Cluster) -> None:
    """Let a worker crash after a few batches; a run that a service's refusal ends before that is repeated."""
    async with asyncio.timeout(120):
        while True:
            try:
                await work(cluster, StopAfterChecks(4, crash=True))
            except ZeroDivisionError:
                return


# The index, and what its former rows have beside those of now.
FORMER = {"recall.documents": ", 1", "recall.postings": "", "recall.embeddings_all_minilm_l6_v2": ", 1"}
_VECTORS = "recall.embeddings_"
# Reports and certificates of the deletion.
OUTLIVING = {"tenancy.deletions", "auth.erasure_certificates"}


async def tables(connection: Connection) -> list[str]:
    """Return every table that has a tenant_id, partitions as part of their parents.

    Models that other tests registered have tables of vectors too, which nothing is put into.
    """
    rows = await connection.fetch(
        "SELECT n.nspname || '.' || c.relname AS name FROM pg_class AS c"
        " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped"
        " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"
    )
    own = [row["name"] for row in rows]
    return [name for name in own if not name.startswith(_VECTORS) or name == f"{_VECTORS}all_minilm_l6_v2"]


async def counts(connection: Connection, tenant_id: uuid.UUID, *, behind: bool = True) -> dict[str, int]:
    """Return how many rows of a tenant each table has that has some, without those that outlive it.

    Without `behind` those are left out that are written behind the calls, or counted anew.
    """
    results: dict[str, int] = {}
    for table in await tables(connection):
        if table in BEHIND | COUNTED and not behind:
            continue
        count = await connection.fetchval(f"SELECT count(*) FROM {table} WHERE tenant_id = $1", tenant_id)  # noqa: S608
        if count and table not in OUTLIVING:
            results[table] = count
    return results


async def embedded(cluster: Cluster, tenant: Tenant, connection: Connection) -> None:
    """Make every vector that is missing and count every word, so that nothing is added any more."""
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("recall") as channel:
        index = recall_pb2_grpc.RecallInternalServiceStub(Stubs.of(channel, token).channel)
        async with asyncio.timeout(60):
            # The cluster's own worker may be at a part of it, which is passed over here.
            while (await index.IndexBacklog(recall_pb2.IndexBacklogRequest())).more or await connection.fetchval(
                "SELECT count(*) FROM recall.documents WHERE tenant_id = $1 AND pending", tenant.tenant_id
            ):
                pass


async def delete(cluster: Cluster, tenant: Tenant, **values: Any) -> members_pb2.Deletion:
    request = tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id), **values)
    return (await cluster.operator.tenancy.DeleteTenant(request)).deletion


async def deletion_of(cluster: Cluster, tenant: Tenant) -> members_pb2.Deletion:
    request = members_pb2.GetDeletionRequest(tenant_id=str(tenant.tenant_id))
    return (await cluster.operator.tenancy.GetDeletion(request)).deletion


async def answer(stubs: Stubs, *, but: grpc.StatusCode) -> grpc.StatusCode:
    """Ask for the policy until the answer is another one than before, and return that."""
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await stubs.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
                code = grpc.StatusCode.OK
            except aio.AioRpcError as error:
                code = error.code()
            if code is not but:
                return code


async def test_a_deleted_tenant_leaves_no_row_in_any_table(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, connection: Connection
) -> None:
    for filled in (tenant, other_tenant):
        await fill(filled, connection)
    for filled in (tenant, other_tenant):
        await embedded(cluster, filled, connection)
    # The cluster's own worker sees these rows, and may remove them, once they are counted.
    async with connection.transaction():
        await add_counts(tenant, connection)
        before = await counts(connection, tenant.tenant_id)
    neighbour = await counts(connection, other_tenant.tenant_id, behind=False)
    # Whatever table is added has to be filled here, and removed by its service.
    assert set(before) == set(await tables(connection)) - OUTLIVING

    await delete(cluster, tenant, grace=AT_ONCE)
    before["tenancy.requests"] = await connection.fetchval(
        "SELECT count(*) FROM tenancy.requests WHERE tenant_id = $1", tenant.tenant_id
    )
    await work(cluster)

    assert await counts(connection, tenant.tenant_id) == {}
    assert await counts(connection, other_tenant.tenant_id, behind=False) == neighbour
    report = await deletion_of(cluster, tenant)
    assert (report.state, report.stage) == (members_pb2.DELETION_STATE_DONE, "")
    assert report.HasField("finish_time")
    reported = dict(report.deleted_counts)
    # Closing a tenant is an event of its own.
    for table in ("auth.audit_events", *BEHIND):
        assert reported.pop(table) >= before.pop(table)
    for table in COUNTED:
        assert reported.pop(table, 0) <= before.pop(table)
    assert reported == before


@pytest.mark.system
async def test_a_deletion_ends_in_a_certificate_that_outlives_the_tenant(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    await fill(tenant, connection)
    earlier = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="someone"))
    await delete(cluster, tenant, grace=AT_ONCE)

    await work(cluster)

    report, auth = await deletion_of(cluster, tenant), cluster.operator.auth
    request = certificates_pb2.ListErasureCertificatesRequest(tenant_id=str(tenant.tenant_id))
    certificates = (await auth.ListErasureCertificates(request)).certificates
    certificate_id = certificates[0].certificate_id
    getting = certificates_pb2.GetErasureCertificateRequest(
        certificate_id=certificate_id, tenant_id=str(tenant.tenant_id)
    )
    file = (await auth.GetErasureCertificate(getting)).certificate.document
    keys_request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await auth.ListSigningKeys(keys_request)).signing_keys
    keys = key_set.read(key_set.write(key.jwk for key in published))
    statement = document.verify(file.encode(), keys).statement
    assert [certificate.certificate_id for certificate in certificates[1:]] == [earlier.certificate_id]
    assert (statement["kind"], statement["complete"]) == ("tenant_deletion", True)
    assert statement["deleted_counts"]["memory.memories"] == report.deleted_counts["memory.memories"]
    assert statement["deleted_counts"]["tenancy.tenants"] == 1
    assert statement["remains"]["log_position"] != "unknown"


@pytest.mark.system
async def test_a_certificate_that_failed_does_not_stop_the_purge_and_is_issued_by_a_later_round(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    await fill(tenant, connection)
    await delete(cluster, tenant, grace=AT_ONCE)
    request = certificates_pb2.ListErasureCertificatesRequest(tenant_id=str(tenant.tenant_id))

    # The cluster's own worker may be at the same tenant, and issues the certificate first then.
    async with aio.insecure_channel("unix:/nowhere/auth.sock") as nowhere:
        await work(cluster, certifying=auth_pb2_grpc.AuthInternalServiceStub(nowhere))
    purged = await deletion_of(cluster, tenant)
    await work(cluster)
    await work(cluster)

    certificates = (await cluster.operator.auth.ListErasureCertificates(request)).certificates
    assert purged.state == members_pb2.DELETION_STATE_DONE
    assert [certificate.complete for certificate in certificates] == [True]
    query = "SELECT is_certified FROM tenancy.deletions WHERE tenant_id = $1"
    assert await connection.fetchval(query, tenant.tenant_id) is True


@pytest.mark.system
@pytest.mark.essential
async def test_a_deletion_that_was_interrupted_goes_on(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    await fill(tenant, connection)
    await embedded(cluster, tenant, connection)
    before = await counts(connection, tenant.tenant_id)
    # Whatever others left is removed, so that this one comes first.
    await work(cluster)
    await delete(cluster, tenant, grace=AT_ONCE)

    # On a machine under load any run may end early, because a service does not answer; the next run goes on.
    async with asyncio.timeout(120):
        while (halfway := await deletion_of(cluster, tenant)).stage != "memory":
            await work(cluster, StopAfterChecks(3))
    remaining = await counts(connection, tenant.tenant_id)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "DELETION_STARTED"):
        await cluster.operator.tenancy.UndeleteTenant(
            members_pb2.UndeleteTenantRequest(tenant_id=str(tenant.tenant_id))
        )
    await crash(cluster)
    async with asyncio.timeout(120):
        while (await deletion_of(cluster, tenant)).state != members_pb2.DELETION_STATE_DONE:
            await asyncio.gather(work(cluster), work(cluster))

    assert halfway.state == members_pb2.DELETION_STATE_PURGING
    assert 0 < sum(remaining.values()) < sum(before.values())
    assert await counts(connection, tenant.tenant_id) == {}
    report = await deletion_of(cluster, tenant)
    assert report.state == members_pb2.DELETION_STATE_DONE
    assert {table: report.deleted_counts[table] for table in ("memory.memories", "session.messages")} == {
        "memory.memories": MEMORIES + 3,
        "session.messages": 10,
    }


@pytest.mark.system
async def test_a_batch_that_waited_for_another_workers_batch_is_not_taken_for_the_end(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    await fill(tenant, connection)
    await delete(cluster, tenant, grace=AT_ONCE)
    # From its first batch on auth knows that the tenant is closed.
    await work(cluster, StopAfterChecks(2))
    async with hosted(cluster) as host:
        purge_memory, system = stages_of(host)["memory"], system_of(host)

        async def purge(limit: int) -> Any:
            async with system.as_system(tenant_id=str(tenant.tenant_id), deleted=True, seconds=60):
                return await purge_memory(limit)

        # Entries are last: everything else is gone now.
        while "memory.memories" not in (await purge(1)).deleted_counts:
            pass
        async with connection.transaction():
            await connection.execute(LOCK_PURGE, tenant.tenant_id)
            await connection.execute(
                "DELETE FROM memory.memories WHERE tenant_id = $1 AND memory_id IN"
                " (SELECT memory_id FROM memory.memories WHERE tenant_id = $1 LIMIT 2)",
                tenant.tenant_id,
            )
            other = asyncio.ensure_future(purge(2))
            async with asyncio.timeout(60):
                while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                    assert not other.done()
        answer = await other

    assert (dict(answer.deleted_counts), answer.more) == ({"memory.memories": 2}, True)


@pytest.mark.system
async def test_former_rows_of_a_write_in_flight_go_with_the_tenant(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    await fill(tenant, connection)
    await embedded(cluster, tenant, connection)
    async with cluster.superuser() as writing:
        writes = writing.transaction()
        await writes.start()
        for table, columns in FORMER.items():
            rows = f"SELECT {table}.*, now(){columns} FROM {table} WHERE tenant_id = $1 LIMIT 1"  # noqa: S608 - constants.
            await writing.execute(f"INSERT INTO {table}_history {rows}", tenant.tenant_id)
        await delete(cluster, tenant, grace=AT_ONCE)
        working = asyncio.ensure_future(work(cluster, batch=1000))
        # The end of the deletion waits for the write.
        async with asyncio.timeout(60):
            while not (working.done() or await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")):
                await asyncio.wait([working], timeout=0.05)
        await writes.commit()
        await working

    assert await counts(connection, tenant.tenant_id) == {}
    assert (await deletion_of(cluster, tenant)).state == members_pb2.DELETION_STATE_DONE


@pytest.mark.system
async def test_the_report_of_a_finished_deletion_takes_what_a_second_worker_removed(
    cluster: Cluster, tenant: Tenant
) -> None:
    await delete(cluster, tenant, grace=AT_ONCE)
    await work(cluster)
    finished = await deletion_of(cluster, tenant)
    request = members_pb2.RecordDeletionRequest(
        tenant_id=str(tenant.tenant_id), stage="memory", deleted_counts={"memory.memories": 2}
    )
    again = members_pb2.RecordDeletionRequest(
        tenant_id=str(tenant.tenant_id), stage="tenancy", deleted_counts={"tenancy.tenants": 1}, finished=True
    )
    async with hosted(cluster) as host:
        tenancy, system = tenancy_of(host), system_of(host)
        async with system.as_system(seconds=60):
            await tenancy.RecordDeletion(request)
            await tenancy.RecordDeletion(again)

    report = await deletion_of(cluster, tenant)

    assert (report.state, report.stage) == (members_pb2.DELETION_STATE_DONE, "")
    assert report.finish_time == finished.finish_time
    assert report.deleted_counts["memory.memories"] == finished.deleted_counts["memory.memories"] + 2
    assert report.deleted_counts["tenancy.tenants"] == 1


@pytest.mark.system
async def test_a_tenant_within_its_grace_is_closed_and_comes_back_whole(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    await fill(tenant, connection)
    await embedded(cluster, tenant, connection)
    before = await counts(connection, tenant.tenant_id, behind=False)
    policy = await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())

    deletion = await delete(cluster, tenant, request_id="d")
    await work(cluster)
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    assert await answer(acting, but=grpc.StatusCode.OK) is grpc.StatusCode.NOT_FOUND
    undelete = members_pb2.UndeleteTenantRequest(tenant_id=str(tenant.tenant_id), request_id="u")
    undone = await cluster.operator.tenancy.UndeleteTenant(undelete)
    again = await cluster.operator.tenancy.UndeleteTenant(undelete)

    assert deletion.state == members_pb2.DELETION_STATE_GRACE
    assert deletion.purge_time.seconds - deletion.create_time.seconds == 7 * 24 * 3600
    assert again == undone
    assert undone.deletion.state == members_pb2.DELETION_STATE_CANCELLED
    actual_counts = await counts(connection, tenant.tenant_id, behind=False)
    assert {**actual_counts, "auth.audit_events": 0} == {**before, "auth.audit_events": 0}
    assert await answer(tenant, but=grpc.StatusCode.NOT_FOUND) is grpc.StatusCode.OK
    assert await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest()) == policy
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await cluster.operator.tenancy.UndeleteTenant(
            members_pb2.UndeleteTenantRequest(tenant_id=str(tenant.tenant_id))
        )


async def test_a_slug_that_another_tenant_took_keeps_the_first_one_closed(cluster: Cluster, tenant: Tenant) -> None:
    read = await cluster.operator.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=str(tenant.tenant_id)))
    await delete(cluster, tenant)
    successor = tenancy_pb2.Tenant(slug=read.tenant.slug, organization_id=read.tenant.organization_id)
    made = await cluster.operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=successor))

    assert made.tenant.slug == read.tenant.slug
    with refused(grpc.StatusCode.ALREADY_EXISTS, "TENANT_EXISTS"):
        await cluster.operator.tenancy.UndeleteTenant(
            members_pb2.UndeleteTenantRequest(tenant_id=str(tenant.tenant_id))
        )


async def test_a_tenant_deletes_itself_but_not_sooner_than_usual(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    theirs = tenancy_pb2.DeleteTenantRequest(tenant_id=str(other_tenant.tenant_id))
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenant.tenancy.DeleteTenant(theirs)
    own = tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant.tenant_id), grace=AT_ONCE)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.tenancy.DeleteTenant(own)

    own.grace.FromSeconds(30 * 24 * 3600)
    deletion = (await tenant.tenancy.DeleteTenant(own)).deletion

    assert deletion.created_by.startswith("api_key:")
    assert (await deletion_of(cluster, tenant)) == deletion


async def test_an_open_tenant_is_not_purged(cluster: Cluster, tenant: Tenant, other_tenant: Tenant) -> None:
    await delete(cluster, other_tenant)
    async with hosted(cluster) as host:
        tenancy, system = tenancy_of(host), system_of(host)
        for purge in stages_of(host).values():
            with refused(grpc.StatusCode.FAILED_PRECONDITION, "TENANT_NOT_DELETED"):
                async with system.as_system(tenant_id=str(tenant.tenant_id), seconds=30):
                    await purge(10)
        for tenant_id in (tenant.tenant_id, other_tenant.tenant_id):
            with refused(grpc.StatusCode.FAILED_PRECONDITION, "TENANT_NOT_DELETED"):
                async with system.as_system(seconds=30):
                    await tenancy.RecordDeletion(
                        members_pb2.RecordDeletionRequest(tenant_id=str(tenant_id), stage="tenancy", finished=True)
                    )


@pytest.mark.system
async def test_an_organization_goes_with_the_last_of_its_tenants(cluster: Cluster, connection: Connection) -> None:
    tenancy = cluster.operator.tenancy
    organization = tenancy_pb2.Organization(display_name=f"Org {uuid.uuid4().hex}")
    made = await tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=organization))
    organization_id = made.organization.organization_id
    for number in range(3):
        draft = tenancy_pb2.Tenant(display_name=f"T {number}", organization_id=organization_id)
        await tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=draft))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "ORGANIZATION_NOT_EMPTY"):
        await tenancy.DeleteOrganization(tenancy_pb2.DeleteOrganizationRequest(organization_id=organization_id))
    request = tenancy_pb2.DeleteOrganizationRequest(
        organization_id=organization_id, tenants=True, grace=AT_ONCE, request_id=uuid.uuid4().hex
    )

    deleted = await tenancy.DeleteOrganization(request)
    again = await tenancy.DeleteOrganization(request)
    row = "SELECT count(*) FROM tenancy.organizations WHERE organization_id = $1"
    kept = await connection.fetchval(row, uuid.UUID(organization_id))
    await work(cluster)

    assert again == deleted
    assert len(deleted.deletions) == 3
    assert kept == 1
    assert await connection.fetchval(row, uuid.UUID(organization_id)) == 0
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenancy.GetOrganization(tenancy_pb2.GetOrganizationRequest(organization_id=organization_id))


async def test_an_organization_of_many_tenants_is_closed_whole(cluster: Cluster, connection: Connection) -> None:
    tenancy = cluster.operator.tenancy
    organization = tenancy_pb2.Organization(display_name=f"Org {uuid.uuid4().hex}")
    made = await tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=organization))
    organization_id = made.organization.organization_id
    await connection.execute(
        "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)"
        " SELECT gen_random_uuid(), $1, 'T', 't' || n, now(), now() FROM generate_series(1, 250) AS n",
        uuid.UUID(organization_id),
    )

    deleted = await tenancy.DeleteOrganization(
        tenancy_pb2.DeleteOrganizationRequest(organization_id=organization_id, tenants=True, request_id="many")
    )
    tenant_id = deleted.deletions[0].tenant_id
    await tenancy.UndeleteTenant(members_pb2.UndeleteTenantRequest(tenant_id=tenant_id))

    assert len({deletion.tenant_id for deletion in deleted.deletions}) == 250
    read = await tenancy.GetOrganization(tenancy_pb2.GetOrganizationRequest(organization_id=organization_id))
    assert read.organization == made.organization or read.organization.revision == made.organization.revision + 2


async def test_deletions_are_listed_newest_first(cluster: Cluster, tenant: Tenant, other_tenant: Tenant) -> None:
    for deleted in (tenant, other_tenant):
        await delete(cluster, deleted)

    first = await cluster.operator.tenancy.ListDeletions(members_pb2.ListDeletionsRequest(page_size=1))
    second = await cluster.operator.tenancy.ListDeletions(
        members_pb2.ListDeletionsRequest(page_size=1, page_token=first.next_page_token)
    )

    assert [page.deletions[0].tenant_id for page in (first, second)] == [
        str(other_tenant.tenant_id),
        str(tenant.tenant_id),
    ]
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await cluster.operator.tenancy.GetDeletion(members_pb2.GetDeletionRequest(tenant_id=str(uuid.uuid4())))
