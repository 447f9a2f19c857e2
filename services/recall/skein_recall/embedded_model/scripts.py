"""Which texts the embedded models can read. No model, no I/O.

A model's tokens of scripts that it was not trained on are single letters or unknown, and the cosines of such texts are
high whatever they mean.
"""

from __future__ import annotations

import re
from typing import Final

# Basic Latin to Latin Extended-B, and Latin Extended Additional.
LATIN: Final = re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")
# Of the languages of XLM-RoBERTa (Conneau et al., 2020): Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic; the Indic
# scripts from Devanagari to Sinhala; Thai and Lao; Burmese and Georgian; Hangul; Ethiopic; Khmer; Latin and Greek with
# further marks; Kana; Chinese; Hangul; and forms of Latin, Hebrew, Arabic and full width.
OF_HUNDRED_LANGUAGES: Final = re.compile(
    "[A-Za-z\u00aa-\u06ff\u0750-\u077f\u0900-\u0eff\u1000-\u137f\u1780-\u17ff\u1e00-\u1fff\u3005-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufdff\ufe70-\uffdf\U00020000-\U0002fa1f]"
)
# Only so much of a text is counted.
_READ_CHARACTERS: Final = 8192


def readable_share(text: str, letters: re.Pattern[str] = LATIN) -> float:
    """Return the share of a text's letters, 0 to 1, that a model can read; 1 for a text without letters."""
    if text.isascii():
        return 1.0
    found = [character for character in text[:_READ_CHARACTERS] if character.isalpha()]
    return sum(map(bool, map(letters.match, found))) / len(found) if found else 1.0
