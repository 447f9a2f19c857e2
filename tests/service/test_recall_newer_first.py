"""Items that say what has changed go before the older ones that they change, and name them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fix_cluster import Cluster, Tenant
from fix_lineage import create, rate, rescore, writer
from fix_receipts import get_receipt, recall_with_receipt
from google.protobuf.timestamp_pb2 import Timestamp

from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2

OLDER, NEWER = "The head of sales is Ines Valdoro.", "The head of sales is Bruno Kest."
QUESTION = "Who is the head of sales?"
OTHERS = ["Sales are discussed on Tuesdays.", "The head office moved to Lyon.", "Ines plays the violin."]


async def recall(tenant: Tenant, query: str = QUESTION, **fields: object) -> pb.RecallResponse:
    return await tenant.recall.Recall(pb.RecallRequest(query=query, min_relevance=0, **fields))  # type: ignore[arg-type]


def contents(response: pb.RecallResponse) -> list[str]:
    return [hit.memory.content or hit.message.content for hit in response.hits]


@pytest.mark.system
@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (OLDER, NEWER, QUESTION),
        ("Logs are kept for 14 days.", "Logs are now kept for 90 days.", "How long do we keep logs?"),
        ("Kaya eats fish.", "Kaya does not eat fish.", "Does Kaya eat fish?"),
        ("The audit begins on 4 May.", "The audit begins on 11 June.", "When does the audit begin?"),
    ],
)
async def test_the_newer_value_comes_first_and_names_the_older_one(
    tenant: Tenant, older: str, newer: str, question: str
) -> None:
    older_id, newer_id = [await tenant.remember(content) for content in (older, newer)]
    for content in OTHERS:
        await tenant.remember(content)

    response = await recall(tenant, question)

    first, second, *_ = response.hits
    assert [first.item_id, second.item_id] == [newer_id, older_id]
    assert (list(first.older_ids), list(second.older_ids)) == ([older_id], [])
    assert all(not hit.older_ids for hit in response.hits[1:])
    for hit in response.hits:
        assert hit.score == pytest.approx(sum(part.weight * part.value for part in hit.components))
    assert [hit.score for hit in response.hits] == sorted((hit.score for hit in response.hits), reverse=True)


@pytest.mark.system
async def test_one_hit_is_the_newest_of_all(tenant: Tenant) -> None:
    ids = [
        await tenant.remember(f"The head of sales is {name}.")
        for name in ("Ines Valdoro", "Tariq", "Bruno Kest", "Olga")
    ]

    response = await recall(tenant, limit=1)

    assert [hit.item_id for hit in response.hits] == ids[3:]
    assert list(response.hits[0].older_ids) == ids[2::-1]


@pytest.mark.system
async def test_a_value_that_the_query_names_keeps_its_place_among_others(tenant: Tenant) -> None:
    for number in range(20):
        await tenant.remember(f"tea number {number}")

    found = [await recall(tenant, "tea number 7", limit=limit) for limit in (1, 5, 15, 20)]

    ids = [[hit.item_id for hit in response.hits] for response in found]
    assert contents(found[0]) == ["tea number 7"]
    assert all(shorter == longer[: len(shorter)] for shorter, longer in pairwise(ids))


async def test_what_is_older_alone_keeps_its_place(tenant: Tenant) -> None:
    await tenant.remember(OLDER)
    before = await recall(tenant)

    for content in OTHERS:
        await tenant.remember(content)
    after = await recall(tenant)

    assert contents(before)[0] == contents(after)[0] == OLDER
    assert not any(hit.older_ids for hit in after.hits)


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        # The query names a value, or asks for what was before.
        (OLDER, NEWER, "Is Ines Valdoro the head of sales?"),
        (OLDER, NEWER, "Who was the head of sales before?"),
        # Another subject, and words that are no values.
        ("The head of Legal is Ruben Maas.", "The head of Finance is Ada Lund.", "Who is the head of Legal?"),
        ("Ben is allergic to nuts.", "Clara is allergic to nuts.", "Who is allergic to nuts?"),
        ("Room 204 is booked by Pavel.", "Room 305 is booked by Irene.", "Which room is booked?"),
        ("The kitchen is painted green.", "The cellar is painted green.", "What is painted green?"),
        # A further fact beside the first one.
        ("The invoice is overdue.", "The invoice of Vento is overdue.", "Which invoice is overdue?"),
    ],
)
async def test_what_is_no_change_takes_no_place(tenant: Tenant, older: str, newer: str, question: str) -> None:
    for content in (older, newer):
        await tenant.remember(content)

    response = await recall(tenant, question)

    assert len(response.hits) == 2
    assert not any(hit.older_ids for hit in response.hits)
    assert not any(part.signal == "newer" for hit in response.hits for part in hit.components)


@pytest.mark.parametrize(
    "fields", [({"subject_id": "anna"}, {"subject_id": "ben"}), ({"key": "sales.head"}, {"key": "sales.lead"})]
)
async def test_items_of_two_subjects_or_keys_change_nothing_of_each_other(
    tenant: Tenant, fields: tuple[dict[str, str], dict[str, str]]
) -> None:
    for content, one in zip((OLDER, NEWER), fields, strict=True):
        await tenant.remember(content, **one)

    response = await recall(tenant)

    assert len(response.hits) == 2
    assert not any(hit.older_ids for hit in response.hits)


async def test_a_speaker_changes_what_the_same_speaker_said(tenant: Tenant) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, name=name, content=f"My seat on the train is {seat}.")
        for name, seat in (("Marta", 41), ("Ines", 17), ("Marta", 52))
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )

    response = await recall(tenant, "What is Marta's seat on the train?")

    first = response.hits[0]
    assert (first.message.name, first.message.content) == ("Marta", "My seat on the train is 52.")
    changed = [hit.message.content for hit in response.hits if hit.item_id in first.older_ids]
    assert changed == ["My seat on the train is 41."]


async def test_what_became_true_later_is_newer_whenever_it_was_written(tenant: Tenant) -> None:
    def since(year: int) -> Timestamp:
        return Timestamp(seconds=(year - 1970) * 31_556_952)

    later = await tenant.remember(NEWER, valid_from_time=since(2024))
    await tenant.remember(OLDER, valid_from_time=since(2021))

    response = await recall(tenant)

    assert response.hits[0].item_id == later


@pytest.mark.system
async def test_a_distrusted_newer_item_changes_nothing(cluster: Cluster, tenant: Tenant) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    truth = await create(tenant, OLDER)
    await create(mallory, NEWER)
    await rate(tenant, principal, 0.45)
    await rescore(cluster, tenant)

    response = await recall(tenant)

    assert response.hits[0].item_id == truth.memory_id
    assert not any(hit.older_ids for hit in response.hits)


@pytest.mark.parametrize("mode", [pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC])
async def test_other_modes_and_what_is_similar_keep_the_order_of_their_scores(
    tenant: Tenant, mode: pb.SearchMode
) -> None:
    older_id, _ = [await tenant.remember(content) for content in (OLDER, NEWER)]

    response = await recall(tenant, mode=mode)
    similar = await tenant.recall.FindSimilar(pb.FindSimilarRequest(item_id=older_id))

    hits = [*response.hits, *similar.hits]
    assert len(hits) == 3
    assert not any(part.signal == "newer" for hit in hits for part in hit.components)


async def test_the_receipt_of_such_an_answer_says_so_and_replays(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    older_id, newer_id = [await tenant.remember(content) for content in (OLDER, NEWER)]
    response = await recall_with_receipt(tenant, QUESTION, min_relevance=0)
    await tenant.remember("The head of sales is Olga.")

    receipt = await get_receipt(tenant, response.receipt_id)
    replayed = await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=response.receipt_id))

    assert [hit.item_id for hit in receipt.hits] == [newer_id, older_id]
    gains = [next((part.raw for part in hit.signals if part.signal == "newer"), 0.0) for hit in receipt.hits]
    assert gains[0] == pytest.approx(-gains[1])
    assert replayed.identical, replayed
    assert [list(hit.older_ids) for hit in replayed.response.hits] == [[older_id], []]
