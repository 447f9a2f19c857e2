"""What a query means beside its words: other names of the entities that it mentions, and near terms for a typo.

No SQL, no protobuf, no clock.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from skein_kit.search_text.segmentation import LETTER_RANGES
from skein_kit.text.unicode_form import plain_form

# A longer text is content, not a name.
MAX_NAME_CHARACTERS: Final = 80
MAX_NAME_WORDS: Final = 6
# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000
# Mentions of a query that are read, entities that share a mentioned name, and other names of each.
_MAX_MENTIONS: Final = 5
_MAX_ENTITIES: Final = 3
_MAX_OTHER_NAMES: Final = 8
# More of each are looked up, because the caller may not see some; and names of all of them together.
_MAX_CANDIDATES: Final = 40
_MAX_CANDIDATE_ENTITIES: Final = 12
_MAX_CANDIDATE_NAMES: Final = 32
_MAX_LOOKUPS: Final = 500
# Other names that the embedded text has beside the written one: more of them would drown the question.
_MAX_EMBEDDED_NAMES: Final = 2

# Terms without a document for which near ones are searched; a text with more of them is in another language.
MAX_CORRECTED_TERMS: Final = 4
# Near terms that one term is read as.
MAX_NEAR_TERMS: Final = 3
# Near terms whose documents are counted, of which the most frequent ones are chosen.
_MAX_COUNTED_TERMS: Final = 12
_MIN_LETTERS: Final = 4
_LETTERS_OF_TWO_TYPOS: Final = 8
# A longer term is no word.
_MAX_LETTERS: Final = 40
# Letters of the scripts whose words have typos; words of other scripts are not corrected.
_ALPHABETS: Final = {
    "LATIN": "abcdefghijklmnopqrstuvwxyz",
    "CYRILLIC": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "GREEK": "αβγδεζηθικλμνξοπρστυφχψω",
}

# A word of a script without spaces is one letter. "C++" and "C#" are words.
_WORD: Final = re.compile(rf"[{LETTER_RANGES}]|[^\W_{LETTER_RANGES}]+[+#]*")


class Reason(StrEnum):
    """Why a part of a query is also read otherwise."""

    ALIAS = "alias"
    TYPO = "typo"


class QueryExpansion(NamedTuple):
    """A part of a query as written, and what it is read as too."""

    written: str
    read_as: str
    reason: Reason


# --- Aliases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityName:
    """One name of an entity: the text of a memory that is the entity's canonical memory, or an alias of it."""

    # The canonical memory.
    entity_id: UUID
    memory_id: UUID
    # Empty for a canonical memory that is no name, but a sentence.
    text: str

    @property
    def is_canonical(self) -> bool:
        return self.memory_id == self.entity_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A name that the caller may see, and its stems."""

    text: str
    stems: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mention:
    """A name in the text of a query, by the positions of its characters."""

    start: int
    end: int
    entity_ids: tuple[UUID, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadMention:
    """A mention with the other names of what it mentions, canonical names first."""

    mention: Mention
    stems: frozenset[str]
    others: tuple[Name, ...]
    # The canonical memories, which are what the name means.
    entity_ids: tuple[UUID, ...]


class NameTable:
    """The names of a tenant's entities that have aliases."""

    def __init__(self, names: Iterable[EntityName]) -> None:
        self._entities: dict[tuple[str, ...], dict[UUID, None]] = {}
        # The names of each entity with their words.
        self._names: dict[UUID, list[tuple[tuple[str, ...], EntityName]]] = {}
        for name in names:
            words = _key(name.text)
            if 0 < len(words) <= MAX_NAME_WORDS and _is_name(words):
                self._entities.setdefault(words, {})[name.entity_id] = None
                self._names.setdefault(name.entity_id, []).append((words, name))
            elif name.is_canonical:
                # The memory counts, its text does not.
                self._names.setdefault(name.entity_id, []).append(((), replace(name, text="")))

    def __len__(self) -> int:
        return sum(map(len, self._names.values()))

    def candidates(self, text: str) -> list[Mention]:
        """Find the names in a text: whole words in any case, in order, longer ones first where they overlap.

        Shorter ones count where the caller may not see the longer one.
        """
        candidates: list[Mention] = []
        words = list(_words(text[:_READ_CHARACTERS])) if self._names else []
        for first, (_, start, _) in enumerate(words):
            for last in range(min(first + MAX_NAME_WORDS, len(words)), first, -1):
                entities = self._entities.get(tuple(word for word, _, _ in words[first:last]))
                if entities:
                    entity_ids = tuple(islice(entities, _MAX_CANDIDATE_ENTITIES))
                    candidates.append(Mention(start=start, end=words[last - 1][2], entity_ids=entity_ids))
            if len(candidates) >= _MAX_CANDIDATES:
                break
        return candidates

    def names(self, text: str, candidates: Iterable[Mention]) -> list[EntityName]:
        """Return names of the entities that a text may mention: the canonical and the written ones, then others."""
        written: dict[UUID, set[tuple[str, ...]]] = {}
        for mention in candidates:
            for entity_id in mention.entity_ids:
                written.setdefault(entity_id, set()).add(_key(text[mention.start : mention.end]))
        deciding: list[EntityName] = []
        others: list[EntityName] = []
        for entity_id, keys in written.items():
            names = sorted(self._names[entity_id], key=lambda pair: (not pair[1].is_canonical, pair[0] not in keys))
            for words, name in names[:_MAX_CANDIDATE_NAMES]:
                (deciding if name.is_canonical or words in keys else others).append(name)
        return [*deciding, *others][:_MAX_LOOKUPS]


def read_mentions(
    text: str, candidates: Iterable[Mention], names: Iterable[tuple[EntityName, Sequence[str]]]
) -> tuple[ReadMention, ...]:
    """Return the mentions with the other names, and the canonical memories, that the caller may see.

    `candidates` and their order are those of a `NameTable`; the mentions do not overlap. `names` are the visible ones
    with their stems. Of an entity the canonical memory, an alias, and the memory whose name is written must be among
    them. A name of stop words alone has no stems and is no name. Names that the caller may not see change nothing.
    """
    by_entity: dict[UUID, list[tuple[EntityName, tuple[str, ...]]]] = {}
    for name, stems in names:
        if stems or (name.is_canonical and not name.text):
            by_entity.setdefault(name.entity_id, []).append((name, tuple(stems)))
    results: list[ReadMention] = []
    end = 0
    for mention in candidates:
        read = _read_mention(text, mention, by_entity) if mention.start >= end else None
        if read is not None:
            results.append(read)
            end = mention.end
        if len(results) == _MAX_MENTIONS:
            break
    return tuple(results)


def _read_mention(
    text: str, mention: Mention, visible_names: Mapping[UUID, list[tuple[EntityName, tuple[str, ...]]]]
) -> ReadMention | None:
    """Return a mention with what it means; None where the caller may see no entity of it."""
    written = _key(text[mention.start : mention.end])
    stems_written: set[str] = set()
    others: dict[tuple[str, ...], Name] = {}
    entity_ids: list[UUID] = []
    for entity_id in mention.entity_ids:
        visible = sorted(visible_names.get(entity_id, ()), key=lambda pair: not pair[0].is_canonical)
        same = [stems for name, stems in visible if _key(name.text) == written]
        # A canonical memory alone is no entity for a caller who may not see its aliases.
        if not same or len(visible) == 1 or not visible[0][0].is_canonical:
            continue
        entity_ids.append(entity_id)
        stems_written.update(*same)
        others |= {
            _key(name.text): Name(text=name.text, stems=stems)
            for name, stems in visible
            if name.text and _key(name.text) not in {written, *others}
        }
        if len(entity_ids) == _MAX_ENTITIES:
            break
    if not entity_ids:
        return None
    kept = tuple(others.values())[:_MAX_OTHER_NAMES]
    return ReadMention(mention=mention, stems=frozenset(stems_written), others=kept, entity_ids=tuple(entity_ids))


def embedded_text(text: str, mentions: Iterable[ReadMention]) -> str:
    """Return the text with the other names in brackets after each mention.

    In place of the written name, another one would lose the items that have the written name.
    """
    for read in sorted(mentions, key=lambda read: -read.mention.start):
        if not read.others:
            continue
        names = ", ".join(name.text for name in read.others[:_MAX_EMBEDDED_NAMES])
        text = f"{text[: read.mention.end]} ({names}){text[read.mention.end :]}"
    return text


def alias_expansions(text: str, mentions: Iterable[ReadMention]) -> list[QueryExpansion]:
    """Tell which names of a text are read as which others."""
    return [
        QueryExpansion(text[read.mention.start : read.mention.end], name.text, Reason.ALIAS)
        for read in mentions
        for name in read.others
    ]


def _words(text: str) -> Iterable[tuple[str, int, int]]:
    """Split a text into words, in one case, each with the positions of its first and after its last character."""
    for match in _WORD.finditer(text):
        yield match[0].casefold(), match.start(), match.end()


def _key(text: str) -> tuple[str, ...]:
    return tuple(word for word, _, _ in _words(plain_form(text)))


def _is_name(words: Sequence[str]) -> bool:
    """Return whether words name something: a single letter or a number does not."""
    letters = "".join(words)
    return len(letters) > 1 and any(letter.isalpha() for letter in letters)


# --- Typos ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class NearRange:
    """The known terms that are compared with a term: those of two ranges, and some others by themselves."""

    term: str
    # The first letters of the terms of each range, the smaller range first. A search of both is bounded, so that of
    # many terms with the same two letters at least those with the same three are compared.
    prefixes: tuple[str, str]
    # Terms with one typo at the second or third letter, so that they are in no smaller range. The term itself too: it
    # may occur in items of another kind.
    guesses: tuple[str, ...]

    @classmethod
    def of(cls, term: str) -> NearRange:
        """Return the ranges of a term."""
        letters = {*_ALPHABETS[_script(term) or "LATIN"], *term}
        guesses = {term}
        for index in (1, 2):
            before, letter, after = term[:index], term[index], term[index + 1 :]
            guesses |= {before + after, before + after[0] + letter + after[1:]}
            guesses |= {before + other + tail for other in letters for tail in (after, letter + after)}
        return cls(term=term, prefixes=(term[:3], term[:2]), guesses=tuple(sorted(guesses)))

    @property
    def bounds(self) -> tuple[tuple[str, str], ...]:
        """The first term of each range, and the first one after it."""
        return tuple((prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)) for prefix in self.prefixes)

    @property
    def lengths(self) -> tuple[int, int]:
        """The shortest and the longest near term, in letters."""
        limit = max_distance(self.term)
        return len(self.term) - limit, len(self.term) + limit


def max_distance(term: str) -> int:
    """Return how many typos of a term are corrected: none of short ones, numbers and scripts without typos."""
    if not _MIN_LETTERS <= len(term) <= _MAX_LETTERS or _script(term) is None:
        return 0
    return 1 if len(term) < _LETTERS_OF_TWO_TYPOS else 2


def distance(one: str, other: str, limit: int) -> int:
    """Return the Damerau-Levenshtein distance of two terms in its restricted form; `limit` + 1 where it is more.

    A transposition of neighbours counts as one edit, and no part is edited twice (optimal string alignment). Edits are
    tried only where the terms differ, so a limit of 2 needs few comparisons whatever the terms are. A table of
    distances takes thirty times as long for terms that an attacker stores, and blocks the event loop meanwhile.
    """
    if one == other:
        return 0
    if limit == 0 or abs(len(one) - len(other)) > limit:
        return limit + 1
    start = shared_letters(one, other)
    one, other = one[start:], other[start:]
    tails = [(one[1:], other[1:]), (one[1:], other), (one, other[1:])]
    if one[:2] == other[1::-1]:
        tails.append((one[2:], other[2:]))
    return 1 + min(distance(one_tail, other_tail, limit - 1) for one_tail, other_tail in tails)


def near_terms(term: str, known: Iterable[str]) -> tuple[int, list[str]]:
    """Return the nearest known terms and their distance; none where the term itself is known.

    They begin with the same letter.
    """
    limit = max_distance(term)
    letters = frozenset(term)
    nearest: dict[int, list[str]] = {}
    for other in dict.fromkeys(known):
        # One edit replaces one letter at most, which is tested faster than the distance.
        may_be_near = other[:1] == term[:1] and len(letters.symmetric_difference(other)) <= 2 * limit
        if may_be_near and _script(other) is not None:
            nearest.setdefault(distance(term, other, limit), []).append(other)
    best = min(nearest, default=limit + 1)
    return (best, sorted(nearest[best])[:_MAX_COUNTED_TERMS]) if 0 < best <= limit else (0, [])


def typo_factor(term: str, edits: int) -> float:
    """Return the share of the weight that a near term has: that of the letters that are right."""
    return 1 - edits / len(term)


def words_of(text: str) -> frozenset[str]:
    """Return the words of the beginning of a text, in lower case."""
    return frozenset(_key(text[:_READ_CHARACTERS]))


def word_of_stem(stem: str, text: str) -> str:
    """Return the word of a text that most likely has a stem: it begins like the stem. The stem where none does."""
    least = max(1, len(stem) - 2)
    folded = text.casefold()
    # A few letters are two in one case.
    original = text if len(text) == len(folded) else folded
    best, shared, seen = stem, 0, set[str]()
    # A pattern that begins with letters is found by far the fastest. A long text has many other words.
    for match in re.finditer(rf"{re.escape(stem[:least])}[^\W_]*[+#]*", folded):
        if match[0] in seen or (match.start() and folded[match.start() - 1].isalnum()):
            continue
        seen.add(match[0])
        common = shared_letters(match[0], stem)
        if common >= least and (common, -len(match[0])) > (shared, -len(best)):
            best, shared = original[match.start() : match.end()], common
    return best


def shared_letters(one: str, other: str) -> int:
    """Return how many letters two words share at their beginning."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _script(term: str) -> str | None:
    """Return the script of a term; None for one with other characters than letters of a script that has typos."""
    if not term.isalpha():
        return None
    if term.isascii():
        return "LATIN"
    scripts = {unicodedata.name(letter, "").split(" ", 1)[0] for letter in term}
    script = next(iter(scripts))
    return script if len(scripts) == 1 and script in _ALPHABETS else None
