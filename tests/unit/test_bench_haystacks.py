from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skein.session.v1 import session_pb2
from skein_cluster.bench.haystacks import read_beam, read_longmemeval
from skein_importers.records import RecordInvalid

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
    (haystack,) = read_longmemeval(written(tmp_path / "x.json", [ENTRY]))

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
    (haystack,) = read_longmemeval(written(tmp_path / "x.json", [ENTRY]))

    scored = haystack.by_unit(haystack.questions[0], ["1:3", "3:1", "1:1", "2:1"])

    assert (scored.category, scored.evidence) == ("temporal-reasoning", frozenset({"answer_7"}))
    assert scored.hit_ids == ("noise_1", "answer_7")


def test_what_its_haystack_does_not_answer_has_no_evidence(tmp_path: Path) -> None:
    (haystack,) = read_longmemeval(written(tmp_path / "x.json", [ENTRY | {"question_id": "sail_abs"}]))

    (question,) = haystack.questions
    assert question.evidence == frozenset()
    assert (question.answer, question.asked_on) == ("3", "2023/06/01 (Thu) 10:00")


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
        list(read_longmemeval(path))


@pytest.mark.parametrize(
    ("text", "problem"), [("[]", "no question"), ('[{"a": 1}]', "entry 1"), ("[1]", "entry 1"), ("[", "JSON")]
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(RecordInvalid, match=problem):
        list(read_longmemeval(path))


CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I moor at pier 4. ->-> 1,1"},
                {"role": "assistant", "id": 1, "content": "Noted."},
            ],
            [{"role": "user", "id": 2, "content": "I never moor at a pier."}],
        ],
    },
    {
        "batch_number": 2,
        "turns": [[{"role": "user", "id": 4, "time_anchor": "April-02-2024", "content": "Now I moor at pier 9."}]],
    },
]
PROBING: dict[str, Any] = {
    "abstention": [{"question": "Who built it?", "ideal_response": "It was not said.", "rubric": ["says so"]}],
    "contradiction_resolution": [
        {
            "question": "Do I moor at a pier?",
            "ideal_answer": "You said both.",
            "source_chat_ids": {"first_statement": [0], "second_statement": [2]},
            "rubric": ["one", "other"],
        }
    ],
    "instruction_following": [
        {"question": "Where?", "expected_compliance": "With the pier.", "source_chat_ids": [4], "rubric": ["pier"]}
    ],
}


def chat(folder: Path, name: str, batches: object = CHAT, probing: object = PROBING) -> None:
    """Write one chat as BEAM's repository has it."""
    (folder / name / "probing_questions").mkdir(parents=True)
    written(folder / name / "chat.json", batches)
    written(folder / name / "probing_questions/probing_questions.json", probing)


def test_each_turn_of_a_chat_is_a_message_of_its_batch_with_the_time_of_the_last_anchor(tmp_path: Path) -> None:
    chat(tmp_path, "1")

    (haystack,) = read_beam(tmp_path)

    assert [(one.external_id, one.session_id) for one in haystack.messages] == [
        ("0", "batch_1"),
        ("1", "batch_1"),
        ("2", "batch_1"),
        ("4", "batch_2"),
    ]
    days = [one.create_time.ToDatetime(UTC).date().isoformat() for one in haystack.messages]
    assert days == ["2024-03-15"] * 3 + ["2024-04-02"]
    assert [one.role for one in haystack.messages[:2]] == [
        session_pb2.MESSAGE_ROLE_USER,
        session_pb2.MESSAGE_ROLE_ASSISTANT,
    ]


def test_the_evidence_of_a_probing_question_is_its_messages_however_they_are_grouped(tmp_path: Path) -> None:
    chat(tmp_path, "1")

    (haystack,) = read_beam(tmp_path)

    assert [(one.category, sorted(one.evidence), one.answer, one.rubric) for one in haystack.questions] == [
        ("abstention", [], "It was not said.", ("says so",)),
        ("contradiction_resolution", ["0", "2"], "You said both.", ("one", "other")),
        ("instruction_following", ["4"], "With the pier.", ("pier",)),
    ]
    assert haystack.by_unit(haystack.questions[2], ["4", "0"]).hit_ids == ("4", "0")


def test_chats_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "1"):
        chat(tmp_path, name)

    assert [haystack.name for haystack in read_beam(tmp_path)] == ["1", "9", "10"]


@pytest.mark.parametrize(
    ("batches", "probing", "problem"),
    [
        ([{"batch_number": 1}], PROBING, "turns"),
        (CHAT, {"abstention": [{"question": "Who?"}]}, "rubric"),
        (CHAT[:1], PROBING, "instruction_following:1 has no message 4"),
    ],
)
def test_a_chat_at_fault_is_named(tmp_path: Path, batches: object, probing: object, problem: str) -> None:
    chat(tmp_path, "7", batches, probing)

    with pytest.raises(RecordInvalid, match=f"7 is no chat of BEAM .*{problem}"):
        list(read_beam(tmp_path))


def test_a_folder_without_chats_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordInvalid, match=r"no folder with a chat\.json"):
        list(read_beam(tmp_path))
