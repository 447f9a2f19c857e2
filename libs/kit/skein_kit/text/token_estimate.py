"""Estimated tokens of a text, for every budget of tokens. Pure.

The estimate is near the highest count of four vocabularies of 2024 to 2026, so that a text rarely has more tokens than
its budget. It is a sum over characters and over runs of letters or digits, in hundredths of a token; tests/golden has
the counts that its error is measured with, and docs/internals/tokens.md the error.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

# Budget of a request without one, in tokens.
DEFAULT_BUDGET = 2000
UNITS_PER_TOKEN = 100

_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff"
_LATIN_RUN, _DIGIT_RUN = re.compile(f"[{_LATIN}]+"), re.compile("[0-9]+")
_LATIN_RUN_UNITS, _DIGIT_RUN_UNITS, _SPACES_UNITS = 42, 75, 85
_SPACES, _ASCII_SPACES = re.compile("  +"), re.compile(b"  +")
# The class of each ASCII character: "a" and "A" for letters, "0", space, line end, and "." for all others.
_CLASSES = bytes(
    ord("a" if chr(code).islower() else "A" if chr(code).isupper() else "0" if chr(code).isdigit() else chr(code))
    if chr(code).isascii() and (chr(code).isalnum() or chr(code) in " \n")
    else ord(".")
    for code in range(256)
)
# Runs of letters of other scripts with spaces between words: Cyrillic, Hebrew, Arabic, Devanagari.
_OTHER_RUNS = (
    (re.compile("[\u0400-\u052f]+"), 95),
    (re.compile("[\u0590-\u05ff]+"), 135),
    (re.compile("[\u0600-\u077f]+"), 120),
    (re.compile("[\u0900-\u097f]+"), 130),
)
_ASCII_LETTER_UNITS, _UPPER_UNITS, _DIGIT_UNITS, _MARK_UNITS, _LINE_END_UNITS = 17, 25, 100, 50, 150
# First and last character, and the units of one between them.
_BLOCKS = (
    (0x0080, 0x00FF, 185),
    (0x0100, 0x024F, 245),
    (0x0300, 0x036F, 140),
    (0x0370, 0x03FF, 70),
    (0x0410, 0x0451, 20),
    (0x0400, 0x052F, 170),
    (0x0590, 0x05FF, 34),
    (0x0600, 0x077F, 22),
    (0x0900, 0x097F, 46),
    (0x0980, 0x0DFF, 64),
    (0x0E00, 0x0E7F, 62),
    (0x1E00, 0x1EFF, 245),
    (0x200D, 0x200D, 50),
    (0x2000, 0x206F, 60),
    (0x2070, 0x2BFF, 250),
    (0x3000, 0x303F, 80),
    (0x3040, 0x30FF, 80),
    (0x4E00, 0x9FFF, 104),
    (0xAC00, 0xD7A3, 100),
    (0xFE00, 0xFE0F, 50),
    (0xFF00, 0xFFEF, 80),
    (0x10000, 0x10FFFF, 460),
)
# Scripts that no text was measured of: as many tokens as the bytes of a character, nearly.
_UNKNOWN_UNITS = 260


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, rounded up."""
    return tokens_of_units(token_units(text))


def token_units(text: str) -> int:
    """Estimate the tokens of a text in hundredths.

    The units of two texts, joined at a space or a line's end, are at most the sum of theirs and of what joins them.
    """
    if text.isascii():
        return _ascii_units(text.encode())
    units = sum(_units_of(character) * count for character, count in Counter(text).items())
    units += _LATIN_RUN_UNITS * len(_LATIN_RUN.findall(text)) + _DIGIT_RUN_UNITS * len(_DIGIT_RUN.findall(text))
    units += _SPACES_UNITS * len(_SPACES.findall(text))
    return units + sum(units_of_run * len(run.findall(text)) for run, units_of_run in _OTHER_RUNS)


def tokens_of_units(units: int) -> int:
    """Return hundredths of tokens as tokens, rounded up."""
    return -(-units // UNITS_PER_TOKEN)


def _ascii_units(text: bytes) -> int:
    """Return the same for ASCII, by counts of classes, in a fraction of the time."""
    classes = b"." + text.translate(_CLASSES)
    lower, upper, digits, spaces, ends = (classes.count(name) for name in (b"a", b"A", b"0", b" ", b"\n"))
    marks = len(classes) - 1 - lower - upper - digits - spaces - ends
    letters = classes.replace(b"A", b"a")
    return (
        _ASCII_LETTER_UNITS * (lower + upper)
        + _UPPER_UNITS * upper
        + _DIGIT_UNITS * digits
        + _LINE_END_UNITS * ends
        + _MARK_UNITS * marks
        + _LATIN_RUN_UNITS * sum(letters.count(start) for start in (b".a", b" a", b"\na", b"0a"))
        + _DIGIT_RUN_UNITS * sum(letters.count(start) for start in (b".0", b" 0", b"\n0", b"a0"))
        + (_SPACES_UNITS * len(_ASCII_SPACES.findall(text)) if b"  " in text else 0)
    )


@lru_cache(maxsize=8192)
def _units_of(character: str) -> int:
    code = ord(character)
    if character.isascii():
        if character.isalpha():
            return _ASCII_LETTER_UNITS + (_UPPER_UNITS if character.isupper() else 0)
        if character.isdigit():
            return _DIGIT_UNITS
        if character == " ":
            return 0
        return _LINE_END_UNITS if character == "\n" else _MARK_UNITS
    return next((units for first, last, units in _BLOCKS if first <= code <= last), _UNKNOWN_UNITS)
