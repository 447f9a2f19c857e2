"""Suggested links: how similar two memories are, and why. No gRPC, no SQL, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

TAGS, WORDS, SOURCE, TIME, TYPE = 0.45, 0.35, 0.1, 0.05, 0.05
# More shared tags do not raise the score.
MAX_SHARED_TAGS = 3
# Memories created further apart get no score for their time.
MAX_TIME_APART = timedelta(days=30)
# Characters of content that are compared.
MAX_CHARACTERS_COMPARED = 2000
_WORD = re.compile(r"\w+")
_DIGITS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """The compared fields of a memory; `tags` may be limited to those that can be shared."""

    memory_id: UUID
    type: str
    title: str | None
    content: str
    source: str | None
    create_time: datetime
    tags: Sequence[str]

    @property
    def words(self) -> frozenset[str]:
        """Return the words of its title and of the beginning of its content, in lower case."""
        return frozenset(_WORD.findall(f"{self.title or ''}\n{self.content[:MAX_CHARACTERS_COMPARED]}".lower()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """A memory to link with; the score is the sum of its parts."""

    memory: Candidate
    shared_tags: tuple[str, ...]
    tag_score: float
    word_score: float
    source_score: float
    time_score: float
    type_score: float

    @property
    def score(self) -> float:
        """Return the similarity, 0 to 1."""
        parts = self.tag_score + self.word_score + self.source_score + self.time_score + self.type_score
        return round(min(1.0, parts), _DIGITS)


def compare(memory: Candidate, other: Candidate) -> Suggestion:
    """Return the similarity of two memories by its parts."""
    shared_tags = tuple(sorted(set(memory.tags) & set(other.tags)))
    words, other_words = memory.words, other.words
    union_size = len(words | other_words)
    time_distance = abs(memory.create_time - other.create_time)
    return Suggestion(
        memory=other,
        shared_tags=shared_tags,
        tag_score=TAGS * min(1.0, len(shared_tags) / MAX_SHARED_TAGS),
        word_score=WORDS * len(words & other_words) / union_size if union_size else 0.0,
        source_score=SOURCE if memory.source is not None and memory.source == other.source else 0.0,
        time_score=TIME * max(0.0, 1.0 - time_distance / MAX_TIME_APART),
        type_score=TYPE if memory.type == other.type else 0.0,
    )


def suggest(memory: Candidate, others: Iterable[Candidate], *, min_score: float, count: int) -> list[Suggestion]:
    """Return the most similar memories with a shared tag and at least `min_score`, best first; of equals the newest."""
    suggestions = [compare(memory, other) for other in others]
    matches = [suggestion for suggestion in suggestions if suggestion.shared_tags and suggestion.score >= min_score]
    matches.sort(key=lambda suggestion: (-suggestion.score, -suggestion.memory.memory_id.int))
    return matches[:count]
