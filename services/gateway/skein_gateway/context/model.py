"""A context: the best of what was found, packed into a budget of tokens, with citations. Pure: no calls, no clock.

Things are taken in the order of preference that they are given in, each as long as there is room; what is taken is then
grouped, ordered by time, numbered and written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from skein_gateway.recall.text_match import excerpt, normal
from skein_kit.text.token_estimate import CHARACTERS_OF_A_TOKEN, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

# Fewer words in a row occur in another text by chance.
_LEAST_WORDS = 4
_CITATION = re.compile(r"\[(\d+)\]")
_INDENT = "\n  "


class ItemKind(IntEnum):
    """What is cited, in the order of the groups."""

    BLOCK = 0
    PROFILE = 1
    MEMORY = 2
    MESSAGE = 3


# The most of the budget that one thing may take, so that there is room for others.
_SHARES = {ItemKind.BLOCK: 0.5, ItemKind.PROFILE: 0.25, ItemKind.MEMORY: 0.5, ItemKind.MESSAGE: 0.5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Something that may be shown."""

    kind: ItemKind
    item_id: str
    text: str
    at: datetime | None = None
    # A memory's type.
    type: str = ""
    # Who says it, or what a block is called.
    by: str = ""
    session_id: str = ""
    # Place in the session, where the time is the same.
    sequence: int = 0
    score: float = 0.0
    # It belongs to a whole, a profile or the end of a conversation: shown although something else says the same.
    is_part: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextFormat:
    """How a context is written."""

    markdown: bool = True
    newest_first: bool = False
    # The conversation that is going on: it is the newest group, whatever its times are.
    session_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """What a number in the text stands for."""

    number: int
    item: Item
    is_cut: bool
    # What was found as well, and says nothing beyond this.
    duplicate_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """A text, and what it cites."""

    text: str
    citations: tuple[Citation, ...]
    token_count: int
    omitted_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Taken:
    """An item as it is shown."""

    item: Item
    body: str
    normal: str
    # With the line's end, and a number as long as any.
    cost: int
    is_cut: bool
    duplicate_ids: tuple[str, ...] = ()


@dataclass(slots=True)
class _Packing:
    """What is taken so far."""

    room: int
    digits: int
    # There is nothing else to leave room for.
    is_only: bool
    style: ContextFormat
    terms: frozenset[str]
    taken: list[_Taken] = field(default_factory=list)
    used: int = 0
    omitted_count: int = 0

    def offer(self, item: Item) -> None:
        """Take an item if it says something new and there is room."""
        body = _body(item.text)
        if not body:
            return
        words = normal(body)
        if not item.is_part:
            for place, other in enumerate(self.taken):
                if _contains_words(other.normal, words):
                    self.taken[place] = replace(other, duplicate_ids=(*other.duplicate_ids, item.item_id))
                    return
        contained = [other for other in self.taken if not other.item.is_part and _contains_words(words, other.normal)]
        kept = [other for other in self.taken if other not in contained] if contained else self.taken
        room = self.room - (_cost(kept, self.style) if contained else self.used) - self._heading(item, kept)
        line = len(_line(item, "9" * self.digits, "", self.style)) + 1
        most = min(room, self.room if self.is_only else int(self.room * _SHARES[item.kind])) - line
        shown = excerpt(body, most, self.terms)
        is_cut = shown != body
        words = normal(shown) if is_cut else words
        if not shown or (is_cut and self._repeats(item, words, contained)):
            self.omitted_count += 1
            return
        ids = tuple(one for other in contained for one in (other.item.item_id, *other.duplicate_ids))
        cost = line + len(shown)
        one = _Taken(item=item, body=shown, normal=words, cost=cost, is_cut=is_cut, duplicate_ids=ids)
        self.taken = [*kept, one]
        self.used = self.room - room + cost

    def _repeats(self, item: Item, words: str, contained: Sequence[_Taken]) -> bool:
        """Say whether a part of a text would say again what is there: half of it for the other half is no bargain."""
        return bool(contained) or (
            not item.is_part and any(_contains_words(other.normal, words) for other in self.taken)
        )

    def _heading(self, item: Item, others: Iterable[_Taken]) -> int:
        """Return what the heading of an item's group takes if it is the first of it."""
        name = _group(item)
        return 0 if any(_group(other.item) == name for other in others) else _heading_cost(item, self.style)


def pack(items: Sequence[Item], *, token_budget: int, terms: frozenset[str], style: ContextFormat) -> Context:
    """Pack what fits into the budget, taken in the order given; of long texts the part that holds most of the terms.

    What another text says already, word by word, is not shown again: the longer one stands for both.
    """
    packing = _Packing(
        room=token_budget * CHARACTERS_OF_A_TOKEN,
        digits=len(str(len(items))),
        is_only=len(items) == 1,
        style=style,
        terms=terms,
    )
    for item in items:
        packing.offer(item)
    text, citations = _written(packing.taken, style)
    return Context(
        text=text,
        citations=citations,
        token_count=estimate_tokens(text),
        omitted_count=packing.omitted_count,
    )


def _body(text: str) -> str:
    """Return a text as it stands in a line: no line of it looks like one of ours, nothing in it like a citation."""
    lines = (line.rstrip() for line in text.strip().splitlines())
    return _CITATION.sub(r"(\1)", _INDENT.join(line for line in lines if line))


def _contains_words(words: str, others: str) -> bool:
    """Say whether a text says what another one says: the same, or all its words in a row among others."""
    return words == others or (others.count(" ") >= _LEAST_WORDS - 1 and f" {others} " in f" {words} ")


def _group(item: Item) -> tuple[ItemKind, str]:
    """Name the group that an item belongs to."""
    if item.kind is ItemKind.MEMORY:
        return item.kind, item.type
    return item.kind, item.session_id if item.kind is ItemKind.MESSAGE else ""


def _title(item: Item) -> str:
    titles = {
        ItemKind.BLOCK: "Core memory",
        ItemKind.PROFILE: "Profile",
        ItemKind.MEMORY: f"Memories: {item.type}",
        ItemKind.MESSAGE: f"Conversation {item.session_id}",
    }
    return _label(titles[item.kind])


def _label(name: str) -> str:
    """Return a name that callers choose as one that cannot be taken for anything else."""
    return _CITATION.sub(r"(\1)", " ".join(name.split()))


def _heading(item: Item, style: ContextFormat) -> str:
    return f"## {_title(item)}\n\n" if style.markdown else f"{_title(item)}\n"


def _heading_cost(item: Item, style: ContextFormat) -> int:
    # With the empty line before it.
    return len(_heading(item, style)) + 1


def _line(item: Item, number: str, body: str, style: ContextFormat) -> str:
    when = (
        "" if item.at is None else item.at.strftime("%Y-%m-%d %H:%M" if item.kind is ItemKind.MESSAGE else "%Y-%m-%d")
    )
    by = _label(item.by)
    named = f"{when} {by}" if when and by else when or by
    return f"{'- ' if style.markdown else ''}[{number}] {named}{': ' if named else ''}{body}"


def _cost(taken: Iterable[_Taken], style: ContextFormat) -> int:
    firsts = {_group(one.item): one for one in taken}
    return sum(one.cost for one in taken) + sum(_heading_cost(one.item, style) for one in firsts.values())


def _written(taken: Sequence[_Taken], style: ContextFormat) -> tuple[str, tuple[Citation, ...]]:
    groups: dict[tuple[ItemKind, str], list[_Taken]] = {}
    for one in taken:
        groups.setdefault(_group(one.item), []).append(one)
    parts, citations = list[str](), list[Citation]()
    for name in _in_order(groups, style):
        lines = []
        for one in sorted(groups[name], key=lambda one: _moment(one.item), reverse=style.newest_first):
            number = len(citations) + 1
            lines.append(_line(one.item, str(number), one.body, style))
            citations.append(Citation(number=number, item=one.item, is_cut=one.is_cut, duplicate_ids=one.duplicate_ids))
        parts.append(_heading(groups[name][0].item, style) + "\n".join(lines))
    return "\n\n".join(parts), tuple(citations)


def _in_order(groups: dict[tuple[ItemKind, str], list[_Taken]], style: ContextFormat) -> list[tuple[ItemKind, str]]:
    """Return the names of the groups: by kind, memories by type, conversations by their first moment."""
    told = sorted(
        (name for name in groups if name[0] is ItemKind.MESSAGE),
        key=lambda name: (name[1] == style.session_id, min(_moment(one.item) for one in groups[name]), name[1]),
        reverse=style.newest_first,
    )
    return [*sorted(name for name in groups if name[0] is not ItemKind.MESSAGE), *told]


def _moment(item: Item) -> tuple[float, int, str]:
    return (item.at.timestamp() if item.at is not None else 0.0, item.sequence, item.item_id)
