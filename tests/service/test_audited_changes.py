"""Changes of policies, people, agents and tools leave audit events that say who made them."""

from __future__ import annotations

import uuid

import grpc
from fix_cluster import Cluster, Tenant, refused

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.auth.v1.accounts_pb2 import AuditEvent
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2


async def events_of(tenant: Tenant, *names: str) -> list[AuditEvent]:
    answer = await tenant.auth.ListAuditEvents(accounts_pb2.ListAuditEventsRequest(page_size=500))
    return [event for event in answer.audit_events if event.event in names]


async def test_a_change_of_an_agent_names_the_agent_and_who_changed_it(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="admin", permissions=["tenant.read", "tenant.write"])
    )
    admin, agent = cluster.with_key(key.secret), tenancy_pb2.Agent(agent_id="cook")

    await admin.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))
    await tenant.tenancy.DeleteAgent(tenancy_pb2.DeleteAgentRequest(agent_id="cook"))

    deleted, created = await events_of(tenant, "agent_created", "agent_deleted")
    assert (created.event, created.target, created.address) == ("agent_created", "agent:cook", "127.0.0.1")
    assert created.principal == f"api_key:{key.api_key.api_key_id}"
    assert (deleted.event, deleted.target) == ("agent_deleted", "agent:cook")
    assert deleted.principal != created.principal


async def test_an_agent_s_own_id_is_in_its_event_where_the_service_made_it(tenant: Tenant) -> None:
    agent = tenancy_pb2.Agent(display_name="Cook")
    made = (await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))).agent

    (event,) = await events_of(tenant, "agent_created")

    assert event.target == f"agent:{made.agent_id}"


async def test_a_change_that_fails_leaves_no_event(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.DeleteAgent(tenancy_pb2.DeleteAgentRequest(agent_id="nobody"))

    assert not await events_of(tenant, "agent_deleted")


async def test_a_purged_person_is_named_by_no_event(tenant: Tenant) -> None:
    subject_id = f"anna-{uuid.uuid4()}".ljust(255, "x")
    subject = subjects_pb2.Subject(subject_id=subject_id, display_name="Anna")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    (before,) = await events_of(tenant, "subject_created")

    await tenant.tenancy.PurgeSubject(subjects_pb2.PurgeSubjectRequest(subject_id=subject_id))

    events = await events_of(tenant, "subject_created", "subject_purged")
    assert before.target == f"subject:{subject_id}"
    assert [(event.event, event.target) for event in events] == [("subject_purged", ""), ("subject_created", "")]
