from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from fix_catalogue import over
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_gateway.context.convert import items_of
from skein_gateway.recall.rpc import (
    BRANCHES,
    BranchOutcome,
    BranchResult,
    RecallResult,
    TimedResponse,
    block_hits,
    branch_timeout_seconds,
    filter_allows_blocks,
    index_result,
    record_branch_metrics,
    select_branches,
)
from skein_gateway.remember import append_request, create_request
from skein_kit.identity.identity_token import Caller

MEMORY, MESSAGE, BLOCK = (
    recall_pb2.ITEM_KIND_MEMORY,
    recall_pb2.ITEM_KIND_MESSAGE,
    recall_pb2.ITEM_KIND_BLOCK,
)
BOTH: list[pb.Branch] = [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES]


def hit(item_id: str, score: float, kind: recall_pb2.ItemKind = MEMORY, **fields: Any) -> recall_pb2.Hit:
    return recall_pb2.Hit(item_id=item_id, score=score, kind=kind, **fields)


def indexed(*hits: recall_pb2.Hit, branches: list[pb.Branch] = BOTH, **fields: Any) -> BranchResult:
    """What the recall service answered for these branches."""
    return index_result(branches, TimedResponse(seconds=0.012, response=recall_pb2.RecallResponse(hits=hits, **fields)))


def blocks(*hits: recall_pb2.Hit) -> BranchResult:
    return BranchResult(
        outcomes=(BranchOutcome(branch=pb.BRANCH_BLOCKS, state=pb.BRANCH_STATE_OK, hit_count=len(hits)),), hits=hits
    )


def failed(branch: pb.Branch, code: grpc.StatusCode) -> BranchOutcome:
    fault = aio.AioRpcError(code, aio.Metadata(), aio.Metadata())
    return BranchOutcome.failed(branch, TimedResponse(seconds=0.5, fault=fault))


def caller(*permissions: str) -> Caller:
    return Caller(principal="p", tenant_id=uuid.UUID(int=1), permissions=frozenset(permissions))


def test_the_best_of_all_branches_come_first_and_ties_keep_the_order_of_ids() -> None:
    result = indexed(hit("c", 0.9, MESSAGE), hit("b", 0.5), hit("d", 0.4))

    answer = RecallResult(results=[result, blocks(hit("a", 0.5, BLOCK), hit("e", 0.1, BLOCK))]).response(3)

    assert [one.item_id for one in answer.hits] == ["c", "a", "b"]
    assert [(status.branch, status.hit_count) for status in answer.branches] == [
        (pb.BRANCH_MEMORIES, 2),
        (pb.BRANCH_MESSAGES, 1),
        (pb.BRANCH_BLOCKS, 2),
    ]
    assert not answer.incomplete


def test_the_last_hits_are_left_out_of_an_answer_that_would_be_too_large() -> None:
    large = recall_pb2.Hit().memory
    large.content = "x" * 900_000
    results = [
        indexed(*(hit(f"a{number}", 0.5, memory=large) for number in range(3))),
        blocks(*(hit(f"b{number}", 0.5, BLOCK, memory=large) for number in range(3))),
    ]

    assert [one.item_id for one in RecallResult(results=results).response(100).hits] == ["a0", "a1", "a2"]


def test_hits_make_room_for_the_profile() -> None:
    large = recall_pb2.Hit().memory
    large.content = "x" * 900_000
    profile = subjects_pb2.Subject(subject_id="anna")
    profile.profile.update({"notes": "y" * 250_000 * 8})
    part = BranchResult(outcomes=(BranchOutcome(branch=pb.BRANCH_PROFILE, state=pb.BRANCH_STATE_OK),), profile=profile)
    result = indexed(*(hit(f"a{number}", 0.5, memory=large) for number in range(3)))

    answer = RecallResult(results=[result, part]).response(10)

    assert [one.item_id for one in answer.hits] == ["a0"]
    assert answer.profile == profile


def test_branches_that_answered_by_words_alone_say_so_and_are_not_incomplete() -> None:
    answer = RecallResult(results=[indexed(hit("a", 0.5), dense_unavailable=True)]).response(10)

    assert [status.state for status in answer.branches] == [pb.BRANCH_STATE_LEXICAL_ONLY] * 2
    assert not answer.incomplete


def test_an_branch_of_whose_hits_none_has_a_vector_yet_answered_by_words_alone() -> None:
    result = indexed(
        hit("a", 0.5), hit("b", 0.4, MESSAGE), hit("c", 0.3, MESSAGE, similarity=0.2), model="m", dense_path="exact"
    )

    assert [(outcome.state, outcome.unembedded_count) for outcome in result.outcomes] == [
        (pb.BRANCH_STATE_LEXICAL_ONLY, 1),
        (pb.BRANCH_STATE_OK, 1),
    ]


def test_no_hit_lacks_a_vector_without_a_comparison() -> None:
    result = indexed(hit("a", 0.5), dense_path="none")

    assert [(outcome.state, outcome.unembedded_count) for outcome in result.outcomes] == [(pb.BRANCH_STATE_OK, 0)] * 2


@over("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN])
def test_any_other_fault_is_an_branch_that_is_unavailable(code: grpc.StatusCode) -> None:
    assert failed(pb.BRANCH_MEMORIES, code).state == pb.BRANCH_STATE_UNAVAILABLE


def test_the_recall_service_s_search_details_are_passed_on() -> None:
    answer = RecallResult(
        results=[
            indexed(
                model="m",
                dense_path="exact",
                emptied_by=["types"],
                formula="scores-3",
                filter_emptied=True,
                pending_embedding_count=7,
            )
        ]
    ).response(10)

    assert (answer.model, answer.dense_path, answer.formula) == ("m", "exact", "scores-3")
    assert answer.emptied_by == ["types"]
    assert answer.pending_embedding_count == 7
    assert [status.filter_emptied for status in answer.branches] == [True, True]


def test_branches_are_counted_by_how_they_did() -> None:
    counter = BRANCHES.labels("blocks", "timed_out")
    before = counter._value.get()

    record_branch_metrics([failed(pb.BRANCH_BLOCKS, LATE), FINE])

    assert counter._value.get() == before + 1


UNAVAILABLE, LATE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED
FINE = BranchOutcome(branch=pb.BRANCH_MEMORIES, state=pb.BRANCH_STATE_OK)


ALL = ("recall.read", "memory.read", "subject.read")


@over(
    ("condition", "permissions", "branches"),
    [
        ({}, ALL, BOTH),
        ({"agent_id": "a"}, ALL, [*BOTH, pb.BRANCH_BLOCKS]),
        ({"visible_to": {"agent_id": "a", "subject_id": "s"}}, ALL, [*BOTH, pb.BRANCH_BLOCKS, pb.BRANCH_PROFILE]),
        ({"visible_to": {"subject_id": "s"}, "session_id": "t"}, ALL, [*BOTH, pb.BRANCH_PROFILE]),
        ({"agent_id": "a", "types": ["fact"]}, ALL, BOTH),
        ({"agent_id": "a", "visible_to": {"subject_id": "s"}}, ("recall.read",), BOTH),
        (
            {"agent_id": "a", "visible_to": {"subject_id": "s"}},
            ("recall.read", "memory.read"),
            [*BOTH, pb.BRANCH_BLOCKS],
        ),
    ],
)
def test_unnamed_branches_follow_from_the_filter(
    condition: dict[str, Any], permissions: tuple[str, ...], branches: list[pb.Branch]
) -> None:
    request = pb.RecallRequest(query="tea", filter=condition)

    assert select_branches(request, caller(*permissions)) == branches


def test_the_subject_of_a_request_brings_its_profile() -> None:
    assert select_branches(pb.RecallRequest(query="tea", subject_id="s"), caller(*ALL)) == [*BOTH, pb.BRANCH_PROFILE]


@over(
    ("request_", "passes"),
    [
        (pb.RecallRequest(filter={"start_time": Timestamp(seconds=1), "agent_id": "a"}), True),
        (pb.RecallRequest(), True),
        (pb.RecallRequest(min_similarity=0.1), False),
        (pb.RecallRequest(filter={"tags_any": ["x"]}), False),
        (pb.RecallRequest(filter={"session_id": "s"}), False),
        (pb.RecallRequest(filter={"where": "x"}), False),
    ],
)
def test_a_block_passes_conditions_on_whom_it_is_for_and_when_it_was_made(
    request_: pb.RecallRequest,
    passes: bool,  # noqa: FBT001 - a parameter.
) -> None:
    assert filter_allows_blocks(request_) == passes


def test_blocks_are_found_by_their_words_and_say_how() -> None:
    blocks = [
        blocks_pb2.Block(block_id="1", label="human", value="Anna drinks green tea."),
        blocks_pb2.Block(block_id="2", label="tea", description="what to serve", value="coffee"),
        blocks_pb2.Block(block_id="3", label="persona", value="Be brief."),
    ]

    actual_block_hits = block_hits(blocks, "Which teas does Anna drink?", 10)

    assert [(one.item_id, one.kind, one.block.label) for one in actual_block_hits] == [
        ("1", BLOCK, "human"),
        ("2", BLOCK, "tea"),
    ]
    component = actual_block_hits[0].components[0]
    assert (component.signal, component.raw, component.weight, component.rank) == ("words", 3, 1, 1)
    assert actual_block_hits[0].score == component.value * component.weight == pytest.approx(1 / 2.2)


@over(
    ("remaining", "expected"),
    [(float("inf"), 5.0), (30.0, 5.0), (4.0, 3.75), (1.0, 0.9), (0.0, 0.0)],
)
def test_an_branch_leaves_time_to_answer(remaining: float, expected: float) -> None:
    assert branch_timeout_seconds(remaining, 5.0) == pytest.approx(expected)


def test_the_best_hit_is_preferred_then_who_is_spoken_with_then_how_the_conversation_ends() -> None:
    results = [
        hit("m1", 0.9, memory={"content": "one", "title": "Title"}),
        hit("s2", 0.8, MESSAGE, message={"message_id": "s2", "content": "two", "name": "Ben"}),
        hit("b3", 0.7, BLOCK, block={"value": "three", "label": "human"}),
    ]
    recent = [recall_pb2.Hit(message={"message_id": name, "content": name, "role": 1}).message for name in ("s1", "s2")]
    profile = subjects_pb2.Subject(subject_id="anna", display_name="Anna", timezone="Europe/Rome")
    profile.preferences.update({"language": "de", "diet": ["no milk", 1]})

    items = list(items_of(pb.RecallResponse(hits=results, profile=profile), recent))

    assert [(item.item_id, item.score, item.is_part) for item in items] == [
        ("m1", 0.9, False),
        ("anna", 0, True),
        ("s2", 0.8, True),
        ("s1", 0, True),
        ("b3", 0.7, False),
    ]
    assert items[0].text == "Title: one"
    assert (
        items[1].text == 'name: Anna\ntime zone: Europe/Rome\npreferences: {"diet": ["no milk", 1], "language": "de"}'
    )
    assert [item.by for item in items] == ["", "", "user", "user", "human"]
    assert len({item.item_id for item in items_of(pb.RecallResponse(hits=results[1:]), recent)}) == 3


def test_without_a_request_id_the_parts_have_none() -> None:
    request = pb.RememberRequest(session_id="s", messages=[{}], memories=[{}])

    appending, creating = append_request(request), create_request(request, may_read=True)

    assert appending is not None
    assert creating is not None
    assert (appending.request_id, creating.request_id) == ("", "")
