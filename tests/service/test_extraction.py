"""Facts out of messages: what is stored, what is reinforced, superseded, retracted and purged."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from fix_cluster import Cluster, Tenant
from fix_extraction import current, extract, extraction_job, facts, learning_tenant, say
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import approvals_pb2, curation_pb2, history_pb2, memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_worker.extraction.model import EXTRACTOR

PORTO = "I live in Porto"
LISBON = "I live in Lisbon"
NOTE = "Remember that the blue bin goes out on Mondays"


async def correct(tenant: Tenant, message: session_pb2.Message, content: str) -> None:
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(message_id=message.message_id, content=content),
            update_mask=FieldMask(paths=["content"]),
        )
    )


async def delete(tenant: Tenant, message: session_pb2.Message) -> None:
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))


async def pending(tenant: Tenant) -> list[str]:
    response = await tenant.curation.ListPendingMemories(approvals_pb2.ListPendingMemoriesRequest())
    return [one.memory.content for one in response.pending_memories]


async def set_policy(tenant: Tenant, name: str, value: str) -> None:
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(**{name: value}),  # type: ignore[arg-type]  # A text.
            update_mask=FieldMask(paths=[name]),
        )
    )


@pytest.mark.system
async def test_a_fact_names_its_author_its_person_its_message_and_the_characters_that_say_it(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, f"Good morning! {PORTO}.")

    await extract(cluster, tenant)

    (fact,) = await facts(tenant)
    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[fact.memory_id]))
    (edge,) = (edge for edge in lineage.edges if lineage.nodes[edge.source_number].id == message.message_id)
    assert (fact.content, fact.key, fact.type, fact.subject_id) == (PORTO, "lives_in", "fact", "mira")
    assert (fact.created_by, fact.valid_from_time) == (EXTRACTOR, message.create_time)
    assert message.content[edge.start_character : edge.end_character] == PORTO


async def test_without_the_policy_nothing_is_taken(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    await say(tenant, PORTO)

    assert not await extraction_job(cluster).extract_session(str(tenant.tenant_id))
    assert await facts(tenant) == []


@pytest.mark.system
async def test_a_session_waits_for_quiet_or_for_enough_messages(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster, extraction_messages=3, extraction_quiet_seconds=3600)
    await say(tenant, PORTO, "It rains.")
    await extract(cluster, tenant)
    before = await facts(tenant)

    await say(tenant, "So it is.")
    await extract(cluster, tenant)

    assert (before, await current(tenant)) == ([], [PORTO])


async def test_messages_of_other_roles_count_by_the_policy_alone(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO, role="ASSISTANT")

    await extract(cluster, tenant)

    assert await facts(tenant) == []


@pytest.mark.system
async def test_the_same_statement_reinforces_in_whatever_words(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    await extract(cluster, tenant)
    (before,) = await facts(tenant)

    await say(tenant, "I now live in Porto")
    await extract(cluster, tenant)

    (after,) = await facts(tenant)
    assert after.content == PORTO
    assert after.confidence > before.confidence


@pytest.mark.system
async def test_a_statement_without_a_key_reinforces_what_says_the_same_about_the_same_person(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, NOTE)
    await extract(cluster, tenant)
    (before,) = await facts(tenant)

    await say(tenant, f"{NOTE}.", session_id="another")
    await say(tenant, NOTE, subject_id="noor", session_id="third")
    await extract(cluster, tenant)

    first, second = await facts(tenant)
    assert (first.memory_id, first.key, first.subject_id) == (before.memory_id, "", "mira")
    assert first.confidence > before.confidence
    assert (second.content, second.subject_id) == (first.content, "noor")


@pytest.mark.system
async def test_an_appointment_on_another_day_is_another_one(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "I have a dentist appointment on March 3.")
    await extract(cluster, tenant)

    await say(tenant, "I have a dentist appointment on March 4.")
    await extract(cluster, tenant)

    assert len(await current(tenant)) == 2


@pytest.mark.system
async def test_a_statement_that_has_ended_is_stored_again(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, NOTE)
    await extract(cluster, tenant)
    await delete(tenant, message)
    await extract(cluster, tenant)

    await say(tenant, NOTE)
    await extract(cluster, tenant)

    assert len(await facts(tenant)) == 2
    assert len(await current(tenant)) == 1


@pytest.mark.system
async def test_a_message_that_is_read_again_repeats_no_statement_of_another_one(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, "It rains.")
    await say(tenant, NOTE)
    await extract(cluster, tenant)

    await correct(tenant, message, NOTE)
    await extract(cluster, tenant)

    assert len(await facts(tenant)) == 1


@pytest.mark.system
async def test_a_newer_value_supersedes_and_the_older_one_stays_readable(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    await extract(cluster, tenant)
    (message,) = await say(tenant, LISBON)

    await extract(cluster, tenant)

    older, newer = await facts(tenant)
    assert (older.content, older.valid_to_time, older.key) == (PORTO, message.create_time, "")
    assert (newer.content, newer.key) == (LISBON, "lives_in")


@pytest.mark.system
@pytest.mark.parametrize("denial", ["Forget that I live in Porto.", "I no longer live in Porto."])
async def test_what_is_taken_back_ends_the_fact_of_that_value_alone(cluster: Cluster, denial: str) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    await extract(cluster, tenant)
    (message,) = await say(tenant, denial)
    await extract(cluster, tenant)
    ended, taken_back = await facts(tenant)
    await say(tenant, LISBON)
    await extract(cluster, tenant)

    await say(tenant, denial)
    await extract(cluster, tenant)

    assert (ended.content, ended.valid_to_time, ended.key) == (PORTO, message.create_time, "")
    # What is only taken back is true at no time.
    assert (taken_back.valid_to_time == message.create_time) == denial.startswith("Forget")
    assert LISBON in await current(tenant)
    assert len(await facts(tenant)) == 3


async def test_a_fact_behind_its_own_message_takes_no_place_among_the_hits(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, "My niece Ffion plays the harp in the town band.")
    await extract(cluster, tenant)
    (fact,) = await facts(tenant)
    request = gateway_pb2.RecallRequest(query="niece harp", mode="SEARCH_MODE_KEYWORD", min_relevance=0)

    merged = (await tenant.gateway.Recall(request)).hits
    request.show_duplicates = True
    both = (await tenant.gateway.Recall(request)).hits

    assert [(hit.item_id, list(hit.duplicate_ids)) for hit in merged] == [(message.message_id, [fact.memory_id])]
    assert [hit.item_id for hit in both] == [message.message_id, fact.memory_id]


async def test_facts_of_two_people_do_not_meet(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    await say(tenant, LISBON, subject_id="noor")

    await extract(cluster, tenant)

    assert sorted(await current(tenant)) == [LISBON, PORTO]


@pytest.mark.system
async def test_a_corrected_message_is_read_again(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, f"{PORTO}. I'm allergic to peanuts.")
    await extract(cluster, tenant)

    await correct(tenant, message, f"{LISBON}.")
    await extract(cluster, tenant)

    assert await current(tenant) == [LISBON]


@pytest.mark.system
async def test_a_correction_of_an_older_message_takes_no_key_from_a_newer_one(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, PORTO)
    await extract(cluster, tenant)
    await say(tenant, LISBON)
    await extract(cluster, tenant)

    await correct(tenant, message, "I live in Braga")
    await extract(cluster, tenant)

    assert await current(tenant) == [LISBON]


@pytest.mark.system
async def test_a_deleted_message_ends_its_facts_and_an_undeleted_one_says_them_again(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, PORTO)
    await extract(cluster, tenant)
    await delete(tenant, message)
    await extract(cluster, tenant)
    deleted = await current(tenant)

    await tenant.sessions.UndeleteMessage(session_pb2.UndeleteMessageRequest(message_id=message.message_id))
    await extract(cluster, tenant)

    assert (deleted, await current(tenant)) == ([], [PORTO])


async def test_a_deleted_session_ends_its_facts_also_after_the_policy_is_off(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    await extract(cluster, tenant)
    await set_policy(tenant, "extraction", "off")

    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="talk"))
    await extract(cluster, tenant)

    assert await current(tenant) == []


@pytest.mark.system
@pytest.mark.parametrize("whole", [False, True], ids=["message", "session"])
async def test_what_is_purged_takes_its_facts_with_it_and_no_others(cluster: Cluster, *, whole: bool) -> None:
    tenant = await learning_tenant(cluster)
    (message,) = await say(tenant, PORTO)
    await say(tenant, LISBON, subject_id="noor", session_id="other")
    await extract(cluster, tenant)

    if whole:
        await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="talk"))
    else:
        await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.message_id]))
    await extract(cluster, tenant)

    assert [fact.content for fact in await facts(tenant)] == [LISBON]


async def test_facts_wait_for_approval_where_agents_do(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster, approval="agents")
    await say(tenant, PORTO)

    await extract(cluster, tenant)

    assert await facts(tenant) == []
    assert await pending(tenant) == [PORTO]


@pytest.mark.system
@pytest.mark.parametrize("way", ["corrected", "deleted", "session"])
async def test_a_fact_that_waits_is_withdrawn_with_what_its_message_said(cluster: Cluster, way: str) -> None:
    tenant = await learning_tenant(cluster, approval="agents")
    (message,) = await say(tenant, PORTO)
    await say(tenant, LISBON, subject_id="noor", session_id="other")
    await extract(cluster, tenant)
    before = await pending(tenant)

    if way == "corrected":
        await correct(tenant, message, "I live in Braga")
    elif way == "deleted":
        await delete(tenant, message)
    else:
        await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="talk"))
    await extract(cluster, tenant)

    assert sorted(before) == [LISBON, PORTO]
    assert await pending(tenant) == ([LISBON, "I live in Braga"] if way == "corrected" else [LISBON])


async def test_a_withdrawn_fact_is_an_event_and_what_an_agent_proposed_stays(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster, approval="agents")
    agent = cluster.with_key(tenant.api_key, **{"skein-agent-id": "helper"})
    (message,) = await say(tenant, PORTO)
    await extract(cluster, tenant)
    source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=message.message_id)
    own = memory_pb2.Memory(content="Likes the sea.", derived_from=[source])
    await agent.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=own))

    await delete(tenant, message)
    await extract(cluster, tenant)

    changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest())).changes
    assert await pending(tenant) == ["Likes the sea."]
    assert [change.principal for change in changes if change.event_type == "memory_refused"] == [EXTRACTOR]


async def test_a_message_that_waits_for_approval_is_read_when_it_is_approved(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster, approval="agents")
    agent = replace(tenant, channel=cluster.with_key(tenant.api_key, **{"skein-agent-id": "helper"}).channel)
    (message,) = await say(agent, PORTO)
    await extract(cluster, tenant)
    waiting = await pending(tenant)

    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(message_id=message.message_id),
            update_mask=FieldMask(paths=["pending_approval"]),
        )
    )
    await extract(cluster, tenant)

    assert (waiting, await pending(tenant)) == ([], [PORTO])


async def test_the_guard_screens_what_facts_say(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "My email is mira@example.com")
    await set_policy(tenant, "guard_personal_data", "redact")

    await extract(cluster, tenant)

    assert [fact.content for fact in await facts(tenant)] == ["My email is [email_address]"]


@pytest.mark.system
async def test_two_workers_at_once_store_each_fact_once(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    for number in range(4):
        await say(tenant, PORTO, subject_id=f"person-{number}", session_id=f"talk-{number}")

    await asyncio.gather(*(extract(cluster, tenant) for _ in range(3)))

    assert sorted(fact.subject_id for fact in await facts(tenant)) == [f"person-{number}" for number in range(4)]
