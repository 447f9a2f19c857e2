"""Two texts differ by their words; the work does not grow with what a person wrote."""

from __future__ import annotations

import time

from fix_catalogue import over

from skein_gateway.console.text_diff import mark_differences


def test_the_words_that_the_other_lacks_are_marked() -> None:
    a, b = mark_differences("the note is behind the router in the hall", "the note is inside the fuse box in the hall")

    assert [part for part, differs in a if differs] == ["behind", "router"]
    assert [part for part, differs in b if differs] == ["inside", "fuse box"]


@over("text", ["", " ", "one", " one\n\ntwo  three ", "\n", "a b a b", "x " * 700])
@over("other", ["", "two", "  one two\tthree", "b a b a", "y " * 300])
def test_both_texts_are_shown_whole(text: str, other: str) -> None:
    a, b = mark_differences(text, other)

    assert "".join(part for part, _ in a) == text
    assert "".join(part for part, _ in b) == other


def test_spaces_alone_are_no_difference() -> None:
    a, b = mark_differences("one  two\nthree", "one two three ")

    assert not any(differs for _, differs in (*a, *b))


@over(
    ("one", "other"),
    [
        (" ".join(f"x{n}" for n in range(600)), " ".join(f"z{n}" for n in range(600))),
        (" ".join(("x", f"y{n}")[n % 2] for n in range(600)), " ".join(("x", f"z{n}")[n % 2] for n in range(600))),
        ("a b " * 300, "b b a " * 200),
        ("a " * 299 + "b " * 301, "b " * 301 + "a " * 299),
    ],
)
def test_no_texts_take_long(one: str, other: str) -> None:
    began = time.process_time()

    mark_differences(one, other)

    # What is quadratic in repeated words took seconds, in which the gateway did nothing else.
    assert time.process_time() - began < 0.5
