"""The sections of pages, and the text that memories make. No gRPC, no SQL, no clock."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.filters.expression import Compare, Contains, Expression, Has, In, Not, Or
from skein_kit.json_values import exact
from skein_kit.text.quoted_text import one_line, one_line_json
from skein_memory.memories.model import Memory

DEFAULT_LIMIT = 20
# Bytes of the sentences of a page: a response has them twice.
MAX_BYTES = 512 * 1024
_VAULT = "knowledge_vault"
# Before the subject in the id of a profile.
PROFILE_PREFIX = "subject:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Which memories a part of a page has, and how many."""

    title: str
    types: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    further_conditions: tuple[Expression, ...] = ()
    limit: int = DEFAULT_LIMIT

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """Return the conditions of its memories, which must all hold."""
        types = (In(("type",), self.types),) if self.types else ()
        # An OR hides the key from the choice of an index: a subject has fewer memories than a key of all subjects.
        keys = (Or(tuple(Compare(("key",), "=", key) for key in self.keys)),) if self.keys else ()
        return (*types, *keys, *self.further_conditions)


_IS_TASTE = Or((Contains(("key",), "taste:"), Contains(("key",), "favourite:")))
# A newer value supersedes a fact with a key, so a person has few of them, and an old one still holds. Tastes are many.
_KEYED_FACTS = Section(
    title="Facts", types=("fact",), further_conditions=(Has(("key",)), Not(_IS_TASTE)), limit=2 * DEFAULT_LIMIT
)
_PREFERENCES = Section(
    title="Preferences", further_conditions=(Or((In(("type",), ("user_preference", "preference")), _IS_TASTE)),)
)
# What is stable about a person.
BRIEF_SECTIONS = (_KEYED_FACTS, _PREFERENCES)
# A profile has what people are told about a person; tasks and the agent's own notes have lists of their own. Sections
# with one title are shown as one.
PROFILE_SECTIONS = (
    _KEYED_FACTS,
    Section(title="Facts", types=("fact",), further_conditions=(Not(Has(("key",))),)),
    _PREFERENCES,
    Section(title="Decisions", types=("decision",)),
    Section(title="Events", types=("episodic",)),
    Section(title="Notes", types=("note",)),
)
PROFILE_TYPES = ("fact", "user_preference", "preference", "decision", "episodic", "note")
# The order of keys, by what stands before a colon in them: what matters in most talks comes first.
_KEY_RANKS = {
    name: rank
    for rank, names in enumerate(
        (
            "name full_name first_name nickname",
            "birthday age",
            "allergy diet",
            "lives_in home city address country from timezone",
            "works_at occupation job employer studies",
        )
    )
    for name in names.split()
}
# "sister:eva.lives_in" is about another person.
_OF_OTHERS, _FURTHER, _POSSESSION = 10, 11, 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A memory on one line, with the number of its citation."""

    number: int
    text: str
    memory_id: UUID
    revision: int
    type: str
    create_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ComposedPage:
    """The sentences of each section that has some, by its title; the text; and whether memories were left out."""

    sections: tuple[tuple[str, tuple[Sentence, ...]], ...]
    text: str
    is_truncated: bool

    @property
    def etag(self) -> str:
        """Return the digest of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def compose(
    title: str, sections: Sequence[Section], memories: Sequence[Sequence[Memory]], *, is_truncated: bool
) -> ComposedPage:
    """Compose a page of the memories of each section, newest first: of more than its limit the newest count.

    The text depends on the memories alone, and not on the order in which they came.
    """
    composed: list[tuple[str, tuple[Sentence, ...]]] = []
    number, size = 0, 0
    for section, chosen in zip(sections, memories, strict=True):
        newest = sorted(chosen, key=lambda memory: memory.memory_id, reverse=True)
        is_truncated |= len(newest) > section.limit
        sentences: list[Sentence] = []
        for memory in sorted(newest[: section.limit], key=_order):
            text = _text(memory)
            size += len(text.encode())
            if size > MAX_BYTES:
                is_truncated = True
                break
            if text:
                number += 1
                sentences.append(
                    Sentence(
                        number=number,
                        text=text,
                        memory_id=memory.memory_id,
                        revision=memory.revision,
                        type=memory.draft.type,
                        create_time=memory.draft.create_time,
                    )
                )
        title_line = one_line(section.title)
        if sentences and composed and composed[-1][0] == title_line:
            composed[-1] = (title_line, (*composed[-1][1], *sentences))
        elif sentences:
            composed.append((title_line, tuple(sentences)))
    return ComposedPage(sections=tuple(composed), text=_render(one_line(title), composed), is_truncated=is_truncated)


def _order(memory: Memory) -> tuple[bool, int, str, UUID]:
    """Return the order within a section: keys first by their rank, then the oldest."""
    key = (memory.draft.key or "").casefold()
    return not key, _rank(key), key, memory.memory_id


def _rank(key: str) -> int:
    if "." in key:
        return _OF_OTHERS
    name = key.partition(":")[0]
    return _POSSESSION if name == "owns" else _KEY_RANKS.get(name, _FURTHER)


def _text(memory: Memory) -> str:
    draft = memory.draft
    name, body = one_line(draft.title or draft.key or ""), one_line(draft.content)
    # Some facts keep everything in their data. That of the vault would reveal the length of a secret.
    if not body and draft.data and draft.type != _VAULT:
        body = one_line(one_line_json(dict(sorted(exact.loads(draft.data).items()))))
    return f"{name}: {body}" if name and body else body or name


def _render(title: str, sections: Sequence[tuple[str, tuple[Sentence, ...]]]) -> str:
    lines = [f"# {title}"]
    for name, sentences in sections:
        lines += ["", f"## {name}", "", *(f"- {sentence.text} [{sentence.number}]" for sentence in sentences)]
    citations = [sentence for _, sentences in sections for sentence in sentences]
    lines += ["", *(f"[{one.number}] memory {one.memory_id} revision {one.revision}" for one in citations)]
    return "\n".join(lines).rstrip() + "\n"
