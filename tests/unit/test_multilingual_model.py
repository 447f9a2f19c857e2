"""The multilingual embedded model: its weights, its tokenizer, and the scripts that it can read."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from fix_catalogue import over

from skein_recall.embedded_model import packed_model
from skein_recall.embedded_model.descriptions import LATIN, MULTILINGUAL, OF_HUNDRED_LANGUAGES, readable_share
from skein_recall.embedded_model.embedder import CHUNK_TOKENS, LocalEmbedder
from skein_recall.embedded_model.encoder import WINDOW, Encoder
from skein_recall.embedded_model.weights import WeightsUnavailable

FACTS = [
    "Our cat is called Miso and sleeps on the radiator.",
    "Grandpa takes his blood pressure tablet after breakfast.",
    "At most two thousand euros may be spent on the garden.",
]
QUESTIONS = {
    "German": "Wie ist der Name unseres Haustiers?",
    "Spanish": "¿Cuándo se traga el yayo su medicina?",
    "Chinese": "买植物和修围栏有多少预算\uff1f",
    "Arabic": "ما اسم حيواننا الأليف؟",
    "Hindi": "दादा अपनी दवा कब खाते हैं?",
    "Thai": "มีงบเท่าไรสำหรับต้นไม้และรั้ว",
}


@cache
def encoder() -> Encoder:
    return Encoder.load(MULTILINGUAL, threads=1)


@pytest.mark.system
def test_questions_in_six_languages_are_nearest_to_the_english_fact_that_answers() -> None:
    passages = encoder().vectors(encoder().tokens([f"passage: {fact}" for fact in FACTS]))
    questions = encoder().vectors(encoder().tokens([f"query: {text}" for text in QUESTIONS.values()]))

    nearest = (questions @ passages.T).argmax(axis=1).tolist()

    assert dict(zip(QUESTIONS, nearest, strict=True)) == dict(zip(QUESTIONS, [0, 1, 2, 0, 1, 2], strict=True))


@pytest.mark.system
@over(
    ("text", "plain"),
    [("\uff21\uff22\uff23 \ufb01", "ABC fi"), ("two\n lines", "two lines"), ("a\x07b", "ab"), ("  a", " a")],
)
def test_forms_of_a_text_that_look_alike_have_the_same_tokens(text: str, plain: str) -> None:
    assert encoder().tokens([text]) == encoder().tokens([plain])


@pytest.mark.system
async def test_a_text_without_spaces_is_cut_into_chunks_that_fit_and_leave_nothing_out() -> None:
    text = "我们的猫叫味噌\uff0c睡在暖气片上。" * 80
    async with LocalEmbedder.load(MULTILINGUAL) as embedder:
        spans = embedder.spans(text, prefix=MULTILINGUAL.passage_prefix)

    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(start <= end for (_, end), (start, _) in pairwise(spans))
    assert all(len(encoder().words(text[start:end])[0]) <= CHUNK_TOKENS for start, end in spans)
    assert len(encoder().tokens([text])[0]) == WINDOW


def test_weights_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_model, "_SHA256", "0" * 64)

    with pytest.raises(WeightsUnavailable, match="another version"):
        Encoder.load(MULTILINGUAL, threads=1)


@over(("text", "share"), [*((text, 1.0) for text in QUESTIONS.values()), ("ᏣᎳᎩ", 0.0)])
def test_it_reads_the_scripts_of_its_languages(text: str, share: float) -> None:
    assert readable_share(text, OF_HUNDRED_LANGUAGES) == share


def test_the_english_models_read_latin_letters() -> None:
    assert readable_share(QUESTIONS["Thai"], LATIN) == 0
