from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_catalogue import over

from skein_cluster.bench.conversations import evidence_of, read_conversations
from skein_importers.records import RecordInvalid

SAMPLE: dict[str, Any] = {
    "sample_id": "boat",
    "conversation": {
        "speaker_a": "Ruth",
        "speaker_b": "Kemal",
        "session_10_date_time": "12:05 am on 3 June, 2024",
        "session_10": [{"speaker": "Kemal", "dia_id": "D10:1", "text": "The sail is patched."}],
        "session_2_date_time": "1:56 pm on 8 May, 2024",
        "session_2": [
            {"speaker": "Ruth", "dia_id": "D2:1", "text": "The sail tore."},
            {"speaker": "Kemal", "dia_id": "D2:2", "text": "Look.", "blip_caption": "a photo of a torn sail"},
        ],
        # A date without a session.
        "session_11_date_time": "1:56 pm on 9 June, 2024",
    },
    "qa": [
        {"question": "What tore?", "answer": "The sail", "evidence": ["D2:1; D2:2"], "category": 4},
        {"question": "Who flew?", "adversarial_answer": "Ruth", "evidence": [], "category": 5},
        {"question": "Odd?", "answer": 1, "evidence": ["D2:1"], "category": 9},
    ],
}


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


def test_each_turn_is_a_memory_in_the_order_of_the_sessions(tmp_path: Path) -> None:
    (conversation,) = read_conversations(written(tmp_path / "x.json", [SAMPLE]))

    assert conversation.name == "boat"
    assert [memory.external_id for memory in conversation.memories] == ["D2:1", "D2:2", "D10:1"]
    assert [memory.session_id for memory in conversation.memories] == ["session_2", "session_2", "session_10"]
    assert [memory.source_agent for memory in conversation.memories] == ["Ruth", "Kemal", "Kemal"]
    assert [memory.content for memory in conversation.memories] == [
        'Ruth said, "The sail tore."',
        'Kemal said, "Look." and shared a photo of a torn sail',
        'Kemal said, "The sail is patched."',
    ]


def test_turns_are_created_at_their_sessions_date_one_after_another(tmp_path: Path) -> None:
    (conversation,) = read_conversations(written(tmp_path / "x.json", [SAMPLE]))

    assert [memory.create_time.ToDatetime(UTC) for memory in conversation.memories] == [
        datetime(2024, 5, 8, 13, 56, 0, tzinfo=UTC),
        datetime(2024, 5, 8, 13, 56, 1, tzinfo=UTC),
        datetime(2024, 6, 3, 0, 5, 0, tzinfo=UTC),
    ]


def test_questions_keep_their_words_and_get_their_category_in_words(tmp_path: Path) -> None:
    (conversation,) = read_conversations(written(tmp_path / "x.json", [SAMPLE]))

    assert [(asked.text, asked.category, asked.evidence) for asked in conversation.questions] == [
        ("What tore?", "single-hop", frozenset({"D2:1", "D2:2"})),
        ("Who flew?", "adversarial", frozenset()),
        ("Odd?", "9", frozenset({"D2:1"})),
    ]


@over(
    ("names", "expected"),
    [
        (["D8:6; D9:17"], {"D8:6", "D9:17"}),
        (["D1:2", "D1:2"], {"D1:2"}),
        (["D", "D1:20"], {"D1:20"}),
        (["D:11:26"], {"D11:26"}),
        (["D30:05"], {"D30:5"}),
        ([], set()),
    ],
)
def test_evidence_is_cleaned(names: list[str], expected: set[str]) -> None:
    assert evidence_of(names) == expected


@pytest.mark.parametrize("value", [{"sample_id": "x"}, [1], [{"sample_id": "x"}], [{**SAMPLE, "conversation": []}]])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, value: object) -> None:
    path = written(tmp_path / "x.json", value)

    with pytest.raises(RecordInvalid, match="LoCoMo"):
        read_conversations(path)


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("not json", "utf-8")

    with pytest.raises(RecordInvalid, match="LoCoMo"):
        read_conversations(path)
