from __future__ import annotations

from pathlib import Path

import pytest

from skein_cluster.bench.answers import Prompts, read_prompts, verdict
from skein_cluster.bench.conversations import BenchQuestion
from skein_importers.records import RecordInvalid

PROMPTS = Prompts(answer="{question}", judges={"default": "d", "abstention": "a", "temporal": "t"})


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("yes", 1.0),
        ("No.", 0.0),
        ('{"label": "CORRECT"}', 1.0),
        ('The answer says Bern. ```json\n{"label": "WRONG", "reason": "not correct"}\n```', 0.0),
        ('{"score": 0.5, "reason": "no date"}', 0.5),
    ],
)
def test_a_verdict_is_a_word_a_label_or_a_score(text: str, score: float) -> None:
    assert verdict(text) == score


@pytest.mark.parametrize("text", ["", "Perhaps.", "yes and no", '{"score": 7}', '{"label": "?"}', "{nothing}"])
def test_other_words_are_no_verdict(text: str) -> None:
    with pytest.raises(ValueError, match="no verdict"):
        verdict(text)


@pytest.mark.parametrize(
    ("category", "evidence", "prompt"),
    [
        ("temporal", {"m1"}, "t"),
        # Nothing answers it, whatever its kind is.
        ("temporal", set(), "a"),
        ("other", {"m1"}, "d"),
    ],
)
def test_a_question_is_judged_by_the_prompt_of_its_kind(category: str, evidence: set[str], prompt: str) -> None:
    assert PROMPTS.judge_of(BenchQuestion("?", category, frozenset(evidence))) == prompt


@pytest.mark.parametrize("text", ["", 'answer = "{question}"', 'answer = "a"\n[judge]\nother = "x"', "= 1"])
def test_a_file_without_both_prompts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prompts.toml"
    path.write_text(text)

    with pytest.raises(RecordInvalid, match=r"prompts\.toml should have answer"):
        read_prompts(path)
