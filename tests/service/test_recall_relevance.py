"""Relevance of hits, the lowest one that is shown, and items of the same text as one hit."""

from __future__ import annotations

import pytest
from fix_cluster import Tenant
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

CONTENTS = [
    "Marta is allergic to peanuts and cashews.",
    "The ferry to Corsica leaves on Saturday at nine.",
    "Grandmother grows tomatoes behind the garage.",
    "The boiler was repaired in March.",
]
QUESTION = "What is Marta allergic to?"
UNRELATED = "Which planet has the longest orbit?"


async def remember(tenant: Tenant, *contents: str, **fields: object) -> list[str]:
    """Store memories one after another; return their ids."""
    ids = []
    for content in contents:
        memory = memory_pb2.Memory(content=content, **fields)  # type: ignore[arg-type]  # A test's own fields.
        created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
        ids.append(created.memory.memory_id)
    return ids


async def recall(tenant: Tenant, query: str = QUESTION, **fields: object) -> pb.RecallResponse:
    return await tenant.gateway.Recall(pb.RecallRequest(query=query, **fields))  # type: ignore[arg-type]


async def test_an_answer_is_more_relevant_than_what_is_beside_it(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)

    response = await recall(tenant, min_relevance=0)

    first, *others = [hit.relevance for hit in response.hits]
    assert response.hits[0].memory.content == CONTENTS[0]
    assert first > 0.5
    assert len(others) == 3
    assert max(others) < 0.1
    assert not response.nothing_relevant


async def test_a_question_without_an_answer_finds_nothing_relevant(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)

    everything = await recall(tenant, UNRELATED, min_relevance=0)
    relevant = await recall(tenant, UNRELATED, min_relevance=0.2)
    context = await tenant.gateway.BuildContext(
        pb.BuildContextRequest(recall=pb.RecallRequest(query=UNRELATED, min_relevance=0.2))
    )

    assert everything.hits
    assert max(hit.relevance for hit in everything.hits) < 0.2
    assert (list(relevant.hits), relevant.nothing_relevant) == ([], True)
    assert (list(context.citations), context.nothing_relevant) == ([], True)


async def test_the_policy_decides_for_requests_that_set_no_relevance(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)
    policy = subjects_pb2.Policy(recall_min_relevance=0.2)
    mask = FieldMask(paths=["recall_min_relevance"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    by_policy = await recall(tenant)
    by_request = await recall(tenant, min_relevance=0)

    assert [hit.memory.content for hit in by_policy.hits] == CONTENTS[:1]
    assert len(by_request.hits) == len(CONTENTS)


@pytest.mark.parametrize("least", [0.0, 0.2])
async def test_a_weak_best_hit_means_that_nothing_answers_by_the_policy_alone(tenant: Tenant, least: float) -> None:
    await remember(tenant, *CONTENTS)
    policy = subjects_pb2.Policy(recall_min_best_relevance=least, recall_min_relevance=0.0)
    mask = FieldMask(paths=["recall_min_best_relevance", "recall_min_relevance"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    by_policy = await recall(tenant, UNRELATED)
    answered = await recall(tenant)
    by_request = await recall(tenant, UNRELATED, min_relevance=0.0001)

    assert (bool(by_policy.hits), by_policy.nothing_relevant) == ((False, True) if least else (True, False))
    assert len(answered.hits) == len(by_request.hits) == len(CONTENTS)


async def test_a_question_that_nothing_answers_gets_no_hit_where_the_policy_asks_for_silence(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)
    policy = subjects_pb2.Policy(recall_min_best_relevance=0.1)
    mask = FieldMask(paths=["recall_min_best_relevance"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    response = await recall(tenant, UNRELATED)
    answered = await recall(tenant)

    assert (list(response.hits), response.nothing_relevant) == ([], True)
    assert answered.hits[0].memory.content == CONTENTS[0]


@pytest.mark.system
async def test_one_score_means_less_among_more_documents_and_a_filter_counts_those_that_pass(tenant: Tenant) -> None:
    (about_marta,) = await remember(tenant, CONTENTS[0], subject_id="marta")
    before = (await recall(tenant, min_relevance=0)).hits[0]
    await remember(tenant, *(f"House {number} is painted blue and has a garden." for number in range(40)))

    after = (await recall(tenant, min_relevance=0)).hits[0]
    about_her = memory_pb2.MemoryFilter(where='subject_id = "marta"')
    query = pb.RecallRequest(query=QUESTION, min_relevance=0, filter=about_her)
    filtered = (await tenant.gateway.Recall(query)).hits[0]

    assert before.item_id == after.item_id == filtered.item_id == about_marta
    certainties = [(hit.relevance, hit.score) for hit in (after, filtered)]
    assert certainties[0][0] < certainties[1][0]
    assert certainties[0][1] == pytest.approx(certainties[1][1])


@pytest.mark.system
async def test_a_long_text_is_no_question_so_that_its_hits_have_no_relevance(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)

    response = await recall(tenant, f"{UNRELATED} {'And so on. ' * 100}")

    assert len(response.hits) == len(CONTENTS)
    assert not any(hit.HasField("relevance") for hit in response.hits)


@pytest.mark.parametrize(
    "fields",
    [{"mode": recall_pb2.SEARCH_MODE_KEYWORD}, {"fusion": "ranks"}, {"weights": {"dense": 1.0}}],
    ids=["mode", "fusion", "weights"],
)
async def test_hits_by_another_formula_have_no_relevance(tenant: Tenant, fields: dict[str, object]) -> None:
    await remember(tenant, *CONTENTS)

    response = await recall(tenant, min_relevance=0.9, **fields)  # type: ignore[arg-type]  # Fields of a request.

    assert response.hits
    assert not any(hit.HasField("relevance") for hit in response.hits)
    assert not response.nothing_relevant


async def test_the_same_sentence_twice_is_one_hit_the_newer_one(tenant: Tenant) -> None:
    older, other, newer = await remember(tenant, CONTENTS[0], CONTENTS[1], f" {CONTENTS[0].replace(' ', '  ')} ")

    response = await recall(tenant, min_relevance=0)
    everything = await recall(tenant, min_relevance=0, show_duplicates=True)

    assert [hit.item_id for hit in response.hits] == [newer, other]
    assert [list(hit.duplicate_ids) for hit in response.hits] == [[older], []]
    assert {hit.item_id for hit in everything.hits} == {older, other, newer}


async def test_the_same_sentence_about_two_people_is_two_hits(tenant: Tenant) -> None:
    sentence = "She is allergic to peanuts."
    (marta,) = await remember(tenant, sentence, subject_id="marta")
    (ines,) = await remember(tenant, sentence, subject_id="ines")

    response = await recall(tenant, "Who is allergic to peanuts?")

    assert {hit.item_id for hit in response.hits} == {marta, ines}


async def test_the_same_sentence_of_two_speakers_is_two_hits(tenant: Tenant) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, name=name, content="I am allergic to peanuts.")
        for name in ("Marta", "Ines", "Marta")
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )

    response = await recall(tenant, "Who is allergic to peanuts?")

    assert sorted(hit.message.name for hit in response.hits) == ["Ines", "Marta"]
    assert [hit.message.sequence for hit in response.hits if hit.message.name == "Marta"] == [3]


async def test_a_speaker_is_found_by_name(tenant: Tenant) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, name=name, content=content)
        for name, content in (("Marta", "Paris was lovely this spring."), ("Ines", "Rome was lovely this spring."))
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )

    marta, ines = [await recall(tenant, f"Where was {name} this spring?") for name in ("Marta", "Ines")]

    assert (marta.hits[0].message.name, ines.hits[0].message.name) == ("Marta", "Ines")


async def test_a_question_about_a_name_that_nothing_has_is_answered_by_nothing(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)

    known = await recall(tenant, "What must Marta not eat?", min_relevance=0)
    unknown = await recall(tenant, "What must Gudrun not eat?", min_relevance=0)
    by_default = await recall(tenant, "What must Gudrun not eat?")

    assert known.hits[0].relevance > 10 * unknown.hits[0].relevance
    assert (list(by_default.hits), by_default.nothing_relevant) == ([], True)


async def test_an_alias_of_a_name_is_known(tenant: Tenant) -> None:
    (about_marta, *_) = await remember(tenant, *CONTENTS)
    (canonical, alias) = await remember(tenant, "Marta", "Mopsi")
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(canonical_memory_id=canonical, alias_memory_id=alias)
    )

    response = await recall(tenant, "What is our Mopsi allergic to?")

    assert about_marta in [hit.item_id for hit in response.hits]


async def test_an_unrelated_question_finds_nothing_in_a_tiny_tenant_by_default(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)

    response = await recall(tenant, UNRELATED)
    answered = await recall(tenant)

    assert (list(response.hits), response.nothing_relevant) == ([], True)
    assert [hit.memory.content for hit in answered.hits] == CONTENTS[:1]


async def test_a_question_about_a_person_may_name_that_person_and_no_other(tenant: Tenant) -> None:
    await remember(tenant, *CONTENTS)
    await tenant.gateway.Remember(
        pb.RememberRequest(
            session_id="chat",
            subject_id="bob",
            messages=[
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I ordered coffee from Brazil."),
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, content="It arrives on Monday."),
            ],
        )
    )

    own = await recall(tenant, "What did Bob order?", subject_id="bob")
    of_another = await recall(tenant, "What did Ottilie order?", subject_id="bob", min_relevance=0)

    assert own.hits[0].message.content == "I ordered coffee from Brazil."
    assert max(hit.relevance for hit in of_another.hits) < own.hits[0].relevance / 2
