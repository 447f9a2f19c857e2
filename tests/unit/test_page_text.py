"""The text of a page depends on its memories alone: the same data give the same bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_kit.ids import new_ids
from skein_memory.memories.model import Draft, Memory
from skein_memory.pages.model import MAX_BYTES, Section, compose

AT = datetime(2026, 1, 2, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SECTIONS = (Section(title="A\nB", limit=3), Section(title="C"))


def draft_of(content: str, key: str | None) -> Draft:
    return Draft(
        external_id=None,
        type="fact",
        title=None,
        key=key,
        content=content,
        data=None,
        tags=(),
        source=None,
        source_agent=None,
        agent_id=None,
        subject_id="anna",
        session_id=None,
        scope="global",
        level="operational",
        confidence=0.5,
        importance=0.5,
        expire_time=None,
        archive_time=None,
        valid_from_time=None,
        valid_to_time=None,
        metadata=None,
        create_time=AT,
    )


@st.composite
def memories(draw: st.DrawFn) -> list[Memory]:
    contents = draw(st.lists(st.tuples(TEXT, TEXT), max_size=8))
    return [
        Memory(
            memory_id=id_,
            draft=draft_of(content, key or None),
            revision=1,
            update_time=AT,
            record_time=AT,
            delete_time=None,
            created_by="test",
            updated_by="test",
        )
        for id_, (content, key) in zip(new_ids(AT, len(contents)), contents, strict=True)
    ]


@pytest.mark.system
@given(first=memories(), second=memories(), data=st.data())
def test_the_same_memories_in_any_order_give_the_same_bytes(
    first: list[Memory], second: list[Memory], data: st.DataObject
) -> None:
    shuffled = [data.draw(st.permutations(chosen)) for chosen in (first, second)]

    page = compose("Anna", SECTIONS, [first, second], is_truncated=False)

    assert compose("Anna", SECTIONS, shuffled, is_truncated=False) == page


@given(chosen=memories())
def test_every_sentence_is_one_line_with_the_number_of_its_citation(chosen: list[Memory]) -> None:
    page = compose("Anna", SECTIONS, [chosen, []], is_truncated=False)

    sentences = [sentence for _, listed in page.sections for sentence in listed]
    lines = page.text.splitlines()
    assert [sentence.number for sentence in sentences] == list(range(1, len(sentences) + 1))
    for sentence in sentences:
        assert f"- {sentence.text} [{sentence.number}]" in lines
        assert f"[{sentence.number}] memory {sentence.memory_id} revision 1" in lines
    # Stored text makes no line of its own: a title, a blank line, and what each section and sentence has.
    assert len(lines) == (1 + 3 * len(page.sections) + 2 * len(sentences) + 1 if sentences else 1)
    assert page.is_truncated == (len(chosen) > 3)


def test_a_page_is_no_longer_than_its_limit() -> None:
    (id_,) = new_ids(AT, 1)
    long = Memory(
        memory_id=id_,
        draft=draft_of("x" * MAX_BYTES, "k"),
        revision=1,
        update_time=AT,
        record_time=AT,
        delete_time=None,
        created_by="test",
        updated_by="test",
    )

    page = compose("Anna", SECTIONS, [[long], [replace(long, revision=2)]], is_truncated=False)

    assert page.is_truncated
    assert page.text == "# Anna\n"
