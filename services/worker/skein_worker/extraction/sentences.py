"""The sentences of a message that its speaker says as their own: without quotes, code, logs and pasted texts. Pure.

Positions stay those of the message: what is left out becomes MASK, character by character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MASK: Final = "\ufffc"
# A longer message is a pasted text.
MAX_CHARACTERS: Final = 2000
MAX_LINES: Final = 15
# People tell of themselves in shorter sentences; forms take time that grows with the length.
MAX_SENTENCE_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its place in the message."""

    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def own_words(text: str, speaker: str) -> str:
    """Return the message with everything masked that is not the speaker's own prose."""
    if is_pasted(text):
        return MASK * len(text)
    text = plain_text(text)
    for pattern in _QUOTES:
        text = pattern.sub(_mask, text)
    return _LINE.sub(lambda match: _mask_line(match, speaker), text)


def is_pasted(text: str) -> bool:
    """Return whether a text is too long for a person's own words, or a letter."""
    return len(text) > MAX_CHARACTERS or text.count("\n") > MAX_LINES or _LETTER.match(text) is not None


def split_sentences(text: str) -> Iterator[Sentence]:
    """Find the sentences of a text, without the space around them."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield from _sentence(text, start, match.end())
        start = match.end()
    yield from _sentence(text, start, len(text))


def _sentence(text: str, start: int, end: int) -> Iterator[Sentence]:
    part = text[start:end]
    stripped = part.strip()
    if stripped:
        yield Sentence(start + part.index(stripped), stripped)


def plain_text(text: str) -> str:
    """Return the text with plain apostrophes and spaces, and without pictures, of the same length."""
    return _PICTURES.sub(lambda match: " " * len(match[0]), text.translate(_PLAIN))


def _mask(match: re.Match[str]) -> str:
    return MASK * len(match[0])


def _mask_line(match: re.Match[str], speaker: str) -> str:
    line = match[0]
    if _NOT_PROSE.search(line):
        return MASK * len(line)
    label = _SPEAKER_LABEL.match(line)
    if label is None or label["name"].casefold() in _LABELS | {speaker.casefold()}:
        return line
    return MASK * len(line)


_PLAIN: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "\u00a0": " ", "\t": " ", "\u3000": " ", "\u202f": " "})
# Pictures stand for no word, but for the faces and hands that take back what is said.
_PICTURES: Final = re.compile(
    "(?:(?![😂🤣😅😆😉😏😜😝😛🙃🤪🤡🥲🙄🤨🤔😒😬🤥👎❌])[\U0001f000-\U0001faff\u2600-\u27bf\u2b50\ufe0f\u200d])+"
)
_QUOTES: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"```.*?(?:```|\Z)", r"`[^`\n]*`", r"“[^”]*(?:”|\Z)", r"„[^“”]*(?:[“”]|\Z)", r"«[^»]*(?:»|\Z)",
        r'"[^"\n]*(?:"|$|\n)', r"「[^」]*(?:」|\Z)", r"『[^』]*(?:』|\Z)",
        # A single quote that opens before a letter and closes behind one.
        r"(?<![^\W_])'[^'\n]{3,}[^\s']'(?![^\W_])",
    )
)  # fmt: skip
_LINE: Final = re.compile(r"[^\n]+")
_NOT_PROSE: Final = re.compile(
    r"^\s*(?:[#>|$]|//|/\*|<[!/\w]|[\[{(]|[-+]{1,3}[\w\ufffc ]+=|\d{4}-\d\d-\d\d[T ]\d|at \w+\.|diff --|@@ )"
    r"|^\s*(?:ERROR|WARN|WARNING|INFO|DEBUG|HINT|TRACE|FATAL|Traceback|File|SELECT|INSERT|UPDATE|DELETE|const|let|var|def"
    r"|class|import|from \w+ import|return|print\(|grep|row \d|status|exit code|HEARTBEAT\w*|\[?cron)\b"
    r"|[{};]\s*$|==|=>|\w+\(.*\)\s*$|\s=\s|\w=[\w\ufffc]|\[[^\]\n]{2,30}\]|\{\{|\}\}|<\w+>"
)
_LETTER: Final = re.compile(r"\s*(?:Dear|Sehr geehrte|Liebe[rs]? \w+,\n|Estimad|Querid|尊敬的|亲爱的|To whom)[^\n]*\n")
_SPEAKER_LABEL: Final = re.compile(
    r"\s*(?P<name>[^\W\d_][\w.'-]*(?: [^\W\d_a-z][\w.'-]*){0,2}|[一-鿿·]{1,6}) ?[:：](?!//)(?=\s|[一-鿿「“\ufffc]|$)"
)
# Words before a colon that name no speaker.
_LABEL_WORDS: Final = (
    "decision correction note ps remember no yes sorry fyi reminder entscheidung korrektur notiz nein ja nota decisión "
    "corrección recuerda no sí 决定 更正 记住 请记住 注意 记一下 请记一下 不对 merk"
)
_LABELS: Final = frozenset(_LABEL_WORDS.split())
_MONTHS: Final = r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|\d)"
_SENTENCE_END: Final = re.compile(
    r"\n+|[。！？]+[”」』]?|(?:(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\bHr)(?<!\bFr)(?<!\bSr)(?<!\bSra)(?<!\bDra)"
    rf"(?<!\bNr)(?<!\bbzw)(?<!\bProf)\.(?!\s*{_MONTHS})|[!?…])+(?=\s|$|\ufffc)|(?<=\D)\.(?=\s|$)"
)
