"""One form of Unicode for texts that look the same: what a name is stored as, and what texts are compared in. Pure.

Full-width letters, ligatures and decomposed accents have the form of the plain character (NFKC); characters that nobody
sees are left out. Case, accents and letters that only look alike stay: "Müller" is not "Muller".
"""

from __future__ import annotations

import functools
import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal

# Soft hyphens, fillers, zero-width characters, marks of direction, variation selectors and tags.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
# The two joiners change how Arabic, Syriac and Indic letters and emoji look. Behind anything else they are invisible.
_JOINED_LETTERS: Final = "\u0620-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_UNSEEN: Final = re.compile(f"[{_INVISIBLE}]|(?<![{_JOINED_LETTERS}])[\u200c\u200d]")
_UNSEEN_AND_JOINERS: Final = re.compile(f"[{_INVISIBLE}\u200c\u200d]")
# Most marks on one letter: the time that normalization takes grows with their square. No language needs half of them.
_MAX_MARKS: Final = 64
# Compatibility forms that say something else: 2² is not 22, nor ½ 1/2.
_MEANINGFUL: Final = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
# A line that only ends because the page does: a word, and a word that goes on.
_WRAP: Final = re.compile(r"(?<=[^\W\d_])(,?)[ \t]*\n(?=[a-zß-öø-ÿ])")
_INDENTATION: Final = re.compile(r"^[ \t]+\S", re.MULTILINE)


def plain_form(text: str) -> str:
    """Return a name in its one form. Repeating it changes nothing."""
    if text.isascii():
        return text
    return normalize(without_unseen(text))


def normalize(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Return a text in a form of Unicode; one with more than 64 marks on one letter stays as it is."""
    if len(text) > _MAX_MARKS and _many_marks().search(text):
        return text
    return unicodedata.normalize(form, text)


def without_unseen(text: str) -> str:
    """Return a text without invisible characters."""
    return _UNSEEN.sub("", text)


def compared_form(text: str) -> str:
    """Return a text as it is compared with others: in its one form, without joiners."""
    if text.isascii():
        return text
    return normalize(_UNSEEN_AND_JOINERS.sub("", text))


def contains(text: str, literal: str) -> bool:
    """Return whether a text contains another one, in any case and form.

    An invisible literal is looked for as it is: it would be in every text.
    """
    compared = compared_form(literal)
    return compared.casefold() in compared_form(text).casefold() if compared else literal in text


def compared_sql(column: str) -> str:
    """Return SQL for the compared form of a column: it finds the same texts equal."""
    seen = f"regexp_replace({column}, '{_UNSEEN_AND_JOINERS.pattern}', '', 'g')"
    return (
        f"(CASE WHEN octet_length({column}) = char_length({column}) THEN {column} "
        f"WHEN {seen} ~ '{_many_marks().pattern}' THEN {seen} ELSE normalize({seen}, NFKC) END)"
    )


@functools.cache
def _many_marks() -> re.Pattern[str]:
    """Return what finds too many marks in a row, also those that begin what a character is taken apart into."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0x1F000):
        if not unicodedata.combining(unicodedata.normalize("NFKD", chr(code))[0]):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(f"[{marks}]{{{_MAX_MARKS + 1}}}")


def same_text(text: str) -> str:
    """Return the form in which two texts are equal to a reader: the letters, without how they are encoded and set.

    Full-width letters, ligatures, decomposed accents and invisible characters do not count, nor do runs of spaces and
    the line breaks of wrapped prose. Case and punctuation do; so do the indentation and the lines of code and lists.
    """
    if not text.isascii():
        text = "".join(map(_plain_letter, normalize(without_unseen(text), "NFC")))
    if "\n" not in text:
        return " ".join(text.split())
    lines = _WRAP.sub(r"\1 ", text.strip("\n")).splitlines()
    if _INDENTATION.search(text.strip()):
        return "\n".join(line.rstrip() for line in lines)
    return "\n".join(" ".join(line.split()) for line in lines)


@lru_cache(maxsize=4096)
def _plain_letter(letter: str) -> str:
    if letter.isascii() or unicodedata.decomposition(letter).startswith(_MEANINGFUL):
        return letter
    return unicodedata.normalize("NFKC", letter)
