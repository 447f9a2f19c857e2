"""Rules of queries: when their words match a memory, and which statuses they name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.text.unicode_form import compared_form

# "status:active OR status:pending", as the goal manager lists its goals.
_STATUS = r"""status:\s*(?:"[^"]+"|'[^']+'|[^\s"']+)"""
_STATUSES = re.compile(rf"\s*{_STATUS}(?:\s+OR\s+{_STATUS})*\s*", re.IGNORECASE)
_ONE_STATUS = re.compile(_STATUS, re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    {
        "a", "about", "an", "and", "are", "at", "be", "by", "did", "do", "does", "for", "from", "have", "how", "i",
        "in", "is", "it", "me", "my", "of", "on", "or", "s", "that", "the", "their", "to", "was", "we", "were", "what",
        "when", "where", "which", "who", "will", "with", "you", "your",
    }
)  # fmt: skip
# In shorter words a final "s" is no plural.
_MIN_PLURAL_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a search."""

    # In one form of Unicode, casefolded and stripped.
    text: str
    # Without stop words, unless all are stop words.
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Query:
        """Read a query."""
        folded_text = (compared_form(text) or text).strip().casefold()
        words = dict.fromkeys(_WORD.findall(folded_text))
        return cls(folded_text, tuple(word for word in words if word not in _STOP_WORDS) or tuple(words))

    def is_topic_of(self, memory: pb.Memory) -> bool:
        """Say whether the query is the topic of a fact."""
        return compared_form(topic_of(memory)).strip().casefold() == self.text != ""

    def matches(self, memory: pb.Memory) -> bool:
        """Say whether a memory's topic, tags or text contain the query itself, or each of its words."""
        texts = (topic_of(memory), memory.title, *memory.tags, memory.content)
        text = compared_form("\n".join(texts)).casefold()
        if self.text and self.text in text:
            return True
        words = set(_WORD.findall(text))
        return bool(self.words) and all(_contains_word(word, words) for word in self.words)


def topic_of(memory: pb.Memory) -> str:
    """Return a fact's topic; "" for a memory without one."""
    return memory.metadata.fields["topic"].string_value if "topic" in memory.metadata.fields else ""


def statuses(query: str) -> list[str]:
    """Return the statuses of a query such as "status:active"; empty for a query of words."""
    if not _STATUSES.fullmatch(query):
        return []
    values = [match.split(":", 1)[1].strip().strip("\"'") for match in _ONE_STATUS.findall(query)]
    return list(dict.fromkeys(values))


def _contains_word(word: str, words: set[str]) -> bool:
    """Say whether `words` has the word, its singular, or a word that begins with it."""
    is_plural = len(word) >= _MIN_PLURAL_CHARACTERS and word.endswith("s") and not word.endswith("ss")
    return (is_plural and word[:-1] in words) or any(other.startswith(word) for other in words)
