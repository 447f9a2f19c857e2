"""Reindexes in the database, over more tenants than one statement looks at: who is due, the progress, the rate."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from fix_database import TestDatabase
from fix_models import Deployment

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database.transactions import Database
from skein_kit.ids import now
from skein_recall.reindexes import store as reindex_store
from skein_recall.reindexes.store import ReindexStore

TENANTS = [uuid.UUID(int=number) for number in range(1, 8)]
START = uuid.UUID(int=0)
FILL_TENANT = """
INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)
VALUES ($1, $2, 't', $3, now(), now())
"""
FILL_REINDEX = """
INSERT INTO recall.reindexes
    (reindex_id, model, only_tenant_id, texts_per_second, settle_time, is_complete, next_time, create_time, created_by)
SELECT $1, model, $2, 10, now() - interval '1 hour', false, now(), now(), 'test' FROM recall.embedding_models LIMIT 1
"""
FILL_PROGRESS = """
INSERT INTO recall.reindex_progress VALUES ($1, $2, now() - $3::interval, $1, 4, 3, 0, 1, true, false, 2)
"""


async def test_due_tenants_are_found_over_several_statements(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex_store, "_TENANTS_BATCH_SIZE", 2)
    reindex_id, organization_id, recently, long_ago = uuid.uuid4(), uuid.uuid4(), timedelta(), timedelta(hours=2)
    async with database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.organizations VALUES ($1, 'o', 'o', NULL, true, 1, now(), now())", organization_id
        )
        for tenant_id in TENANTS:
            await connection.execute(FILL_TENANT, tenant_id, organization_id, str(tenant_id))
        await connection.execute("UPDATE tenancy.tenants SET is_active = false WHERE tenant_id = $1", TENANTS[1])
    async with Database.open(database.url, service="recall", size=2, timeout=30.0) as opened:
        store = ReindexStore(opened)
        assert await store.list_due_tenants(START, 10) == []
        async with database.superuser() as connection:
            await connection.execute(FILL_REINDEX, reindex_id, None)
            # Done, and scanned before every process followed the model.
            await connection.execute(FILL_PROGRESS, TENANTS[2], reindex_id, recently)
            await connection.execute(FILL_PROGRESS, TENANTS[3], reindex_id, long_ago)

        due = await store.list_due_tenants(START, 10)
        first = await store.list_due_tenants(START, 3)
        rest = await store.list_due_tenants(first[-1], 10)
        reindex = await store.get_reindex(reindex_id)
        at = now() + timedelta(minutes=1)
        times = [await store.reserve_texts(reindex_id, 5, at) for _ in range(3)]
        unknown = await store.reserve_texts(uuid.uuid4(), 5, at)

    assert due == [TENANTS[0], *TENANTS[3:]]
    assert [*first, *rest] == due
    assert (reindex.tenants, reindex.done_tenants) == (6, 1)
    assert (reindex.documents, reindex.seen, reindex.embedded, reindex.missing) == (8, 6, 4, 2)
    # Ten texts a second.
    assert times == [at + timedelta(seconds=0.5) * number for number in range(3)]
    assert unknown == at


async def test_a_reindex_of_one_tenant_is_due_there_alone(database: TestDatabase) -> None:
    reindex_id, organization_id = uuid.uuid4(), uuid.uuid4()
    async with database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.organizations VALUES ($1, 'o', 'o', NULL, true, 1, now(), now())", organization_id
        )
        for tenant_id in TENANTS:
            await connection.execute(FILL_TENANT, tenant_id, organization_id, str(tenant_id))
        await connection.execute(FILL_REINDEX, reindex_id, TENANTS[4])
    async with Database.open(database.url, service="recall", size=2, timeout=30.0) as opened:
        store = ReindexStore(opened)
        due = await store.list_due_tenants(START, 10)
        reindex = await store.get_reindex(reindex_id)

    assert due == [TENANTS[4]]
    assert (reindex.tenants, reindex.done_tenants, reindex.documents) == (1, 0, 0)


@pytest.mark.system
async def test_the_purge_of_a_tenant_removes_its_reindexes_and_no_others(deployment: Deployment) -> None:
    await deployment.register()
    own = await deployment.start(tenant_id=str(deployment.tenant.tenant_id))
    await deployment.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=own.reindex_id))
    common = await deployment.start()

    stub = deployment.service.index(deployment.tenant.tenant_id, is_deleted=True)
    purged = await stub.PurgeTenant(pb.PurgeTenantRequest())

    left = await deployment.operator.ListReindexes(pb.ListReindexesRequest())
    assert purged.deleted_counts["recall.reindexes"] == 1
    assert [reindex.reindex_id for reindex in left.reindexes] == [common.reindex_id]
