"""How a text becomes words: one rule for what is stored and for what is asked. No I/O.

The result is words between spaces, which Postgres stems, cleans of stop words and counts. Its parser finds nothing left
to join: it would take `Peter/Maria` and `budget.xlsx` for one word each, and `<TODO: call>` for none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from skein_kit.text.unicode_form import compared_form

# Kana, Han with its extensions, the iteration mark and the compatibility forms, Hangul; for a class of a regular
# expression.
LETTER_RANGES: Final = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
# A change of how stored texts become words raises this version: a reindex renews the documents of lower ones.
WORDS_VERSION: Final = 1
# Letters that are segmented of a text: their lexemes fit a tsvector, which has at most 1 MB.
MAX_LETTERS: Final = 20_000
# Joined words that are also one word, of a text; a longer one is data.
_MAX_JOINED_WORDS: Final = 2000
_MAX_JOINED_CHARACTERS: Final = 60
# Beginnings of a number with points: an address of a network has four.
_MAX_NUMBER_PARTS: Final = 5

# --- Scripts without spaces -----------------------------------------------------------------------------------------

_LETTERS: Final = re.compile(f"[{LETTER_RANGES}]+")
_SYLLABIC: Final = re.compile(
    "[\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u109d\u1780-\u17d3\u17dc\u17dd"
    "\ua9e0-\ua9fe\uaa60-\uaa7f]+"
)
# A letter; in Thai, Lao, Burmese or Khmer a consonant with the vowel before it, and with the marks, vowels and
# consonants below and after it.
_SYLLABLE: Final = re.compile(
    "[\u0e40-\u0e44\u0ec0-\u0ec4]?.(?:[\u1039\u17d2].|"
    "[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebd\u0ec8-\u0ecf\u102b-\u1038\u103a-\u103e\u1056-\u1059\u105e-\u1060"
    "\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d1\u17d3\u17dd])*"
)

# --- Signs ----------------------------------------------------------------------------------------------------------

# A flag is two letters of a region.
_EMOJI: Final = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u203c\u2049\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
_SKIN_TONES: Final = re.compile("[\U0001f3fb-\U0001f3ff]")
# NFKC would join these to the word before them.
_TRADE_MARKS: Final = re.compile("[\u00a9\u00ae\u2120\u2122]")
# NFKC makes U+2010 of the hyphen at which no line ends.
_HYPHENS: Final = str.maketrans({"\u2010": "-", "\u2212": "-"})
# What is left of the keyboard's signs separates words, except the point within a number.
_SEPARATORS: Final = re.compile(r"[!-\-/:-@\[-`{-~]|(?<!\d)\.|\.(?!\d)")

# --- Joined words ---------------------------------------------------------------------------------------------------

# Words as most are: one word with the marks of a sentence, which Postgres' parser splits as it should.
_PLAIN: Final = r"[(\"']*+(?:[A-Z]?[a-zß-öø-ÿ]++|[A-Z]++|\d++)(?:'[a-z]{1,2})?[.,!?;:)\"']*+"
_PLAIN_TOKEN: Final = re.compile(_PLAIN)
_PLAIN_TEXT: Final = re.compile(rf"(?:{_PLAIN}(?:\s++|\Z))*+")
_PROTOCOL: Final = re.compile(r"\b[A-Za-z]{2,10}://")
# A sentence that begins right after the last one: "at the station.Bring".
_SENTENCE_END: Final = re.compile(r"(?<=[a-zß-öø-ÿ])\.(?=[A-Z][a-z])")
_WORD: Final = re.compile(
    r"(?P<thousands>(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,]))"
    r"|(?P<initials>(?<!\w)[A-Z]{1,3}(?:&[A-Z]{1,3})+(?!\w))"
    r"|(?P<abbreviation>(?<!\w)[^\W\d_](?:\.[^\W\d_])+(?!\w))"
    r"|(?P<language>(?<!\w)(?:[A-Za-z]\w{0,9}\+\+|[A-Za-z]#|\.(?:NET|Net))(?!\w))"
    r"|(?P<joined>[^\W_]+(?:[-./\\:@_][^\W_]+)*)"
)
# Parts of an address, and parts of a name; the points of a number join it.
_STRONG_JOINS: Final = re.compile(r"[/\\:@]")
_PART: Final = re.compile(r"(?<![^\W_])[vV]?\d+(?:\.\d+)+[A-Za-z]{0,3}(?![^\W_])|[^\W_]+")
_NUMBER: Final = re.compile(r"[vV]?(?P<number>\d+(?:\.\d+)+)(?P<unit>[A-Za-z]*)")
# A number with its unit, but no ordinal.
_AMOUNT: Final = re.compile(r"(\d+)((?!(?:st|nd|rd|th)\b)[A-Za-z]{2,3})")
# Names of programs: getUserName, InvoiceListView. "YouTube" and "JavaScript" are one word each.
_CAMEL_CASE: Final = re.compile(r"[a-z]{2,}[A-Z]|[A-Z][a-z]+[A-Z][a-z]+[A-Z][a-z]")
_HUMP: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def segment(text: str) -> str:
    """Return the words of a text between spaces.

    - All forms of Unicode of a text have the same words.
    - A joined word is itself, without what joins it, and each of its parts: "TCP/IP" is "TCPIP TCP IP".
    - A number is whole, and of a version or date the parts that are named: "v3.12.1" is "3.12.1 3.12 v3".
    - Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer are single letters and pairs of neighbours, as in Lucene's
      CJKAnalyzer: pairs tell words apart, letters find words of one. The first MAX_LETTERS count.
    - An emoji is a word, and so are C++, C# and .NET.
    """
    if not text.isascii():
        text = _plain_letters(text)
    if _PLAIN_TEXT.fullmatch(text):
        return text
    split = _Joins().split
    return " ".join([token if _PLAIN_TOKEN.fullmatch(token) else split(token) for token in text.split()])


def joined_words(text: str) -> frozenset[str]:
    """Return the words, in lower case, that a text has only because it joins others: "tcpip" of "TCP/IP"."""
    joins = _Joins()
    if not _PLAIN_TEXT.fullmatch(text):
        for token in compared_form(text).split():
            joins.split(token)
    return frozenset(map(str.casefold, joins.wholes))


def _plain_letters(text: str) -> str:
    """Return a text in one form of Unicode, with spaces around letters and emoji that are words."""
    text = compared_form(_TRADE_MARKS.sub(" ", text)).translate(_HYPHENS)
    text = _EMOJI.sub(_spell_emoji, _SKIN_TONES.sub("", text), MAX_LETTERS)
    remaining = MAX_LETTERS

    def split(match: re.Match[str]) -> str:
        nonlocal remaining
        run = match[0][:remaining]
        remaining -= len(run)
        letters = _SYLLABLE.findall(run)
        pairs = map("".join, pairwise(letters))
        return f" {' '.join((*letters, *pairs))} {match[0][len(run) :]}"

    return _SYLLABIC.sub(split, _LETTERS.sub(split, text))


def _spell_emoji(match: re.Match[str]) -> str:
    """Spell an emoji by its numbers, because Postgres' parser takes it for a space."""
    return f" {''.join(f'u{ord(character):x}' for character in match[0])} "


class _Joins:
    """Splits the joined words of one text."""

    def __init__(self) -> None:
        # Joined parts as one word.
        self.wholes: list[str] = []

    def split(self, token: str) -> str:
        """Return the words of what stands between two spaces."""
        token = _SENTENCE_END.sub(". ", _PROTOCOL.sub(" ", token))
        return _SEPARATORS.sub(" ", _WORD.sub(self._words, token))

    def _words(self, match: re.Match[str]) -> str:
        token = match[0]
        if match.lastgroup == "joined":
            words = self._joined(token)
            # A space would part a letter of an Indic script from its vowel, which is no letter for Python.
            return token if words == [token] else f" {' '.join(words)} "
        if match.lastgroup == "thousands":
            return token.replace(",", "")
        if match.lastgroup == "initials":
            return f" {token.replace('&', '')} {token.replace('&', ' ')} "
        if match.lastgroup == "abbreviation":
            return token.replace(".", "")
        name = token.rstrip("+#").lstrip(".")
        spelled = token.replace(".", "dot").replace("++", "plusplus").replace("#", "sharp")
        return f" {spelled} {name} "

    def _joined(self, token: str) -> list[str]:
        """Return the words of letters and digits with single signs between them."""
        names = [_PART.findall(name) for name in _STRONG_JOINS.split(token)]
        words = [word for parts in names for word in (*self._whole(parts), *map(" ".join, map(_part_words, parts)))]
        return [*(self._whole([part for parts in names for part in parts]) if len(names) > 1 else ()), *words]

    def _whole(self, parts: Sequence[str]) -> tuple[str, ...]:
        """Return joined parts as one word: of what is written with another sign, or without one."""
        whole = "".join(parts).replace(".", "")
        if len(parts) == 1 or len(self.wholes) == _MAX_JOINED_WORDS or len(whole) > _MAX_JOINED_CHARACTERS:
            return ()
        self.wholes.append(whole)
        return (whole,)


def _part_words(part: str) -> list[str]:
    """Return a part with the words within it."""
    if part.isalpha():
        is_camel_case = len(part) <= _MAX_JOINED_CHARACTERS and _CAMEL_CASE.match(part)
        return [part, *_HUMP.findall(part)] if is_camel_case else [part]
    if amount := _AMOUNT.fullmatch(part):
        return [part, *amount.groups()]
    number = _NUMBER.fullmatch(part)
    if number is None:
        return [part]
    # A version is also named by its beginning, a date by its year.
    digits = number["number"].split(".", _MAX_NUMBER_PARTS)
    beginnings = list(accumulate(digits, "{}.{}".format))[1:]
    years = [four for four in digits if len(four) == len("2026")] if len(beginnings) > 1 else []
    return [*beginnings, *years, number["unit"], *([f"v{digits[0]}"] if part[0] in "vV" else ())]
