"""Numbers up to ninety-nine as words, in the languages of the rules. Data and one look-up."""

from __future__ import annotations

import re
from typing import Final

_TENS: Final = range(20, 100, 10)
_UNITS: Final = range(1, 10)


def _split(words: str) -> list[str]:
    return words.split()


def _english() -> dict[str, int]:
    small = _split(
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen"
    )
    tens = dict(zip(_TENS, _split("twenty thirty forty fifty sixty seventy eighty ninety"), strict=True))
    words = dict(zip(small, range(1, 20), strict=True)) | {word: ten for ten, word in tens.items()}
    for ten, word in tens.items():
        words |= {f"{word}{mark}{small[unit - 1]}": ten + unit for unit in _UNITS for mark in "- "}
    return words


def _german() -> dict[str, int]:
    small = _split(
        "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
        "achtzehn neunzehn"
    )
    tens = dict(zip(_TENS, _split("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"), strict=True))
    words = dict(zip(small, range(1, 20), strict=True)) | {"ein": 1} | {word: ten for ten, word in tens.items()}
    for ten, word in tens.items():
        for unit in _UNITS:
            words[f"{'ein' if unit == 1 else small[unit - 1]}und{word}"] = ten + unit
    return words


def _spanish() -> dict[str, int]:
    small = _split(
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
        "dieciocho diecinueve"
    )
    twenties = _split(
        "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
    )
    tens = dict(zip(_TENS, _split("veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa"), strict=True))
    words = dict(zip(small, range(1, 20), strict=True)) | dict(zip(twenties, range(21, 30), strict=True))
    words |= {"un": 1, "una": 1, "veintiún": 21} | {word: ten for ten, word in tens.items()}
    for ten, word in tens.items():
        words |= {f"{word} y {small[unit - 1]}": ten + unit for unit in _UNITS}
        words |= {f"{word} y un": ten + 1}
    return words


def _chinese() -> dict[str, int]:
    signs = "一二三四五六七八九"
    words = dict(zip(signs, _UNITS, strict=True)) | {"两": 2, "十": 10}
    words |= {f"十{sign}": 10 + unit for unit, sign in enumerate(signs, 1)}
    for ten, sign in enumerate(signs, 1):
        words[f"{sign}十"] = 10 * ten
        words |= {f"{sign}十{last}": 10 * ten + unit for unit, last in enumerate(signs, 1)}
    return words


_WORDS: Final = _english() | _german() | _spanish() | _chinese()
_PATTERN: Final = re.compile(
    r"(?<![^\W\d_])(?:"
    + "|".join(sorted((word for word in _WORDS if word.isascii() or word[0] < "\u3000"), key=len, reverse=True))
    + r")(?![^\W\d_])|[一二两三四五六七八九十]+",
    re.IGNORECASE,
)


def read_number(text: str) -> int | None:
    """Return the number that digits or a word stand for."""
    text = text.strip().casefold()
    return int(text) if text.isdecimal() else _WORDS.get(text)


def find_number_words(text: str) -> set[int]:
    """Return the numbers that words of a text stand for."""
    numbers = (_WORDS.get(match[0].casefold()) for match in _PATTERN.finditer(text))
    return {number for number in numbers if number is not None}
