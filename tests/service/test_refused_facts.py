"""Facts that the checker refuses: listed with reasons, accepted or dismissed by hand, and gone with their messages."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused, test_environment
from fix_command import skein
from fix_extraction import current, extract, extractor_token, facts, learning_tenant, say
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import approvals_pb2, history_pb2, memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_worker.extraction.model import EXTRACTOR

PORTO = "I live in Porto"
ASKED = f"Hello! {PORTO}?"


async def listed(tenant: Stubs, **fields: int | str) -> Sequence[approvals_pb2.PendingMemory]:
    request = approvals_pb2.ListRefusedFactsRequest(**fields)  # type: ignore[arg-type]  # Each has the type of its field.
    return (await tenant.curation.ListRefusedFacts(request)).refused_facts


async def pending(tenant: Tenant) -> list[str]:
    response = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    return [one.memory.content for one in response.pending_memories]


async def asking_tenant(cluster: Cluster, **policy: object) -> tuple[Tenant, session_pb2.Message]:
    """Return a tenant with one refused fact, and its message."""
    tenant = await learning_tenant(cluster, **policy)
    (message,) = await say(tenant, ASKED)
    await extract(cluster, tenant)
    return tenant, message


async def test_a_refused_fact_shows_its_reason_its_text_and_the_characters_of_its_message(cluster: Cluster) -> None:
    tenant, message = await asking_tenant(cluster)

    (fact,) = await listed(tenant)

    (source,) = fact.memory.derived_from
    assert (fact.refusal_reason, fact.memory.content, fact.created_by) == ("question", PORTO, EXTRACTOR)
    assert source.id == message.message_id
    assert message.content[source.start_character : source.end_character] == PORTO
    assert fact.expire_time.seconds - fact.create_time.seconds == 30 * 86400


async def test_it_is_no_memory_and_waits_for_no_approval(cluster: Cluster) -> None:
    tenant, _ = await asking_tenant(cluster)

    assert await facts(tenant) == []
    assert await pending(tenant) == []


async def test_reading_a_message_again_keeps_it_once(cluster: Cluster) -> None:
    tenant, message = await asking_tenant(cluster)
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))
    await tenant.sessions.UndeleteMessage(session_pb2.UndeleteMessageRequest(message_id=message.message_id))

    await extract(cluster, tenant)

    assert len(await listed(tenant)) == 1


async def test_the_list_has_pages(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "I live in Porto?", "I live in Lisbon?", "I live in Braga?")
    await extract(cluster, tenant)

    first = await tenant.curation.ListRefusedFacts(approvals_pb2.ListRefusedFactsRequest(page_size=2))
    rest = await listed(tenant, page_size=2, page_token=first.next_page_token)

    assert [one.memory.content for one in [*first.refused_facts, *rest]] == [
        "I live in Porto",
        "I live in Lisbon",
        "I live in Braga",
    ]


@pytest.mark.system
async def test_an_accepted_fact_names_its_extractor_and_who_accepted_it(cluster: Cluster) -> None:
    tenant, message = await asking_tenant(cluster)
    (one,) = await listed(tenant)

    request = approvals_pb2.ApproveMemoryRequest(pending_id=one.pending_id, request_id="once")
    accepted = (await tenant.curation.ApproveMemory(request)).memory
    again = (await tenant.curation.ApproveMemory(request)).memory

    own = (
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="Tea.")))
    ).memory
    assert (accepted.content, accepted.key, accepted.subject_id) == (PORTO, "lives_in", "mira")
    assert (accepted.created_by, accepted.updated_by) == (EXTRACTOR, own.created_by)
    assert again.memory_id == accepted.memory_id
    assert await listed(tenant) == []
    # It goes with its message as other facts do.
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.message_id]))
    await extract(cluster, tenant)
    assert [fact.content for fact in await facts(tenant)] == ["Tea."]


async def test_a_dismissed_fact_is_gone(cluster: Cluster) -> None:
    tenant, _ = await asking_tenant(cluster)
    (one,) = await listed(tenant)

    await tenant.curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=one.pending_id))

    with refused(grpc.StatusCode.NOT_FOUND, "PENDING_MEMORY_NOT_FOUND"):
        await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=one.pending_id))
    assert (await listed(tenant), await facts(tenant)) == ([], [])


async def test_callers_without_the_permission_to_approve_see_and_accept_none(cluster: Cluster) -> None:
    tenant, _ = await asking_tenant(cluster, approval="agents")
    (one,) = await listed(tenant)
    agent = cluster.with_key(tenant.api_key, **{"skein-agent-id": "helper"})

    with refused(grpc.StatusCode.PERMISSION_DENIED, "APPROVAL_REQUIRED"):
        await listed(agent)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "APPROVAL_REQUIRED"):
        await agent.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=one.pending_id))
    assert len(await listed(tenant)) == 1


@pytest.mark.system
@pytest.mark.parametrize("way", ["message", "session", "person", "forget"])
async def test_what_is_purged_takes_its_refused_facts_with_it_and_no_others(cluster: Cluster, way: str) -> None:
    tenant, message = await asking_tenant(cluster)
    await say(tenant, "I live in Lisbon?", subject_id="noor", session_id="other")
    await extract(cluster, tenant)

    if way == "message":
        await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.message_id]))
    elif way == "session":
        await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="talk"))
    elif way == "person":
        await tenant.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="mira"))
    else:
        await tenant.memory.PurgeMemories(
            memory_pb2.PurgeMemoriesRequest(
                selection=memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="mira"))
            )
        )

    assert [one.memory.content for one in await listed(tenant)] == ["I live in Lisbon"]


async def test_a_refused_fact_expires_without_an_event(cluster: Cluster) -> None:
    tenant, _ = await asking_tenant(cluster)
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE memory.pending_memories SET expire_time = now() WHERE tenant_id = $1", tenant.tenant_id
        )
    shown = await listed(tenant)

    async with cluster.direct("memory", caller="worker") as channel:
        system = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id), extractor=""))
        await memory_pb2_grpc.MemoryInternalServiceStub(system.channel).DeleteExpired(memory_pb2.DeleteExpiredRequest())

    async with cluster.superuser() as connection:
        count = await connection.fetchval(
            "SELECT count(*) FROM memory.pending_memories WHERE tenant_id = $1", tenant.tenant_id
        )
    changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest())).changes
    assert (shown, count) == ([], 0)
    assert not [change for change in changes if change.event_type.startswith("memory_pending")]


async def test_the_guard_screens_what_is_kept(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "My email is mira@example.com?")
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(guard_personal_data="redact"),
            update_mask=FieldMask(paths=["guard_personal_data"]),
        )
    )

    await extract(cluster, tenant)

    assert [one.memory.content for one in await listed(tenant)] == ["My email is [email_address]"]


@pytest.mark.system
async def test_more_refused_facts_than_the_limit_are_not_kept_and_hold_up_nothing(cluster: Cluster) -> None:
    tenant, message = await asking_tenant(cluster)
    async with cluster.superuser() as connection:
        await connection.execute(
            "INSERT INTO memory.pending_memories (tenant_id, pending_id, memory_id, revision, content, source_ids,"
            " created_by, create_time, expire_time, refusal_reason)"
            " SELECT tenant_id, id, id, 0, content, source_ids, created_by, create_time, expire_time, 'question'"
            " FROM memory.pending_memories, (SELECT gen_random_uuid() AS id FROM generate_series(1, 9999)) AS ids"
            " WHERE tenant_id = $1",
            tenant.tenant_id,
        )
    source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=message.message_id)
    fact = memory_pb2.RefusedFact(memory=memory_pb2.Memory(content=PORTO, derived_from=[source]), reason="question")

    async with cluster.direct("memory", caller="worker") as channel:
        extractor = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id)))
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "PENDING_MEMORIES_FULL"):
            await memory_pb2_grpc.MemoryInternalServiceStub(extractor.channel).KeepRefusedFacts(
                memory_pb2.KeepRefusedFactsRequest(facts=[fact])
            )
    await say(tenant, "I live in Lisbon. I'm allergic to peanuts?")
    await extract(cluster, tenant)

    assert await current(tenant) == ["I live in Lisbon"]


@pytest.mark.system
async def test_the_command_lists_accepts_and_dismisses(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    (message, _) = await say(tenant, ASKED, "I'm allergic to peanuts, right?")
    await extract(cluster, tenant)
    first, second = await listed(tenant)

    shown = await skein("approvals", "refused", environment=environment)
    accepted = await skein("approvals", "approve", first.pending_id, environment=environment)
    dismissed = await skein("approvals", "refuse", second.pending_id, environment=environment)
    after = await skein("approvals", "refused", "--json", environment=environment)

    assert "question" in shown.out
    assert f"{message.message_id} 7-22" in " ".join(shown.out.split())
    assert accepted.out.strip() == f"Approved {first.memory.memory_id}."
    assert dismissed.out.strip() == f"Refused {second.pending_id}."
    assert after.json == {"refused_facts": []}
    assert await current(tenant) == [PORTO]
