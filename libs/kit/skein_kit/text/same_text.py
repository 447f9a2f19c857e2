"""The form in which two texts are equal to a reader: the letters, without how they are encoded and set. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from skein_kit.text.unicode_form import normalize, without_unseen

# Compatibility forms that say something else: 2² is not 22, nor ½ 1/2.
_MEANINGFUL: Final = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
# A line that only ends because the page does: a word, and a word that goes on.
_WRAP: Final = re.compile(r"(?<=[^\W\d_])(,?)[ \t]*\n(?=[a-zß-öø-ÿ])")
_INDENTATION: Final = re.compile(r"^[ \t]+\S", re.MULTILINE)


def same_text(text: str) -> str:
    """Return the form of a text.

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
