"""Which texts the embedded models can read. No model, no I/O.

Both were trained on English. Their tokens of other scripts are single letters or unknown, and the cosines of
such texts are high whatever they mean.
"""

from __future__ import annotations

import re
from typing import Final

# Basic Latin to Latin Extended-B, and Latin Extended Additional.
_LATIN: Final = re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")
# Only so much of a text is counted.
_READ_CHARACTERS: Final = 8192


def readable_share(text: str) -> float:
    """Return the share of a text's letters, 0 to 1, that are Latin; 1 for a text without letters."""
    if text.isascii():
        return 1.0
    letters = [character for character in text[:_READ_CHARACTERS] if character.isalpha()]
    return sum(map(bool, map(_LATIN.match, letters))) / len(letters) if letters else 1.0
