"""The sections of pages, and the text that memories make. No gRPC, no SQL, no clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.filters.expression import Compare, Expression, In, Or
from skein_kit.text.quoted_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_memory.memories.model import Memory

DEFAULT_LIMIT = 20
# Bytes of the sentences of a page: a response has them twice.
MAX_BYTES = 512 * 1024
# Before the subject in the id of a profile.
PROFILE_PREFIX = "subject:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Which memories a part of a page has, and how many."""

    title: str
    types: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    limit: int = DEFAULT_LIMIT

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """Return the conditions of its memories, which must all hold."""
        types = (In(("type",), self.types),) if self.types else ()
        # An OR hides the key from the choice of an index: a subject has fewer memories than a key of all subjects.
        keys = (Or(tuple(Compare(("key",), "=", key) for key in self.keys)),) if self.keys else ()
        return (*types, *keys)


# A profile has what people are told about a person; tasks and the agent's own notes have lists of their own.
PROFILE_SECTIONS = (
    Section(title="Facts", types=("fact",)),
    Section(title="Preferences", types=("user_preference", "preference")),
    Section(title="Decisions", types=("decision",)),
    Section(title="Events", types=("episodic",)),
    Section(title="Notes", types=("note",)),
)
PROFILE_TYPES = tuple(name for section in PROFILE_SECTIONS for name in section.types)


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
        if sentences:
            composed.append((one_line(section.title), tuple(sentences)))
    return ComposedPage(sections=tuple(composed), text=_render(one_line(title), composed), is_truncated=is_truncated)


def _order(memory: Memory) -> tuple[bool, str, UUID]:
    """Return the order within a section: keys first, then the oldest."""
    key = memory.draft.key or ""
    return not key, key.casefold(), memory.memory_id


def _text(memory: Memory) -> str:
    draft = memory.draft
    name, content = one_line(draft.title or draft.key or ""), one_line(draft.content)
    return f"{name}: {content}" if name and content else content or name


def _render(title: str, sections: Sequence[tuple[str, tuple[Sentence, ...]]]) -> str:
    lines = [f"# {title}"]
    for name, sentences in sections:
        lines += ["", f"## {name}", "", *(f"- {sentence.text} [{sentence.number}]" for sentence in sentences)]
    citations = [sentence for _, sentences in sections for sentence in sentences]
    lines += ["", *(f"[{one.number}] memory {one.memory_id} revision {one.revision}" for one in citations)]
    return "\n".join(lines).rstrip() + "\n"
