"""Cuts long text into overlapping pieces that the model can read whole. Knows offsets, not vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Tokens that a chunk shares with the one before, so that what straddles a border is whole in one of them.
OVERLAP = 32

# A chunk may end this much of a window early to end where a sentence or at least a word does.
SLACK = 0.4

# Closing quotes and brackets belong to the sentence that they end; after an East Asian full stop no space follows.
_CLOSING = r"""["')\]\u2019\u201d\u00bb\u300d\u300f]*"""
LONGEST_WORD = 100
_WORD = re.compile(rf"\S{{1,{LONGEST_WORD}}}")
_SENTENCE_START = re.compile(rf"(?:[.!?\u2026]{_CLOSING}\s|[\u3002\uff01\uff1f]{_CLOSING}|\n)\s*")


class Border(IntEnum):
    """How good a place for a cut is, worst first."""

    INSIDE = 0
    WORD = 1
    SENTENCE = 2


@dataclass(frozen=True, slots=True)
class Word:
    """What must not be cut: where it begins, in characters and in tokens, and what kind of border lies before it."""

    start: int
    token: int
    border: Border


def words(text: str, word_ids: Sequence[int | None], offsets: Sequence[tuple[int, int]]) -> list[Word]:
    """The tokenizer's words in order, closed by a sentinel at the end of the text.

    The tokenizer takes a word of more than 100 characters as one unknown token, so every word fits a window.
    """
    sentences = {match.end() for match in _SENTENCE_START.finditer(text)}
    found: list[Word] = []
    previous: int | None = None
    for token, (word, (start, _)) in enumerate(zip(word_ids, offsets, strict=True)):
        if word != previous or not found:
            found.append(Word(start, token, _border(text, start, sentences)))
        previous = word
    return [*found, Word(len(text), len(offsets), Border.SENTENCE)]


def character_words(text: str) -> list[Word]:
    """The words of a text for a model whose tokens nobody here knows: each character counts as one.

    A word of more than LONGEST_WORD characters is cut.
    """
    sentences = {match.end() for match in _SENTENCE_START.finditer(text)}
    found = [
        Word(match.start(), match.start(), _border(text, match.start(), sentences)) for match in _WORD.finditer(text)
    ]
    return [*found, Word(len(text), len(text), Border.SENTENCE)]


def spans(text: str, marks: Sequence[Word], *, window: int, overlap: int = OVERLAP) -> Iterator[tuple[int, int]]:
    """Where to cut: pieces of at most `window` tokens, in order, which hold every character that is not white space.

    `marks` is what `words` answers. A piece reaches up to the next one's first word, so that characters for which the
    tokenizer has no token (control characters, lone accents) are not lost either.
    """
    first, last = 0, len(marks) - 1
    while True:
        end = _end(marks, first, window)
        yield _stripped(text, marks[first].start if first else 0, marks[end].start)
        if end == last:
            return
        first = _restart(marks, first, end, overlap)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _border(text: str, start: int, sentences: set[int]) -> Border:
    if start == 0 or start in sentences:
        return Border.SENTENCE
    return Border.WORD if text[start - 1].isspace() else Border.INSIDE


def _end(marks: Sequence[Word], first: int, window: int) -> int:
    """The word before which a chunk that begins at `first` ends: the best border in reach, the latest of its kind."""
    begin = marks[first].token
    fitting = first + 1
    while fitting + 1 < len(marks) and marks[fitting + 1].token - begin <= window:
        fitting += 1
    if fitting == len(marks) - 1:
        return fitting
    early = begin + window * (1 - SLACK)
    within = [place for place in range(first + 1, fitting + 1) if marks[place].token >= early] or [fitting]
    return max(within, key=lambda place: (marks[place].border, place))


def _restart(marks: Sequence[Word], first: int, end: int, overlap: int) -> int:
    """The word at which the next chunk begins: the best border within the overlap, the earliest of its kind."""
    reach = marks[end].token - overlap
    within = [place for place in range(first + 1, end + 1) if marks[place].token >= reach]
    return max(within, key=lambda place: (marks[place].border, -place))
