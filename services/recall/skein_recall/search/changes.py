"""Which of two hits says what has changed since the other one, and goes first. Pure.

Both say nearly the same of the same thing, and differ in a value: a number, a name or a negation. Other words that
differ tell of something else. So do names at the beginning, which say what a text is about, and values that the query
names: "Who is the head of Legal?" asks for nothing that a new head of Finance changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Self

from skein_recall.search import ranking
from skein_recall.search.model import SearchHit

# The best hits, which may change places: whatever the limit, so that a larger one changes no earlier hit.
MAX_HITS: Final = 13
# A longer text says more than one thing; reading it would take longer than ranking it.
MAX_CHARACTERS: Final = 600
# Words that both texts have, beside small ones: fewer do not show that they speak of the same thing.
_MIN_COMMON_WORDS: Final = 2
# A number up to this place among the words says what a text is about.
_NUMBER_POSITION: Final = 2

# Numbers keep their signs, decimals, times and dates; words their hyphens.
_WORD: Final = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:-[^\W_]+)*")
_NOT: Final = re.compile(r"n['’]t\b|\bcannot\b", re.IGNORECASE)
_POSSESSIVE: Final = re.compile(r"['’]s\b")

# --- Words of the languages that have cues: English, and the negations of German, Spanish and French ---------------
_NEGATIONS: Final = frozenset(
    _WORD.findall(
        "not no never none nobody nothing neither nor without nicht kein keine keinen keinem keiner nie niemals nunca "
        "jamás ne pas jamais"
    )
)
_NUMBERS: Final = frozenset(
    _WORD.findall(
        "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred "
        "thousand once twice half double"
    )
)
# Words that carry no fact of their own, so that they may differ.
_SMALL_WORDS: Final = frozenset(
    _WORD.findall(
        "a an the is are was were be been am has have had do does did will would can could ca wo now currently today "
        "already just again still any longer more anymore since of to in on at by for from with and or that this it "
        "its as so but"
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """The words of a short text, in lower case."""

    # Values at the beginning, which say what it is about.
    subject: AbstractSet[str]
    values: AbstractSet[str]
    # Neither values nor small words.
    others: AbstractSet[str]

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a text."""
        text = _POSSESSIVE.sub("", _NOT.sub(" not", text))
        words = _WORD.findall(text)
        values = {word.casefold() for word in words if _is_value(word)}
        # A word that is somewhere a value is one everywhere. "Eats" and "does not eat" have one verb.
        others = {word.casefold() for word in words} - values - _SMALL_WORDS
        return cls(subject=_subject(words), values=values, others={word.removesuffix("s") for word in others})

    def changes(self, older: Statement, query_words: AbstractSet[str]) -> bool:
        """Return whether this text, the newer one, says what has changed since the older one."""
        if self.others != older.others or self.subject != older.subject:
            return False
        own, former = self.values - older.values, older.values - self.values
        if not own and not former:
            return False
        # A value that only one of them has is a further fact, unless it is a negation.
        if not (own and former) and not (own | former) <= _NEGATIONS:
            return False
        common = len(self.others) + len(self.values & older.values)
        if common < max(_MIN_COMMON_WORDS, len(own), len(former)):
            return False
        return not (own | former) & query_words


def newer_first(hits: Sequence[SearchHit], query: str) -> list[SearchHit]:
    """Return hits, best first, of which those that say what has changed take the places of those that they change.

    The first MAX_HITS may do so. Each has the score of its new place, and names the older ones. A hit of less trust
    changes none.
    """
    query_words = words_of(query)
    texts = [_short_text(hit) for hit in hits[:MAX_HITS]]
    rough_words = [frozenset(text.casefold().split()) for text in texts]
    statements: dict[int, Statement] = {}
    groups: dict[int, set[int]] = {}
    for pair in combinations((index for index, text in enumerate(texts) if text), 2):
        if not _are_alike(*(rough_words[index] for index in pair)):
            continue
        older, newer = sorted(pair, key=lambda index: hits[index].order_key)
        if not _may_change(hits[newer], hits[older]):
            continue
        for index in pair:
            if index not in statements:
                statements[index] = Statement.of(texts[index])
        if statements[newer].changes(statements[older], query_words):
            group = groups.get(older, {older}) | groups.get(newer, {newer})
            groups |= dict.fromkeys(group, group)
    result = list(hits)
    for place, group in groups.items():
        places = sorted(group)
        if place != places[0]:
            continue
        newest = sorted((hits[index] for index in group), key=lambda hit: hit.order_key, reverse=True)
        for number, index in enumerate(places):
            older_ids = tuple(hit.item.item_id for hit in newest[number + 1 :])
            item = newest[number].item.move_to(hits[index].item.score)
            result[index] = replace(newest[number], item=item, older_ids=older_ids)
    return result


def _short_text(hit: SearchHit) -> str:
    """Return the text of a hit; none of a long one, which says more than one thing."""
    text = hit.row["content"] or ""
    return text if len(text) <= MAX_CHARACTERS else ""


def _are_alike(words: AbstractSet[str], others: AbstractSet[str]) -> bool:
    """Return whether two texts may say nearly the same: a test that takes a hundredth of the time of `changes`."""
    shorter, longer = sorted((len(words), len(others)))
    return longer <= 2 * shorter and 2 * len(words & others) >= shorter


def _may_change(newer: SearchHit, older: SearchHit) -> bool:
    """Return whether both have one speaker, subject and key, and the newer one has no less trust."""
    trusts = [ranking.NEUTRAL_TRUST if hit.row["trust"] is None else hit.row["trust"] for hit in (newer, older)]
    return newer.topic == older.topic and trusts[0] >= trusts[1]


def words_of(text: str) -> frozenset[str]:
    """Return the words of a query, in lower case."""
    return frozenset(word.casefold() for word in _WORD.findall(_POSSESSIVE.sub("", text)))


def _is_value(word: str) -> bool:
    folded = word.casefold()
    if folded in _NEGATIONS or folded in _NUMBERS or word[0].isdigit():
        return True
    return word[0].isupper() and folded not in _SMALL_WORDS


def _subject(words: Sequence[str]) -> frozenset[str]:
    """Return the names that a text begins with, and a number right behind its first word: "Room 204 is booked"."""
    subject: set[str] = set()
    position = 0
    for word in words:
        is_small = word.casefold() in _SMALL_WORDS
        if is_small and position:
            break
        if is_small:
            continue
        position += 1
        if word[0].isupper() or (word[0].isdigit() and position <= _NUMBER_POSITION):
            subject.add(word.casefold())
        elif subject:
            break
    return frozenset(subject)
