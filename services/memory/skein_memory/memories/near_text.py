"""The form in which near-duplicates are equal: a text without what never changes its meaning. Pure.

Two texts with one form have the same words in the same order. Case, white space, "the", contractions and the
punctuation of sentences do not count. Numbers, signs, units, negations, names, quotes and question marks do. Other
articles count, because other languages have the same words: "llama a Ana" is not "llama Ana", nor "denkt an Rex" "denkt
Rex".
"""

from __future__ import annotations

import re
import unicodedata

# Typographic forms of one character.
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})  # noqa: RUF001 - the characters that are replaced.
# The end of a clause: the mark, closing quotes, then white space or the end. "3.5", "1,000" and "x != y" stay.
_CLAUSE_END = re.compile(r"[.,;:!…]+(?=[\"')\]]*(?:\s|$))")
_CONTRACTIONS = (
    (re.compile(r"\bcan't\b|\bcannot\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"\b(\w+)n't\b", re.IGNORECASE), r"\1 not"),
    (re.compile(r"\b(i)'m\b", re.IGNORECASE), r"\1 am"),
    (re.compile(r"\b(\w+)'re\b", re.IGNORECASE), r"\1 are"),
    (re.compile(r"\b(\w+)'ve\b", re.IGNORECASE), r"\1 have"),
    (re.compile(r"\b(\w+)'ll\b", re.IGNORECASE), r"\1 will"),
)
_ARTICLES = frozenset({"the", "The"})
_MIN_ABBREVIATION = 2


def near_text(text: str) -> str:
    """Return the form of a text; two texts with one form are near-duplicates of each other."""
    text = unicodedata.normalize("NFC", text).translate(_QUOTES)
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    words = _CLAUSE_END.sub(" ", text).split()
    kept = [word for word in words if word not in _ARTICLES]
    # A text of articles alone is what it says.
    return " ".join(map(_fold, kept or words))


def _fold(word: str) -> str:
    """Fold the case of a word, but not of an abbreviation: IT and it, US and us differ."""
    return word if len(word) >= _MIN_ABBREVIATION and word.isupper() else word.casefold()
