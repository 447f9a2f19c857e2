"""Facts that depend on the messages around: statements that a person confirms, and "forget that"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from fix_cluster import Cluster, Tenant
from fix_extraction import current, extract, facts, job_of, learning_tenant, say, settings_of
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import curation_pb2, memory_pb2
from skein.session.v1 import session_pb2, session_pb2_grpc, states_pb2

QUESTION = "So you live in Porto?"
PORTO = "I live in Porto"


async def correct(tenant: Tenant, message: session_pb2.Message, content: str) -> None:
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(
            message=session_pb2.Message(message_id=message.message_id, content=content),
            update_mask=FieldMask(paths=["content"]),
        )
    )


async def delete(tenant: Tenant, message: session_pb2.Message) -> None:
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))


async def confirmed(cluster: Cluster, answer: str = "Yes") -> tuple[Tenant, session_pb2.Message, session_pb2.Message]:
    """Return a tenant in whose session a person answers a statement of the assistant, both messages, read."""
    tenant = await learning_tenant(cluster)
    await say(tenant, "I'm back.")
    (statement,) = await say(tenant, QUESTION, role="ASSISTANT", subject_id="")
    (yes,) = await say(tenant, answer)
    await extract(cluster, tenant)
    return tenant, statement, yes


async def test_a_confirmed_statement_is_a_fact_of_the_person_with_both_messages_as_evidence(
    cluster: Cluster,
) -> None:
    tenant, statement, yes = await confirmed(cluster, "Yes!")

    (fact,) = await facts(tenant)
    lineage = await tenant.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[fact.memory_id]))
    texts = {message.message_id: message.content for message in (statement, yes)}
    evidence = {
        id_: texts[id_][edge.start_character : edge.end_character]
        for edge in lineage.edges
        if (id_ := lineage.nodes[edge.source_number].id) in texts
    }
    assert (fact.content, fact.key, fact.subject_id) == (PORTO, "lives_in", "mira")
    assert evidence == {statement.message_id: "you live in Porto", yes.message_id: "Yes!"}


@pytest.mark.parametrize("answer", ["No", "I think so", "Hm", "Yes, but not for long", "Maybe yes"])
async def test_anything_but_a_plain_confirmation_makes_no_fact(cluster: Cluster, answer: str) -> None:
    tenant, _, _ = await confirmed(cluster, answer)

    assert await facts(tenant) == []


async def test_a_statement_to_another_person_is_not_confirmed(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "I'm back.", subject_id="noor")
    await say(tenant, QUESTION, role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")

    await extract(cluster, tenant)

    assert await facts(tenant) == []


@pytest.mark.system
@pytest.mark.parametrize("words", ["lol", "And me?"])
async def test_where_two_persons_spoke_before_the_assistant_nobody_confirms(cluster: Cluster, words: str) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "Where do I live?", subject_id="noor")
    await say(tenant, words)
    await say(tenant, QUESTION, role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")
    await say(tenant, "Wait.", "I'm back.")
    await say(tenant, "So you're vegan?", role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")

    await extract(cluster, tenant)

    assert await current(tenant) == ["I'm vegan"]


@pytest.mark.system
async def test_a_yes_confirms_the_message_right_before_it_alone(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, QUESTION, "Shall I go on?", role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")
    await extract(cluster, tenant)
    (_, later) = await say(tenant, QUESTION, "Fine.", role="ASSISTANT", subject_id="")
    await delete(tenant, later)
    await say(tenant, "Yes")

    await extract(cluster, tenant)

    assert await facts(tenant) == []


async def _correct_statement(tenant: Tenant, statement: session_pb2.Message, _yes: session_pb2.Message) -> None:
    await correct(tenant, statement, "So you live in Lisbon?")


async def _delete_statement(tenant: Tenant, statement: session_pb2.Message, _yes: session_pb2.Message) -> None:
    await delete(tenant, statement)


async def _correct_answer(tenant: Tenant, _statement: session_pb2.Message, yes: session_pb2.Message) -> None:
    await correct(tenant, yes, "No")


async def _delete_answer(tenant: Tenant, _statement: session_pb2.Message, yes: session_pb2.Message) -> None:
    await delete(tenant, yes)


async def _purge_statement(tenant: Tenant, statement: session_pb2.Message, _yes: session_pb2.Message) -> None:
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[statement.message_id]))


@pytest.mark.system
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_correct_statement, ["I live in Lisbon"]),
        (_delete_statement, []),
        (_correct_answer, []),
        (_delete_answer, []),
        (_purge_statement, []),
    ],
)
async def test_a_change_of_either_message_examines_the_fact_again(
    cluster: Cluster,
    change: Callable[[Tenant, session_pb2.Message, session_pb2.Message], Awaitable[None]],
    expected: list[str],
) -> None:
    tenant, statement, yes = await confirmed(cluster)
    assert await current(tenant) == [PORTO]

    await change(tenant, statement, yes)
    await extract(cluster, tenant)

    assert await current(tenant) == expected


@pytest.mark.system
async def test_a_corrected_statement_may_become_one_that_was_confirmed(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (statement,) = await say(tenant, "Shall I go on?", role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")
    await extract(cluster, tenant)

    await correct(tenant, statement, QUESTION)
    await extract(cluster, tenant)

    assert await current(tenant) == [PORTO]


@pytest.mark.system
@pytest.mark.parametrize("is_corrected", [False, True])
async def test_a_worker_that_died_before_it_was_done_leaves_a_confirmed_fact_once(
    cluster: Cluster, *, is_corrected: bool
) -> None:
    tenant = await learning_tenant(cluster)
    (statement,) = await say(tenant, "You live in Lisbon?", role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")
    if is_corrected:
        await extract(cluster, tenant)
    await correct(tenant, statement, QUESTION)
    dying = job_of(settings_of(cluster), cluster.addresses, _without_completion)
    with pytest.raises(ConnectionError):
        await dying.extract_session(str(tenant.tenant_id))
    async with cluster.superuser() as connection:
        await connection.execute(
            "UPDATE session.extractions SET lease_end_time = NULL WHERE tenant_id = $1", tenant.tenant_id
        )

    await asyncio.gather(*(extract(cluster, tenant) for _ in range(2)))

    assert await current(tenant) == [PORTO]
    assert len(await facts(tenant)) == 1 + is_corrected


async def test_a_statement_that_is_read_for_itself_leaves_the_fact_that_it_was_confirmed_as(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster, extraction_roles=["user", "assistant"])
    (statement,) = await say(tenant, QUESTION, role="ASSISTANT", subject_id="")
    await say(tenant, "Yes")
    await extract(cluster, tenant)
    # As where only the role of persons counted.
    async with cluster.superuser() as connection:
        await connection.execute(
            "DELETE FROM session.extracted_messages WHERE message_id = $1", UUID(statement.message_id)
        )

    await tenant.sessions.StartExtraction(session_pb2.StartExtractionRequest())
    await extract(cluster, tenant)

    assert await current(tenant) == [PORTO]


def _without_completion(stub: Any) -> Any:
    """Return a stub whose CompleteExtraction fails, as that of a worker which dies before it."""
    if isinstance(stub, session_pb2_grpc.SessionInternalServiceStub):

        async def die(_request: object) -> None:
            raise ConnectionError

        stub.CompleteExtraction = die  # type: ignore[assignment]  # It is called with a request alone.
    return stub


@pytest.mark.system
@pytest.mark.parametrize("words", ["Forget that.", "Vergiss das", "Olvídalo", "忘了吧"])
async def test_forget_that_ends_what_the_message_before_said(cluster: Cluster, words: str) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "I love jazz.")
    await say(tenant, f"{PORTO}. Remember that the blue bin goes out on Mondays.")
    await extract(cluster, tenant)
    assert len(await current(tenant)) == 3
    await say(tenant, "Noted.", role="ASSISTANT", subject_id="")

    await say(tenant, words)
    await extract(cluster, tenant)

    assert await current(tenant) == ["I love jazz"]


@pytest.mark.system
async def test_forget_that_is_about_the_same_persons_message_and_may_be_about_none(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "Forget that.")
    await say(tenant, PORTO, subject_id="noor")
    await say(tenant, "Forget that.")
    await say(tenant, "Forget that.", session_id="another", subject_id="noor")

    await extract(cluster, tenant)

    assert await current(tenant) == [PORTO]


async def test_what_was_taken_back_before_it_was_read_is_not_stored(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, PORTO)
    await say(tenant, "Forget that.")
    await extract(cluster, tenant)
    before = await facts(tenant)

    # A backfill reads the newer message first.
    await tenant.sessions.StartExtraction(session_pb2.StartExtractionRequest())
    await extract(cluster, tenant)

    assert (before, await facts(tenant)) == ([], [])


@pytest.mark.system
async def test_what_was_taken_back_stays_so_where_a_message_between_is_deleted(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    (said,) = await say(tenant, PORTO)
    (between,) = await say(tenant, "Noted.", role="ASSISTANT", subject_id="")
    await say(tenant, "Forget that.")
    await extract(cluster, tenant)
    await delete(tenant, between)

    # Another reading, as that of a newer extractor.
    await correct(tenant, said, f"{PORTO}!")
    await extract(cluster, tenant)

    assert await current(tenant) == []


@pytest.mark.system
async def test_a_german_clause_with_its_verb_at_the_end_takes_a_fact_back(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    await say(tenant, "Ich wohne in Porto.")
    await extract(cluster, tenant)
    assert await current(tenant) == ["Ich wohne in Porto"]

    await say(tenant, "Vergiss bitte, dass ich in Porto wohne.")
    await extract(cluster, tenant)

    assert await current(tenant) == []
    answer = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert {memory.subject_id for memory in answer.memories} == {"mira"}
