"""The form in which near-duplicates are equal, and the rough form in which they may be. Pure.

Two texts with one near text say the same to a reader, word by word. Contractions, typographic quotes, the capital of a
small word at the beginning and the full stop at the end do not count, nor does what `same_text` leaves out. Everything
else does: case, articles and other punctuation make names, passwords and paths of words.
"""

from __future__ import annotations

import re

from skein_kit.text.unicode_form import same_text

# Typographic forms of one character.
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})  # noqa: RUF001 - the characters that are replaced.
# The end of a clause: the mark, closing quotes, then white space or the end. "3.5", "1,000" and "x != y" stay.
_CLAUSE_END = re.compile(r"[.,;:!…]+(?=[\"')\]]*(?:\s|$))")
# Behind a digit or a sign it may be a part of what is said.
_FULL_STOP = re.compile(r"(?<=[^\W\d_])\.$")
# Words that are no names, so that their capital only begins a sentence.
_BEGINNING = re.compile(
    r"(?:A|An|The|This|That|These|Those|It|He|She|We|They|You|My|Our|Your|His|Her|Its|Their|There|Here|In|On|At|For|From|"
    r"To|With|When|If|After|Before|Because|Please|Note|User|User's|Always|Never|Do|Is|Are|Was|Were|Has|Have)(?=\s)"
)
_CANNOT = re.compile(r"\bcannot\b", re.IGNORECASE)
# Each begins at its apostrophe or the letter before it: a search for the word before would try each of its letters.
_CONTRACTIONS = (
    (re.compile(r"\bcan't\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"(?<=\w)n't\b", re.IGNORECASE), " not"),
    (re.compile(r"(?<=\bi)'m\b", re.IGNORECASE), " am"),
    (re.compile(r"(?<=\w)'re\b", re.IGNORECASE), " are"),
    (re.compile(r"(?<=\w)'ve\b", re.IGNORECASE), " have"),
    (re.compile(r"(?<=\w)'ll\b", re.IGNORECASE), " will"),
)
_ARTICLES = frozenset({"the", "The"})
_MIN_ABBREVIATION = 2
_READ_CHARACTERS = 4096


def near_text(text: str) -> str:
    """Return the form of a text; two texts with one form are near-duplicates of each other."""
    text = same_text(text.translate(_QUOTES))
    text = _CANNOT.sub("can not", text)
    if "'" in text:
        for pattern, replacement in _CONTRACTIONS:
            text = pattern.sub(replacement, text)
    text = _BEGINNING.sub(lambda match: match[0].lower(), text, 1) if _BEGINNING.match(text) else text
    return _FULL_STOP.sub("", text)


def rough_text(text: str) -> str:
    """Return a form that near-duplicates have in common, and others too: without case, "the" and clauses."""
    words = _CLAUSE_END.sub(" ", near_text(text)).split()
    kept = [word for word in words if word not in _ARTICLES]
    # A text of articles alone is what it says.
    return " ".join(map(_fold, kept or words))


def rough_beginning(text: str, length: int) -> str:
    """Return the first `length` characters of the rough form, and read no more of a long text than that takes."""
    if len(text) > _READ_CHARACTERS:
        head, _, _ = text[:_READ_CHARACTERS].rpartition(" ")
        # All but the last word are those of the whole text.
        rough, _, _ = rough_text(head).rpartition(" ")
        if len(rough) >= length:
            return rough[:length]
    return rough_text(text)[:length]


def _fold(word: str) -> str:
    """Fold the case of a word, but not of an abbreviation: IT and it, US and us differ."""
    return word if len(word) >= _MIN_ABBREVIATION and word.isupper() else word.casefold()
