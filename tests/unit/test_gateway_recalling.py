from __future__ import annotations

import grpc
import pytest
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_gateway.recalling import Outcome, budget, merged
from skein_gateway.remembering import append_request, create_request


def answered(arm: pb.Arm, *hits: tuple[str, float], **fields: object) -> Outcome:
    found = [recall_pb2.Hit(item_id=item_id, score=score) for item_id, score in hits]
    return Outcome(arm=arm, seconds=0.012, response=recall_pb2.RecallResponse(hits=found, **fields))  # type: ignore[arg-type]  # Fields of the response.


def failed(arm: pb.Arm, code: grpc.StatusCode) -> Outcome:
    return Outcome(arm=arm, seconds=0.5, fault=aio.AioRpcError(code, aio.Metadata(), aio.Metadata()))


def test_the_best_of_all_arms_come_first_and_ties_keep_the_order_of_ids() -> None:
    memories = answered(pb.ARM_MEMORIES, ("b", 0.5), ("d", 0.4))
    messages = answered(pb.ARM_MESSAGES, ("c", 0.9), ("a", 0.5))

    response = merged([memories, messages], 3)

    assert [hit.item_id for hit in response.hits] == ["c", "a", "b"]
    assert [status.hit_count for status in response.arms] == [2, 2]
    assert not response.incomplete


def test_ten_hits_are_returned_when_no_limit_is_given() -> None:
    many = answered(pb.ARM_MEMORIES, *((str(number), number / 100) for number in range(30)))

    assert len(merged([many], 0).hits) == 10


def test_the_last_hits_are_left_out_of_an_answer_that_would_be_too_large() -> None:
    arms = [
        answered(arm, *((f"{arm} {number}", 0.5) for number in range(3))) for arm in (pb.ARM_MEMORIES, pb.ARM_MESSAGES)
    ]
    for outcome in arms:
        for hit in outcome.hits:
            hit.memory.content = "x" * 900_000

    response = merged(arms, 100)

    assert [hit.item_id for hit in response.hits] == ["1 0", "1 1", "1 2"]
    assert [status.hit_count for status in response.arms] == [3, 3]


def test_arms_without_an_answer_are_named() -> None:
    response = merged(
        [answered(pb.ARM_MEMORIES, ("a", 0.5)), failed(pb.ARM_MESSAGES, grpc.StatusCode.DEADLINE_EXCEEDED)], 10
    )

    assert response.incomplete == [pb.ARM_MESSAGES]
    assert [status.state for status in response.arms] == [pb.ARM_STATE_OK, pb.ARM_STATE_TIMED_OUT]
    assert response.arms[1].elapsed.ToMilliseconds() == 500


def test_an_arm_that_answered_by_words_alone_says_so_and_is_not_incomplete() -> None:
    response = merged([answered(pb.ARM_MEMORIES, ("a", 0.5), dense_unavailable=True)], 10)

    assert response.arms[0].state == pb.ARM_STATE_LEXICAL_ONLY
    assert not response.incomplete


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN])
def test_any_other_fault_is_an_arm_that_is_unavailable(code: grpc.StatusCode) -> None:
    assert failed(pb.ARM_MEMORIES, code).state == pb.ARM_STATE_UNAVAILABLE


def test_the_model_is_the_one_that_any_arm_searched() -> None:
    arms = [answered(pb.ARM_MEMORIES), answered(pb.ARM_MESSAGES, model="m")]

    assert merged(arms, 10).model == "m"


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [(float("inf"), 5.0), (30.0, 5.0), (4.0, 3.75), (1.0, 0.9), (0.0, 0.0)],
)
def test_an_arm_leaves_time_to_answer(remaining: float, expected: float) -> None:
    assert budget(remaining, 5.0) == pytest.approx(expected)


def test_the_parts_of_a_request_have_ids_of_their_own() -> None:
    request = pb.RememberRequest(session_id="s", messages=[{}], memories=[{}], request_id="r")

    appending, creating = append_request(request), create_request(request)

    assert appending is not None
    assert creating is not None
    assert (appending.request_id, creating.request_id) == ("remember:r:messages", "remember:r:memories")
    assert appending.create_session


def test_without_a_request_id_the_parts_have_none() -> None:
    request = pb.RememberRequest(session_id="s", messages=[{}], memories=[{}])

    appending, creating = append_request(request), create_request(request)

    assert appending is not None
    assert creating is not None
    assert (appending.request_id, creating.request_id) == ("", "")


def test_memories_belong_to_the_session_of_the_request_unless_they_name_another() -> None:
    request = pb.RememberRequest(session_id="s", memories=[{}, {"session_id": "own"}])

    creating = create_request(request)

    assert creating is not None
    assert [memory.session_id for memory in creating.memories] == ["s", "own"]


def test_a_part_that_is_empty_is_not_asked_for() -> None:
    assert append_request(pb.RememberRequest()) is None
    assert create_request(pb.RememberRequest()) is None
