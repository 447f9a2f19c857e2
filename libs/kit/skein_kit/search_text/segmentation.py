"""Words of Chinese, Japanese and Korean texts, which Postgres' parser takes for one long word. No I/O.

Lexemes of these scripts are single letters and pairs of neighbours, as in Lucene's CJKAnalyzer: pairs tell words apart,
letters find words of one.
"""

from __future__ import annotations

import re
from typing import Final

# Kana, Han with extension A and the compatibility forms, Hangul; for a class of a regular expression.
LETTER_RANGES: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN: Final = re.compile(f"[{LETTER_RANGES}]+")
# Letters that are segmented of a text: their lexemes fit a tsvector, which has at most 1 MB.
MAX_LETTERS: Final = 20_000


def segment(text: str) -> str:
    """Return the text with each run of CJK letters as single letters and pairs, between spaces.

    The first MAX_LETTERS of them count; the rest of the text stays as it is. A text without such letters is unchanged.
    """
    if text.isascii():
        return text
    remaining = MAX_LETTERS

    def split(match: re.Match[str]) -> str:
        nonlocal remaining
        run = match[0][:remaining]
        remaining -= len(run)
        pairs = (run[index : index + 2] for index in range(len(run) - 1))
        return f" {' '.join((*run, *pairs))} {match[0][len(run) :]}"

    return _RUN.sub(split, text)
