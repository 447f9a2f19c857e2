"""Searching for text as it is written: what can be known of it from the words inside. Pure."""

from __future__ import annotations

from skein_kit.search_text.postings import MAX_TERM_CHARACTERS

# Messages whose contents one search reads at most; it says when there were more.
WINDOW = 5000
# Of those, so many at once.
SLICE = 250


def required_words(literal: str) -> str:
    """Return the words that a text holding this literal must hold as whole words, or "" when none is certain.

    The first and the last may be parts of longer words there, as may everything that is not set apart by spaces. Signs
    join words, and angle brackets hide them, in ways that depend on what is around them: such words promise nothing.
    """
    if "<" in literal or ">" in literal:
        return ""
    starts, ends = literal[:1].isspace(), literal[-1:].isspace()
    words = literal.split()
    inside = words[0 if starts else 1 : len(words) if ends else -1]
    certain = (word for word in inside if word.isalpha() and word.isascii() and len(word) <= MAX_TERM_CHARACTERS)
    return " ".join(certain)


def like_pattern(literal: str) -> str:
    """Return the pattern of LIKE that finds the literal anywhere, whatever signs it holds."""
    escaped = literal.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
