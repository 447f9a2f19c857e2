"""Cuts long texts into overlapping chunks that the model reads whole. No model, no vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

# Tokens that a chunk shares with the one before, so that a sentence across the border is whole in one of them.
OVERLAP = 32

# A chunk may be shorter than the window by this share, to end at a sentence or a word.
SLACK = 0.4

# Closing quotes and brackets belong to the sentence that they end; after an East Asian full stop no space follows.
_CLOSING = r"""["')\]\u2019\u201d\u00bb\u300d\u300f]*"""
MAX_WORD_CHARACTERS = 100
_WORD = re.compile(rf"\S{{1,{MAX_WORD_CHARACTERS}}}")
_SENTENCE_START = re.compile(rf"(?:[.!?\u2026]{_CLOSING}\s|[\u3002\uff01\uff1f]{_CLOSING}|\n)\s*")


class Border(IntEnum):
    """Quality of a border for a cut, the worst first."""

    INSIDE = 0
    WORD = 1
    SENTENCE = 2


@dataclass(frozen=True, slots=True)
class Word:
    """A unit that is not cut, with the border before it."""

    # Offset in characters.
    start: int
    # Index of its first token.
    token: int
    border: Border


def words(text: str, word_ids: Sequence[int | None], offsets: Sequence[tuple[int, int]]) -> list[Word]:
    """Return the tokenizer's words in order, with a sentinel at the end of the text.

    A word of more than 100 characters is one unknown token, so every word fits a window.
    """
    sentences = {match.end() for match in _SENTENCE_START.finditer(text)}
    result: list[Word] = []
    previous: int | None = None
    for token, (word, (start, _)) in enumerate(zip(word_ids, offsets, strict=True)):
        if word != previous or not result:
            result.append(Word(start, token, _border(text, start, sentences)))
        previous = word
    return [*result, Word(len(text), len(offsets), Border.SENTENCE)]


def character_words(text: str) -> list[Word]:
    """Return the words of a text for a model with unknown tokens: each character counts as one token.

    A word of more than MAX_WORD_CHARACTERS is cut.
    """
    sentences = {match.end() for match in _SENTENCE_START.finditer(text)}
    result = [
        Word(match.start(), match.start(), _border(text, match.start(), sentences)) for match in _WORD.finditer(text)
    ]
    return [*result, Word(len(text), len(text), Border.SENTENCE)]


def spans(text: str, marks: Sequence[Word], *, window: int, overlap: int = OVERLAP) -> Iterator[tuple[int, int]]:
    """Yield start and end of chunks of at most `window` tokens, in characters. They cover all but white space.

    `marks` is the result of `words`. A chunk reaches up to a word's start, so that characters without a token (control
    characters, lone accents) are not lost.
    """
    first, last = 0, len(marks) - 1
    while True:
        end = _end(marks, first, window)
        yield _stripped(text, marks[first].start if first else 0, marks[end].start)
        if end == last:
            return
        first = _restart(marks, first, end, overlap)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    chunk = text[start:end]
    return start + len(chunk) - len(chunk.lstrip()), start + len(chunk.rstrip())


def _border(text: str, start: int, sentences: set[int]) -> Border:
    if start == 0 or start in sentences:
        return Border.SENTENCE
    return Border.WORD if text[start - 1].isspace() else Border.INSIDE


def _end(marks: Sequence[Word], first: int, window: int) -> int:
    """Return the word before which a chunk from `first` ends: the best border in reach, the latest of its kind."""
    begin = marks[first].token
    fitting = first + 1
    while fitting + 1 < len(marks) and marks[fitting + 1].token - begin <= window:
        fitting += 1
    if fitting == len(marks) - 1:
        return fitting
    early = begin + window * (1 - SLACK)
    within = [index for index in range(first + 1, fitting + 1) if marks[index].token >= early] or [fitting]
    return max(within, key=lambda index: (marks[index].border, index))


def _restart(marks: Sequence[Word], first: int, end: int, overlap: int) -> int:
    """Return the first word of the next chunk: the best border within the overlap, the earliest of its kind."""
    reach = marks[end].token - overlap
    within = [index for index in range(first + 1, end + 1) if marks[index].token >= reach]
    return max(within, key=lambda index: (marks[index].border, -index))
