"""What a caller finds who asks for one of two people: theirs and what is shared, never the other's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client import Client, errors

QUERY = "Where do I live?"


def said(*turns: str) -> list[dict[str, str]]:
    return [{"role": "assistant" if at % 2 else "user", "content": turn} for at, turn in enumerate(turns)]


def texts(response: pb.RecallResponse | recall_pb2.FindSimilarResponse) -> set[str]:
    return {hit.memory.content or hit.message.content for hit in response.hits}


@pytest.fixture
async def skein(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Client]:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as client:
        yield client


@pytest.fixture
async def two(skein: Client) -> Client:
    """Anna and Ben, each with a conversation and a memory, beside what is shared."""
    await skein.remember(
        "Anna lives with a cat",
        session_id="of-anna",
        messages=said("I live in Graz.", "Noted: you live in Graz."),
        subject_id="anna",
        agent_id="butler",
    )
    await skein.remember(
        "Ben lives with a dog",
        session_id="of-ben",
        messages=said("I live in Oslo.", "Noted: you live in Oslo."),
        subject_id="ben",
    )
    await skein.remember("People live in houses")
    return skein


ANNA = {"Anna lives with a cat", "I live in Graz.", "Noted: you live in Graz.", "People live in houses"}


async def test_a_recall_for_a_person_finds_theirs_and_what_is_shared(two: Client) -> None:
    response = await two.recall(QUERY, subject_id="anna", min_relevance=0)

    assert texts(response) == ANNA


async def test_a_context_for_a_person_has_nothing_of_another(two: Client) -> None:
    response = await two.build_context(QUERY, subject_id="anna")

    assert "Graz" in response.text
    assert "Oslo" not in response.text
    assert "dog" not in response.text


@pytest.mark.usefixtures("two")
async def test_a_recall_of_the_index_for_a_reader_answers_alike(tenant: Tenant) -> None:
    context = memory_pb2.ScopeContext(subject_id="anna")
    filter_ = memory_pb2.MemoryFilter(visible_to=context)

    found = await tenant.recall.Recall(recall_pb2.RecallRequest(query=QUERY, filter=filter_, min_relevance=0))
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(filter=filter_))

    assert {hit.memory.content or hit.message.content for hit in found.hits} == ANNA
    assert {memory.content for memory in listed.memories} == {"Anna lives with a cat", "People live in houses"}


async def test_a_session_has_the_subject_of_the_call_that_creates_it(two: Client, tenant: Tenant) -> None:
    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="of-anna"))).session
    await two.remember(session_id="of-anna", messages=said("I live on the third floor."))

    response = await two.recall(QUERY, subject_id="anna", min_relevance=0)

    assert (session.subject_id, session.agent_id) == ("anna", "butler")
    assert "I live on the third floor." in texts(response)


async def test_a_guest_of_a_session_keeps_their_words(two: Client, tenant: Tenant) -> None:
    await two.remember(session_id="of-ben", messages=said("I live nearby, says Anna."), subject_id="anna")

    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="of-ben"))).session
    of_anna = await two.recall(QUERY, subject_id="anna", min_relevance=0)
    of_ben = await two.recall(QUERY, subject_id="ben", min_relevance=0)

    assert session.subject_id == "ben"
    assert texts(of_anna) == ANNA | {"I live nearby, says Anna."}
    assert "I live nearby, says Anna." not in texts(of_ben)


async def test_a_message_about_nobody_is_found_by_no_person(two: Client) -> None:
    await two.remember(session_id="unnamed", messages=said("I live in Rome."))

    response = await two.recall(QUERY, subject_id="anna", min_relevance=0)

    assert texts(response) == ANNA


async def test_the_window_of_a_context_leaves_another_person_out(two: Client) -> None:
    response = await two.build_context(QUERY, subject_id="anna", session_id="of-ben")

    assert "Oslo" not in response.text


async def test_the_profile_in_a_recall_is_that_of_the_person(two: Client, tenant: Tenant) -> None:
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Berg")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))

    response = await two.recall(QUERY, subject_id="anna")

    assert response.profile.display_name == "Anna Berg"


async def test_items_keep_a_subject_of_their_own(skein: Client) -> None:
    stored = await skein.remember(
        [{"content": "Ben likes tea", "subject_id": "ben"}, "likes coffee"],
        messages=[{"role": "user", "content": "Hello", "subject_id": "ben"}],
        session_id="s",
        subject_id="anna",
    )

    assert [memory.subject_id for memory in stored.memories] == ["ben", "anna"]
    assert [message.subject_id for message in stored.messages] == ["ben"]


@pytest.mark.parametrize(
    "fields",
    [
        {"filter": {"subject_id": "anna"}},
        {"subject_id": "anna", "filter": {"visible_to": {"subject_id": "ben"}}},
    ],
)
async def test_a_recall_names_its_person_once(tenant: Tenant, fields: dict[str, Any]) -> None:
    request = pb.RecallRequest(query=QUERY, **fields)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.Recall(request)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=request))


async def test_what_is_like_an_item_is_found_for_a_person(two: Client) -> None:
    (hit,) = (await two.recall("cat", subject_id="anna", mode="keyword", branches=["memories"])).hits

    for_ben = await two.find_similar(hit.item_id, subject_id="ben", limit=50)
    for_all = await two.find_similar(hit.item_id, limit=50)

    assert {"Ben lives with a dog", "I live in Oslo."} <= texts(for_ben)
    assert not texts(for_ben) & (ANNA - {"People live in houses"})
    assert texts(for_all) & ANNA
    with pytest.raises(errors.InvalidArgument, match="name two people"):
        await two.find_similar(
            hit.item_id, subject_id="ben", filter=memory_pb2.MemoryFilter(visible_to={"subject_id": "anna"})
        )


async def test_an_unknown_action_on_similar_is_refused(skein: Client) -> None:
    with pytest.raises(ValueError, match="keep, return, reinforce"):
        await skein.remember("Tea", on_similar="merge")  # type: ignore[arg-type]
