"""The worker's rounds in a tenant with spaces: each visits every space, and writes there."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant
from fix_extraction import settings_of
from fix_lineage import rate, rescore
from fix_spaces import SPACE_KEY, first_spaces, new_key
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2_grpc
from skein_cluster import registry
from skein_kit.identity.permissions import TENANT_PERMISSIONS
from skein_kit.settings import ProcessSettings
from skein_worker.rounds import catalog
from skein_worker.rounds.tenant_rounds import TenantRounds
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity


@asynccontextmanager
async def rounds_in(cluster: Cluster, tenant: Tenant) -> AsyncIterator[TenantRounds]:
    """Return the rounds of a worker that finds work in one tenant."""
    values = settings_of(cluster)
    host = registry.host_of(ProcessSettings.read(values), values)
    host.addresses.update(cluster.addresses)

    def channel(service: str) -> Any:
        return host.channel(service, caller="worker")

    async def list_due(_request: Any) -> memory_pb2.ListDueTenantsResponse:
        return memory_pb2.ListDueTenantsResponse(tenant_ids=[str(tenant.tenant_id)])

    auth = auth_pb2_grpc.AuthInternalServiceStub(channel("auth"))
    system = SystemIdentity(auth, key=SYSTEM_KEY)
    rounds = catalog.build_rounds(
        auth=auth,
        tenancy=tenancy_pb2_grpc.TenancyInternalServiceStub(channel("tenancy")),
        session=session_pb2_grpc.SessionInternalServiceStub(channel("session")),
        memory=memory_pb2_grpc.MemoryInternalServiceStub(channel("memory")),
        settings=WorkerSettings(),
    )
    in_tenant = [
        replace(one, first_call=None, stages=[replace(stage, list_due=list_due) for stage in one.stages])
        for one in rounds
        if one.name in {"expiry", "decay", "lifecycle"}
    ]
    yield TenantRounds(TenantVisitor(system, at_once=1), system, in_tenant)


async def run(cluster: Cluster, tenant: Tenant, *names: str) -> None:
    async with rounds_in(cluster, tenant) as rounds:
        for name in names:
            await rounds.handlers()[name](b"", asyncio.Event())


async def practice_of(cluster: Cluster, tenant: Tenant) -> tuple[Stubs, str]:
    """Return stubs that write in a space, and its id."""
    [space_id] = await first_spaces(cluster, tenant, "doctor")
    _, secret = await new_key(cluster, tenant, [space_id])
    return cluster.with_key(secret, **{SPACE_KEY: space_id}), space_id


async def spaces_of(cluster: Cluster, tenant: Tenant, table: str, condition: str = "true") -> set[str]:
    async with cluster.superuser() as connection:
        rows = await connection.fetch(
            f"SELECT DISTINCT space_id FROM {table} WHERE tenant_id = $1 AND {condition}",  # noqa: S608 - of this file.
            tenant.tenant_id,
        )
    return {str(row["space_id"]) for row in rows}


async def age(cluster: Cluster, tenant: Tenant, assignments: str, table: str = "memory.memories") -> None:
    async with cluster.superuser() as connection:
        await connection.execute(
            f"UPDATE {table} SET {assignments} WHERE tenant_id = $1",  # noqa: S608 - of this file.
            tenant.tenant_id,
        )


@pytest.mark.system
async def test_memories_of_a_space_expire_and_their_events_lie_in_the_space(cluster: Cluster, tenant: Tenant) -> None:
    practice, space_id = await practice_of(cluster, tenant)
    await practice.remember("The knee hurts")
    await tenant.remember("The soup is hot")
    await age(cluster, tenant, "expire_time = now() - interval '400 days'")

    await run(cluster, tenant, "expiry")

    assert await spaces_of(cluster, tenant, "memory.memories") == set()
    both = {space_id, str(uuid.UUID(int=0))}
    assert await spaces_of(cluster, tenant, "memory.changes", "event_type <> 'memory_created'") == both


async def test_scores_of_a_space_decay(cluster: Cluster, tenant: Tenant) -> None:
    practice, _ = await practice_of(cluster, tenant)
    memory = await practice.create_memory("The knee hurts", importance=0.9)
    await age(
        cluster, tenant, "update_time = update_time - interval '90 days', decay_time = decay_time - interval '90 days'"
    )

    await run(cluster, tenant, "decay")

    assert (await practice.get_memory(memory.memory_id)).importance < memory.importance


@pytest.mark.system
async def test_sessions_of_a_space_idle_and_inherit_and_their_items_expire(cluster: Cluster, tenant: Tenant) -> None:
    # Before the session service reads the policy, which it keeps for a second.
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(session_idle_minutes=60),
            update_mask=FieldMask(paths=["session_idle_minutes"]),
        )
    )
    practice, space_id = await practice_of(cluster, tenant)
    (message,) = await practice.append("visit", "the knee hurts")
    await practice.create_session("other")
    item = states_pb2.PutSessionItemRequest(session_id="visit", key="k")
    item.value.string_value = "x"
    await practice.sessions.PutSessionItem(item)
    async with cluster.superuser() as connection:
        # A session that got its subject later, of which one message does not know.
        await connection.execute(
            "UPDATE session.sessions SET subject_id = 'mira', inherited_sequence = 0 "
            "WHERE tenant_id = $1 AND session_id = 'visit'",
            tenant.tenant_id,
        )
    await age(cluster, tenant, "expire_time = now() - interval '1 minute'", "session.items")
    await age(cluster, tenant, "active_time = now() - interval '2 hours'", "session.sessions")

    await run(cluster, tenant, "lifecycle", "expiry")

    ended = await practice.get_session("other")
    assert ended.state == session_pb2.SESSION_STATE_ENDED
    assert await spaces_of(cluster, tenant, "session.items") == set()
    inherited = await practice.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=message.message_id))
    assert inherited.message.subject_id == "mira"
    assert await spaces_of(cluster, tenant, "session.messages_history") == {space_id}


@pytest.mark.system
async def test_a_rating_reaches_the_memories_of_every_space(cluster: Cluster, tenant: Tenant) -> None:
    practice, _ = await practice_of(cluster, tenant)
    memory = await practice.create_memory("Anna drinks gin", source="parrot")
    await rate(tenant, "parrot", 0.2)

    await rescore(cluster, tenant)

    (hit,) = (await practice.search("What does Anna drink?", min_relevance=0)).hits
    assert (hit.item_id, round(hit.trust, 3)) == (memory.memory_id, 0.2)


@pytest.mark.system
async def test_messages_of_a_space_are_found_by_meaning(cluster: Cluster, tenant: Tenant) -> None:
    practice, _ = await practice_of(cluster, tenant)
    (message,) = await practice.append("visit", "The cat sleeps on the warm windowsill")

    async with asyncio.timeout(30):
        # A likeness that words alone cannot give.
        while not (hits := (await practice.search("a pet naps in the sun", min_similarity=0.3)).hits):
            await asyncio.sleep(0.05)

    assert [hit.item_id for hit in hits] == [message.message_id]


@pytest.mark.system
async def test_idle_memories_and_hidden_sessions_of_a_space_go_to_cold_storage_there(
    cluster: Cluster, tenant: Tenant
) -> None:
    # Before the services read the policy, which they keep for a second.
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(archive_days=1), update_mask=FieldMask(paths=["archive_days"])
        )
    )
    [space_id] = await first_spaces(cluster, tenant, "doctor")
    _, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS)
    practice = cluster.with_key(secret, **{SPACE_KEY: space_id})
    old = memory_pb2.Memory(content="The knee hurt long ago")
    old.create_time.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    await practice.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=old))
    await practice.append("visit", "the knee hurts")
    await practice.sessions.HideSession(session_pb2.HideSessionRequest(session_id="visit"))
    await age(cluster, tenant, "hide_time = now() - interval '9 days'", "session.sessions")
    await age(cluster, tenant, "update_time = now() - interval '9 days', record_time = now() - interval '9 days'")

    await run(cluster, tenant, "lifecycle")

    assert await spaces_of(cluster, tenant, "memory.archives") == {space_id}
    assert await spaces_of(cluster, tenant, "session.archived_sessions") == {space_id}
