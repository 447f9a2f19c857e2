"""The text of free-form data that search sees. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# What one memory's data adds to the search index and to the text that vectors are made of, in characters.
MAX_CHARACTERS = 100_000
# A longer run of ASCII without a space is an encoded file or an address, not a word.
MAX_WORD = 200
# Values of these names are credentials: they go neither into the index nor to a provider of embeddings.
_CREDENTIAL = re.compile(
    r"(?:secret|secret_?value|passw(?:or)?d|passphrase|token|api_?key|private_?key|credentials?)$", re.IGNORECASE
)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,+Zz-]*")


def texts_of(data: object, *, beside: Iterable[str | None] = ()) -> list[str]:
    """Return the texts of parsed JSON at every depth, each once: those named "text" first, then by name.

    Texts that occur in one of `beside` are left out, for these are searched anyway. So are timestamps, encoded files
    and the values of names such as "password". Beyond MAX_CHARACTERS in all, texts are cut off.
    """
    known = [f" {_squeezed(text)} " for text in beside if text]
    found: dict[str, None] = {}
    left = MAX_CHARACTERS
    for text in map(_squeezed, _strings(data)):
        if text in found or not _is_prose(text) or any(f" {text} " in one for one in known):
            continue
        if len(text) > left:
            # Half a word would be another word.
            text = text[:left].rpartition(" ")[0]  # noqa: PLW2901 - the rest is dropped.
            left = 0
        if text:
            found[text] = None
        left -= len(text) + 1
        if left <= 0:
            break
    return list(found)


def _strings(data: object) -> Iterator[str]:
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            names = sorted(
                (name for name in value if not _CREDENTIAL.search(name)), key=lambda one: (one != "text", one)
            )
            waiting.extend(value[name] for name in reversed(names))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _is_prose(text: str) -> bool:
    if not any(map(str.isalnum, text)) or _TIMESTAMP.fullmatch(text):
        return False
    return len(text) <= MAX_WORD or " " in text or not text.isascii()
