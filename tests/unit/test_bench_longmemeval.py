from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from skein.session.v1 import session_pb2
from skein_cluster.bench.longmemeval import read_haystacks
from skein_importers.records import RecordInvalid

if TYPE_CHECKING:
    from pathlib import Path

ENTRY: dict[str, Any] = {
    "question_id": "sail",
    "question_type": "temporal-reasoning",
    "question": "When did it tear?",
    "answer": 3,
    "question_date": "2023/06/01 (Thu) 10:00",
    "haystack_session_ids": ["noise_1", "answer_7", "noise_1"],
    "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/20 (Sat) 22:21", "2023/05/21 (Sun) 00:00"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "Hm."},
        ],
        [{"role": "assistant", "content": "The sail tore.", "has_answer": True}],
        [{"role": "user", "content": "Bye."}],
    ],
    "answer_session_ids": ["answer_7"],
}


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


def test_each_turn_with_a_text_is_a_message_at_its_time(tmp_path: Path) -> None:
    (haystack,) = read_haystacks(written(tmp_path / "x.json", [ENTRY]))

    assert [(one.external_id, one.session_id, one.content) for one in haystack.messages] == [
        ("1:1", "session_1", "Hi."),
        ("1:3", "session_1", "Hm."),
        ("2:1", "session_2", "The sail tore."),
        ("3:1", "session_3", "Bye."),
    ]
    assert haystack.messages[1].create_time.ToDatetime(UTC) == datetime(2023, 5, 20, 2, 21, 2, tzinfo=UTC)
    assert [one.role for one in haystack.messages[1:3]] == [
        session_pb2.MESSAGE_ROLE_USER,
        session_pb2.MESSAGE_ROLE_ASSISTANT,
    ]


def test_hits_are_counted_by_the_sessions_that_the_file_names(tmp_path: Path) -> None:
    (haystack,) = read_haystacks(written(tmp_path / "x.json", [ENTRY]))

    scored = haystack.by_session(["1:3", "3:1", "1:1", "2:1"])

    assert (scored.category, scored.evidence) == ("temporal-reasoning", frozenset({"answer_7"}))
    assert scored.hit_ids == ("noise_1", "answer_7")


def test_what_its_haystack_does_not_answer_has_no_evidence(tmp_path: Path) -> None:
    (haystack,) = read_haystacks(written(tmp_path / "x.json", [ENTRY | {"question_id": "sail_abs"}]))

    assert haystack.question.evidence == frozenset()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"answer_session_ids": []}, "sail has no answer_session_ids"),
        ({"answer_session_ids": ["answer_8"]}, "sail has no session answer_8"),
        ({"haystack_dates": ["2023/05/20 (Sat) 02:21"]}, "zip"),
        ({"haystack_dates": ["soon"] * 3}, "soon"),
        ({"haystack_sessions": [[{"role": "robot", "content": "Beep."}], [], []]}, "robot"),
        ({"haystack_sessions": [[], [], []]}, "no turns"),
    ],
)
def test_an_entry_at_fault_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = written(tmp_path / "x.json", [ENTRY, ENTRY | change])

    with pytest.raises(RecordInvalid, match=f"entry 2 .*{problem}"):
        list(read_haystacks(path))


@pytest.mark.parametrize(
    ("text", "problem"), [("[]", "no question"), ('[{"a": 1}]', "entry 1"), ("[1]", "entry 1"), ("[", "JSON")]
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(RecordInvalid, match=problem):
        list(read_haystacks(path))
