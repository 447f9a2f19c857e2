"""What a text is like."""

from __future__ import annotations

from fix_catalogue import over

from skein_kit.search_text import postings


@over(
    ("text", "expected"),
    [
        ("Where is the kettle?", True),
        ('Ann said, "Where is it?"', True),
        ("Where is it? On the stove.", False),
        ("no end", False),
        ("", False),
    ],
)
def test_a_text_asks_when_its_last_sentence_does(text: str, *, expected: bool) -> None:
    assert postings.ends_with_question(text) is expected


@over(
    ("text", "expected"),
    [
        ("We moved last week.", True),
        ("On 7 May 2023 it rained", True),
        ("see you Friday", True),
        ("the 3rd of them", True),
        ("Wir sind seit gestern umgezogen", True),
        ("Treffen am 08.11.2026", True),
        ("nos vemos el martes", True),
        ("on part en juillet", True),
        ("我们昨天搬家了", True),
        ("2026年搬家", True),
        ("水壶是红色的", False),
        ("mayo on a tag, an oak", False),
        ("the kettle is red", False),
        ("a mayor and his daydream", False),
        ("", False),
    ],
)
def test_a_text_tells_of_a_time_when_a_word_of_it_does(text: str, *, expected: bool) -> None:
    assert postings.mentions_time(text) is expected
