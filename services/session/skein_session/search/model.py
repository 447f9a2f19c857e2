"""Searches of messages, and the rules of literal search. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from skein_kit.ids import min_id_at
from skein_kit.search_text.postings import MAX_TERM_CHARACTERS
from skein_kit.text.unicode_form import compared_form, compared_sql

# The most messages that one search reads.
MAX_SCANNED_MESSAGES = 5000
# Messages of one query.
SCAN_BATCH = 250


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuery:
    """A search of messages; an empty session_id searches all sessions."""

    text: str
    session_id: str
    start_time: datetime | None
    end_time: datetime | None
    limit: int
    # Messages before and after each hit.
    context_size: int
    # Only messages with lower ids, which the page before has not scanned.
    after_id: UUID | None = None

    @property
    def lowest_id(self) -> UUID | None:
        """The inclusive lower bound of ids; None is no bound."""
        return None if self.start_time is None else min_id_at(self.start_time)

    @property
    def before_id(self) -> UUID | None:
        """The exclusive upper bound of ids; None is no bound."""
        bounds = [self.after_id, None if self.end_time is None else min_id_at(self.end_time)]
        return min((bound for bound in bounds if bound is not None), default=None)


@dataclass(slots=True)
class MessageHit:
    """A message that a search found, and the rows of its neighbours in order."""

    row: Record
    score: float
    before: list[Record] = field(default_factory=list)
    after: list[Record] = field(default_factory=list)


def required_words(literal: str) -> str:
    """Return the words that every text with this literal contains as whole words, or "" when none is certain.

    The first and the last word may be parts of longer words in the text. Words with signs are left out.
    """
    is_first_whole, is_last_whole = literal[:1].isspace(), literal[-1:].isspace()
    words = literal.split()
    inner_words = words[0 if is_first_whole else 1 : len(words) if is_last_whole else -1]
    certain_words = (
        word for word in inner_words if word.isalpha() and word.isascii() and len(word) <= MAX_TERM_CHARACTERS
    )
    return " ".join(certain_words)


def literal_condition(literal: str) -> tuple[str, str]:
    """Return the SQL condition, with `:pattern`, of messages that contain a literal in any case, and the pattern.

    Both are compared in one form of Unicode, unless the literal has invisible characters alone.
    """
    compared = compared_form(literal)
    column = compared_sql("content") if compared else "content"
    return f"{column} ILIKE :pattern", like_pattern(compared or literal)


def like_pattern(literal: str) -> str:
    """Return the LIKE pattern of texts that contain the literal; its wildcards are escaped."""
    escaped = literal.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
