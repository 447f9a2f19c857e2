"""Which tenants the worker visits: those with work of a kind, and none that rests."""

from __future__ import annotations

import uuid
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_world import service_identity, system_identity

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import limits_pb2, members_pb2, tenancy_pb2, tenancy_pb2_grpc

# Each list: the service, its stub, and the request.
BACKLOG = ("recall", recall_pb2_grpc.RecallInternalServiceStub, recall_pb2.ListDueTenantsRequest())
AUTH_EXPIRY = ("auth", auth_pb2_grpc.AuthInternalServiceStub, auth_pb2.ListDueTenantsRequest())
AUDIT_CHAIN = (
    "auth",
    auth_pb2_grpc.AuthInternalServiceStub,
    auth_pb2.ListDueTenantsRequest(work=auth_pb2.DUE_WORK_AUDIT_CHAIN),
)
TENANCY_EXPIRY, USAGE = (
    ("tenancy", tenancy_pb2_grpc.TenancyInternalServiceStub, members_pb2.ListDueTenantsRequest(work=work))
    for work in (members_pb2.DUE_WORK_EXPIRY, members_pb2.DUE_WORK_USAGE)
)
SESSION_EXPIRY, SESSION_LIFECYCLE, EXTRACTION = (
    ("session", session_pb2_grpc.SessionInternalServiceStub, session_pb2.ListDueTenantsRequest(work=work))
    for work in (session_pb2.DUE_WORK_EXPIRY, session_pb2.DUE_WORK_LIFECYCLE, session_pb2.DUE_WORK_EXTRACTION)
)
WEBHOOKS, SNAPSHOTS, MEMORY_EXPIRY, MEMORY_LIFECYCLE, DECAY = (
    ("memory", memory_pb2_grpc.MemoryInternalServiceStub, memory_pb2.ListDueTenantsRequest(work=work))
    for work in (
        memory_pb2.DUE_WORK_WEBHOOKS,
        memory_pb2.DUE_WORK_SNAPSHOTS,
        memory_pb2.DUE_WORK_EXPIRY,
        memory_pb2.DUE_WORK_LIFECYCLE,
        memory_pb2.DUE_WORK_DECAY,
    )
)
LISTS = (
    BACKLOG, AUTH_EXPIRY, AUDIT_CHAIN, TENANCY_EXPIRY, USAGE, SESSION_EXPIRY, SESSION_LIFECYCLE, EXTRACTION, WEBHOOKS,
    SNAPSHOTS, MEMORY_EXPIRY, MEMORY_LIFECYCLE, DECAY,
)  # fmt: skip
ANSWER = "INSERT INTO {}.requests VALUES ($1, 'p', 'm', 'r', '', '', now() - interval '25 hours')"
POLICY = "INSERT INTO tenancy.policies (tenant_id, update_time, {}) VALUES ($1, now(), {});"
OLD_MEMORY = "UPDATE memory.memories SET {} WHERE tenant_id = $1"
PURGED_AGENT = """
    INSERT INTO tenancy.agents (tenant_id, agent_id, display_name, create_time, update_time, created_by, updated_by,
                                delete_time, purge_time)
    VALUES ($1, 'gone', '', now(), now(), 'p', 'p', now(), now());
"""
WEBHOOK = """
    INSERT INTO memory.webhooks (tenant_id, webhook_id, display_name, event_types, webhook_url, master_key, nonce,
                                 ciphertext, transaction, change_id, create_time, update_time, created_by, updated_by)
    VALUES ($1, $1, '', '{{*}}', 'https://example.com', '{}', '', '', {}, $1, now(), now(), 'p', 'p');
"""
FORMER_RATING = """
    INSERT INTO memory.source_trust_history (tenant_id, source_key, trust, revision, create_time, update_time,
                                             created_by, updated_by, record_time, until_time)
    VALUES ($1, 's', 0.5, 1, now(), now(), 'p', 'p', now(), now() - interval '{}')
"""
FORMER_REVISION = """
    INSERT INTO memory.revisions (tenant_id, kind, item_id, revision, state, from_time, until_time, changed_by)
    VALUES ($1, 'block', 'b', 1, '{{}}', now(), now() - interval '{}', 'p')
"""
FORMER_POLICY = """
    INSERT INTO tenancy.policies_history (tenant_id, revision, update_time, record_time, until_time)
    VALUES ($1, 1, now(), now(), now() - interval '{}')
"""
FORMER_PROFILE = """
    INSERT INTO tenancy.subjects_history (tenant_id, subject_id, display_name, status, timezone, revision, create_time,
                                          update_time, created_by, updated_by, writers, former_names, record_time,
                                          until_time)
    VALUES ($1, 's', '', 'active', 'UTC', 1, now(), now(), 'p', 'p', '{{}}', '{{}}', now(), now() - interval '{}')
"""
OF_A_GRANT = "UPDATE memory.webhooks SET grant_ids = ARRAY[$1::uuid] WHERE tenant_id = $1"
DELIVERY = """
    INSERT INTO memory.deliveries (tenant_id, delivery_id, webhook_id, change_id, state, next_time, create_time)
    VALUES ($1, $1, $1, $1, 'pending', now(), now())
"""
BLOCK = """
    INSERT INTO memory.block_agents (tenant_id, agent_id, block_id, label, attach_time, attached_by)
    VALUES ($1, 'gone', 'b', 'l', now(), 'p')
"""
SIGN_IN = """
    INSERT INTO auth.auth_sessions (tenant_id, auth_session_id, account_id, client_id, scopes, resources, auth_time,
                                    create_time, use_time, expire_time, revoke_time)
    VALUES ($1, $1, $1, 'c', '{{}}', '{{}}', now(), now(), now(), now() + interval '{}', now() - interval '{}')
"""
SESSION = "UPDATE session.sessions SET {} WHERE tenant_id = $1"
# What makes a resting tenant due, by the list in which it is then. A statement's tenant is $1.
WORK: dict[str, tuple[Any, str]] = {
    "a document without vectors": (BACKLOG, "UPDATE recall.documents SET pending = true WHERE tenant_id = $1"),
    "an uncounted document": (BACKLOG, "UPDATE recall.documents SET is_counted = false WHERE tenant_id = $1"),
    "a removed document": (BACKLOG, "INSERT INTO recall.removals VALUES ($1, $1, 'memory', 1, 1)"),
    "many removed documents": (BACKLOG, "UPDATE recall.corpora SET removed = 1001 WHERE tenant_id = $1"),
    "an answer of auth": (AUTH_EXPIRY, ANSWER.format("auth")),
    "an expired sign-in": (AUTH_EXPIRY, SIGN_IN.format("0", "1 day")),
    "a sign-in revoked long ago": (AUTH_EXPIRY, SIGN_IN.format("1 day", "31 days")),
    "an unsigned audit event": (
        AUDIT_CHAIN,
        (
            # As long as the worker has not closed the day.
            "WITH opened AS (DELETE FROM auth.audit_checkpoints WHERE tenant_id::text LIKE '00000000-%')"
            " INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, create_time)"
            " VALUES ($1, skein.first_id(now() - interval '2 days'), 'e', 'success', now())"
        ),
    ),
    "an old audit event": (
        AUTH_EXPIRY,
        (
            "INSERT INTO auth.audit_checkpoints (tenant_id, number, day, covered_id, statement, key_id, signature,"
            " event_digests, create_time)"
            " VALUES ($1, 1, now() - interval '401 days', $1, '', '', decode(repeat('00', 64), 'hex'), '', now())"
        ),
    ),
    "a revoked key": (AUTH_EXPIRY, "UPDATE auth.api_keys SET revoke_time = now() WHERE tenant_id = $1"),
    "an expired key": (AUTH_EXPIRY, "UPDATE auth.api_keys SET expire_time = now() WHERE tenant_id = $1"),
    "a key of a grant": (AUTH_EXPIRY, "UPDATE auth.api_keys SET grant_ids = ARRAY[$1::uuid] WHERE tenant_id = $1"),
    "an agent's keys": (AUTH_EXPIRY, PURGED_AGENT),
    "an answer of tenancy": (TENANCY_EXPIRY, ANSWER.format("tenancy")),
    "an expired invitation": (
        TENANCY_EXPIRY,
        (
            "INSERT INTO tenancy.invitations (tenant_id, invitation_id, email, role, secret_hash, create_time,"
            " expire_time, created_by) VALUES ($1, $1, 'a@b', 'member', sha256(''), now(), now(), 'p')"
        ),
    ),
    "an idle rate limit": (
        TENANCY_EXPIRY,
        (
            "INSERT INTO tenancy.rate_limit_buckets"
            " VALUES ($1, 'idle', 1, 1, now() - interval '3 days', now(), 0, now(), 0)"
        ),
    ),
    "a purged agent": (TENANCY_EXPIRY, PURGED_AGENT),
    "usage that changed": (USAGE, "UPDATE memory.usage SET is_collected = false WHERE tenant_id = $1"),
    "an answer of session": (SESSION_EXPIRY, ANSWER.format("session")),
    "an expired state": (
        SESSION_EXPIRY,
        "INSERT INTO session.agent_states VALUES ($1, 'a', '', '{}', 1, now(), now(), now(), 'p', 'p')",
    ),
    "an expired item": (
        SESSION_EXPIRY,
        "INSERT INTO session.items VALUES ($1, 's', 'k', '1', now(), now(), now(), 'p')",
    ),
    "an idle session": (
        SESSION_EXPIRY,
        POLICY.format("session_idle_minutes", 10) + SESSION.format("active_time = now() - interval '11 minutes'"),
    ),
    "a session whose messages inherit": (SESSION_LIFECYCLE, SESSION.format("agent_id = 'a', inherited_sequence = 0")),
    "a hidden session": (
        SESSION_LIFECYCLE,
        POLICY.format("archive_days", 1)
        + SESSION.format("state = 'hidden', hidden_state = 'active', hide_time = now() - interval '2 days'"),
    ),
    "a file without a session": (
        SESSION_LIFECYCLE,
        "INSERT INTO session.unreferenced_files VALUES ($1, $1, '', NULL, now())",
    ),
    "messages to read": (EXTRACTION, "INSERT INTO session.extractions VALUES ($1, 's', 1, now())"),
    "an event for a webhook": (WEBHOOKS, WEBHOOK.format("m", 0)),
    "a delivery to attempt": (WEBHOOKS, WEBHOOK.format("m", 2**62) + DELIVERY),
    "a webhook of a grant": (WEBHOOKS, WEBHOOK.format("m", 2**62) + OF_A_GRANT),
    "a snapshot that is created": (
        SNAPSHOTS,
        (
            "INSERT INTO memory.snapshots (tenant_id, snapshot_id, label, state, as_of_time, horizon, counts, policy,"
            " create_time, created_by) VALUES ($1, $1, '', 'creating', now(), 0, '{}', '{}', now(), 'p')"
        ),
    ),
    "an answer of memory": (MEMORY_EXPIRY, ANSWER.format("memory")),
    "an expired memory": (MEMORY_EXPIRY, OLD_MEMORY.format("expire_time = now() - interval '25 hours'")),
    "an expired memory after the policy's grace": (
        MEMORY_EXPIRY,
        POLICY.format("expiry_grace_hours", 1) + OLD_MEMORY.format("expire_time = now() - interval '2 hours'"),
    ),
    "the document of an expired memory": (
        MEMORY_EXPIRY,
        "UPDATE recall.documents SET expire_time = now() WHERE tenant_id = $1 AND kind = 'memory'",
    ),
    "capped levels": (MEMORY_EXPIRY, POLICY.format("enforce_level_capacities", "true")),
    "a webhook's key under another master key": (MEMORY_EXPIRY, WEBHOOK.format("former", 2**62)),
    "two keys": (
        MEMORY_EXPIRY,
        "INSERT INTO memory.tenant_keys SELECT $1, gen_random_uuid(), 'm', '', '', now() FROM generate_series(1, 2)",
    ),
    "an old delivery": (
        MEMORY_EXPIRY,
        (
            "INSERT INTO memory.deliveries (tenant_id, delivery_id, webhook_id, change_id, state, next_time,"
            " create_time, finish_time) VALUES ($1, $1, $1, $1, 'failed', now(), now(), now() - interval '8 days')"
        ),
    ),
    "a block of a purged agent": (MEMORY_EXPIRY, PURGED_AGENT + BLOCK),
    "an erasure": (MEMORY_EXPIRY, "INSERT INTO memory.erasures VALUES ($1, $1, sha256(''), sha256(''), now())"),
    "memories beyond the retention": (
        MEMORY_LIFECYCLE,
        POLICY.format("retention_days", 1)
        + OLD_MEMORY.format("memory_id = skein.first_id(now() - interval '2 days'), update_time = '2000-01-01'"),
    ),
    "a former rating beyond the retention": (
        MEMORY_LIFECYCLE,
        POLICY.format("retention_days", 1) + FORMER_RATING.format("2 days"),
    ),
    "a former block beyond the usual retention": (MEMORY_LIFECYCLE, FORMER_REVISION.format("3651 days")),
    "a former policy beyond the retention": (
        TENANCY_EXPIRY,
        POLICY.format("retention_days", 1) + FORMER_POLICY.format("2 days"),
    ),
    "a former profile beyond the usual retention": (TENANCY_EXPIRY, FORMER_PROFILE.format("3651 days")),
    "a memory with data of an older release": (
        MEMORY_LIFECYCLE,
        OLD_MEMORY.format("data = '{}', text_revision = NULL"),
    ),
    "a tenant that archives": (MEMORY_LIFECYCLE, POLICY.format("archive_days", 1)),
    "a memory that is not used": (DECAY, OLD_MEMORY.format("decay_time = now() - interval '31 days'")),
    "a memory that is not used, by the policy": (
        DECAY,
        POLICY.format("decay_days", 2) + OLD_MEMORY.format("decay_time = now() - interval '3 days'"),
    ),
}


@pytest.fixture(scope="module")
async def identity(cluster: Cluster) -> str:
    """Return an identity of the worker in no tenant."""
    return await system_identity(cluster)


async def is_due(cluster: Cluster, identity: str, tenant: Tenant, due: Any) -> bool:
    """Return whether a service lists the tenant; only the page that would name it is read."""
    service, stub, request = due
    async with cluster.direct(service) as channel:
        listed = stub(Stubs.of(channel, identity).channel).ListDueTenants
        page, wanted = await listed(request), str(tenant.tenant_id)
        while page.next_page_token and wanted not in page.tenant_ids:
            following = type(request)()
            following.CopyFrom(request)
            following.page_token = page.next_page_token
            page = await listed(following)
        return wanted in page.tenant_ids


async def rests(connection: asyncpg.Connection[asyncpg.Record], tenant: Tenant) -> None:
    """Store what a tenant has, and make it as it is when the worker has done all."""
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="prefers tea")))
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id="talk",
            messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="hello")],
            create_session=True,
        )
    )
    await connection.execute(
        "UPDATE recall.documents SET pending = false, is_counted = true WHERE tenant_id = $1", tenant.tenant_id
    )
    await connection.execute("INSERT INTO recall.corpora VALUES ($1, 'memory', 1, 2)", tenant.tenant_id)
    for schema in ("auth", "memory", "session", "tenancy"):
        # A counter that is the same in all services would be collected by the worker's own round as well.
        await connection.execute(
            f"UPDATE {schema}.usage SET is_collected = true WHERE tenant_id = $1",  # noqa: S608 - the names above.
            tenant.tenant_id,
        )
    await connection.execute(
        "INSERT INTO tenancy.collected_usage VALUES ($1, 'tenants', 1, now()) ON CONFLICT DO NOTHING", tenant.tenant_id
    )


@pytest.mark.system
async def test_a_tenant_that_rests_is_in_no_list(cluster: Cluster, identity: str, tenant: Tenant) -> None:
    async with cluster.superuser() as connection:
        await rests(connection, tenant)

    due = [due for due in LISTS if await is_due(cluster, identity, tenant, due)]

    assert due == []


@pytest.mark.system
async def test_each_kind_of_work_makes_a_tenant_due(cluster: Cluster, identity: str) -> None:
    missed = []
    async with cluster.superuser() as connection:
        for name, (due, statements) in WORK.items():
            tenant = await cluster.new_tenant()
            await rests(connection, tenant)
            async with connection.transaction():
                # Parents of the rows are of no use here.
                await connection.execute("SET LOCAL session_replication_role = replica")
                for statement in filter(str.strip, statements.split(";")):
                    await connection.execute(statement, tenant.tenant_id)
            if not await is_due(cluster, identity, tenant, due):
                missed.append(name)

    assert missed == []


@pytest.mark.system
async def test_a_page_ends_where_the_next_begins(cluster: Cluster, identity: str) -> None:
    tenants = [await cluster.new_tenant() for _ in range(3)]
    async with cluster.superuser() as connection:
        for tenant in tenants:
            await connection.execute(WORK["a removed document"][1], tenant.tenant_id)
    request = recall_pb2.ListDueTenantsRequest(page_size=1)
    found: list[str] = []

    async with cluster.direct("recall") as channel:
        listed = recall_pb2_grpc.RecallInternalServiceStub(Stubs.of(channel, identity).channel).ListDueTenants
        while True:
            page = await listed(request)
            found += page.tenant_ids
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break

    async with cluster.superuser() as connection:
        # The worker's scan may have done one's work meanwhile.
        query = "SELECT tenant_id::text FROM recall.removals WHERE tenant_id = ANY ($1)"
        still = await connection.fetch(query, [tenant.tenant_id for tenant in tenants])
    assert found == sorted(set(found))
    assert {row["tenant_id"] for row in still} <= set(found)


@pytest.mark.system
async def test_a_change_in_an_organization_with_limits_makes_its_other_tenants_due(
    cluster: Cluster, identity: str
) -> None:
    created = await cluster.operator.tenancy.CreateOrganization(
        tenancy_pb2.CreateOrganizationRequest(
            organization=tenancy_pb2.Organization(display_name="o", slug=f"o-{uuid.uuid4().hex}")
        )
    )
    organization_id = created.organization.organization_id
    await cluster.operator.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(
            organization_id=organization_id,
            quota=limits_pb2.Quota(memories=10),
            update_mask={"paths": ["memories"]},
        )
    )
    changed, other = await cluster.new_tenant(), await cluster.new_tenant()
    async with cluster.superuser() as connection:
        for tenant in (changed, other):
            await rests(connection, tenant)
            await connection.execute(
                "UPDATE tenancy.tenants SET organization_id = $2, update_time = now() - interval '1 hour'"
                " WHERE tenant_id = $1",
                tenant.tenant_id,
                uuid.UUID(organization_id),
            )
        before = await is_due(cluster, identity, other, USAGE)
        await connection.execute(
            "UPDATE tenancy.collected_usage SET change_time = now() + interval '1 second' WHERE tenant_id = $1",
            changed.tenant_id,
        )

    assert not before
    assert await is_due(cluster, identity, other, USAGE)


async def test_only_the_worker_lists_them(cluster: Cluster) -> None:
    identity = await service_identity(cluster, "recall", None)
    async with cluster.direct("memory") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(Stubs.of(channel, identity).channel)

        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await stub.ListDueTenants(WEBHOOKS[2])


async def test_no_service_reads_the_rows_of_other_tenants_as_an_operator(cluster: Cluster, tenant: Tenant) -> None:
    async with cluster.superuser() as connection:
        await rests(connection, tenant)
        seen = {}
        for role, table in (
            ("skein_memory", "memory.memories"),
            ("skein_session", "session.sessions"),
            ("skein_recall", "recall.documents"),
            ("skein_auth", "auth.api_keys"),
        ):
            async with connection.transaction():
                await connection.execute(f"SET LOCAL ROLE {role}")
                await connection.execute("SET LOCAL skein.operator = 'on'")
                seen[table] = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608

    assert seen == dict.fromkeys(seen, 0)
