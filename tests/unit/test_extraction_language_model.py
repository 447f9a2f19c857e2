"""What of a language model's proposals becomes a fact: nothing that the message does not say."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from fix_catalogue import over
from fix_language_model import CELLO, HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from skein_worker.extraction.language_model import Proposal, judge, read_proposals
from skein_worker.extraction.model import Fact, Message, Reason
from skein_worker.extraction.rules import extract

ZONE = ZoneInfo("Europe/Berlin")
# A Wednesday.
NOW = datetime(2026, 3, 11, 10, tzinfo=ZONE)
# Statements that no rule reads.
STATEMENTS = (
    CELLO,
    "My sister Eva taught Tom to swim.",
    "I never sleep before two.",
    "Ich spiele Cello in einem Quartett.",
    "Toco el violonchelo en un cuarteto.",
    "我每天早上去游泳。",
)
statements = st.sampled_from(STATEMENTS)
words = st.sampled_from(
    ["Tom", "Eva", "not", "never", "7", "Vienna", "violin", "kg", "nicht", "no", "不", "https://x.y"]
)


def said(text: str, speaker: str = "Mira") -> Message:
    return Message(text=text, speaker=speaker, time=NOW, zone=ZONE)


def judged(text: str, quote: str, content: str = "", type_: str = "fact") -> Fact | Reason:
    extraction = judge(said(text), [Proposal(quote=quote, text=content, type=type_)])
    return extraction.facts[0] if extraction.facts else extraction.refusals[0].reason


@over("name", HOSTILE)
def test_a_hostile_proposal_is_refused_with_its_reason(name: str) -> None:
    text, proposal, reason = HOSTILE[name]

    assert judged(text, proposal["quote"], proposal.get("text", ""), proposal.get("type", "fact")) == reason


@over("text", STATEMENTS)
def test_a_statement_is_a_fact_in_its_own_words_without_a_key(text: str) -> None:
    fact = judged(text, text)

    assert isinstance(fact, Fact)
    assert (fact.content, fact.quote, fact.key) == (text[:-1], text[:-1], None)


@over(
    ("text", "content"),
    [
        (CELLO, "Mira plays the cello in a quartet"),
        (CELLO, "The user plays the cello in a quartet"),
        ("I'm afraid of heights.", "Mira is afraid of heights"),
        ("My desk is made of oak.", "Mira's desk is made of oak"),
        ("Ich spiele Cello in einem Quartett.", "Mira spielt Cello in einem Quartett"),
        ("Toco el violonchelo en un cuarteto.", "Mira toca el violonchelo en un cuarteto"),
        ("我每天早上去游泳。", "用户每天早上去游泳"),
        ("My thesis defence is tomorrow.", "My thesis defence is 2026-03-12"),
    ],
)
def test_a_text_may_name_the_speaker_and_the_day_that_skein_resolved(text: str, content: str) -> None:
    fact = judged(text, text, content)

    assert isinstance(fact, Fact)
    assert fact.content == content


def test_what_the_message_takes_back_is_no_fact() -> None:
    assert judged(f"{CELLO} Forget that.", CELLO) is Reason.TAKEN_BACK


def test_days_are_those_that_skein_resolves() -> None:
    fact = judged("My thesis defence is tomorrow at 9:30.", "My thesis defence is tomorrow at 9:30")
    since = judged("I've been climbing since 2015.", "I've been climbing since 2015")

    assert isinstance(fact, Fact)
    assert isinstance(since, Fact)
    assert (fact.event_time, since.valid_from) == ("2026-03-12T09:30", date(2015, 1, 1))


def test_plain_apostrophes_of_a_model_find_those_of_the_message() -> None:
    fact = judged("I’ve been climbing since 2015.", "I've been climbing since 2015")

    assert isinstance(fact, Fact)
    assert fact.content == "I’ve been climbing since 2015"


def test_what_rules_have_read_is_no_fact_again() -> None:
    message = said("I live in Porto. I play the cello in a quartet.")
    known = extract(message).facts

    extraction = judge(
        message,
        [Proposal(quote="I live in Porto.", text="", type="fact"), Proposal(quote=CELLO, text="", type="fact")],
        known=known,
    )

    assert [fact.content for fact in known] == ["I live in Porto"]
    assert [fact.content for fact in extraction.facts] == [CELLO[:-1]]
    assert extraction.refusals == ()


def test_types_are_those_of_the_policy() -> None:
    proposals = [Proposal(quote=CELLO, text="", type="preference")]

    extraction = judge(said(CELLO), proposals, memory_types={"decision"})

    assert [refusal.reason for refusal in extraction.refusals] == [Reason.TYPE_NOT_ALLOWED]


@given(statements, st.integers(0, 20), words)
def test_a_word_more_is_refused(text: str, place: int, word: str) -> None:
    parts = list(text[:-1]) if text.startswith("我") else text[:-1].split()
    parts.insert(min(place, len(parts)), word)
    content = ("" if text.startswith("我") else " ").join(parts)

    assert isinstance(judged(text, text, content), Reason)


@given(statements, st.data())
def test_a_word_less_or_two_that_are_swapped_are_refused(text: str, data: st.DataObject) -> None:
    is_chinese = text.startswith("我")
    parts = list(text[:-1]) if is_chinese else text[:-1].split()
    first = data.draw(st.integers(0, len(parts) - 1))
    second = data.draw(st.integers(0, len(parts) - 1))
    changed = list(parts)
    if first == second:
        del changed[first]
    else:
        changed[first], changed[second] = changed[second], changed[first]

    assert isinstance(judged(text, text, ("" if is_chinese else " ").join(changed)), Reason)


@given(statements, st.data())
def test_a_part_of_a_statement_is_refused(text: str, data: st.DataObject) -> None:
    body = text[:-1]
    start = data.draw(st.integers(0, len(body) - 1))
    end = data.draw(st.integers(start + 1, len(body)))
    quote = body[start:end]
    result = judged(text, quote)

    # Spaces around a quote are no part of it.
    assert quote.strip() in {"", body} or isinstance(result, Reason)


@given(st.lists(statements, min_size=2, max_size=4))
def test_several_statements_are_no_fact(texts: list[str]) -> None:
    whole = " ".join(texts)

    assert judged(whole, whole) is Reason.NOT_ONE_STATEMENT


@pytest.mark.system
@given(st.text(max_size=200), st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_any_proposal_for_any_message_gives_a_part_of_it_or_a_reason(text: str, quote: str, content: str) -> None:
    extraction = judge(said(text), [Proposal(quote=quote, text=content, type="fact")])

    assert len(extraction.facts) + len(extraction.refusals) == 1
    assert all(text[fact.span.start : fact.span.end] == fact.quote for fact in extraction.facts)


@pytest.mark.system
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=20),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["facts", "quote", "text", "type"]), inner),
        max_leaves=12,
    )
)
def test_any_answer_is_proposals_or_no_answer(document: object) -> None:
    try:
        proposals = read_proposals(document)
    except ValueError:
        return

    assert all(proposal.quote for proposal in proposals)
