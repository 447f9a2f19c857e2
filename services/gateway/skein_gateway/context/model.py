"""Packs recall results into one text within a token budget, with citations. Pure: no calls, no clock.

Items are added in the given order of preference while they fit; the packed items are then grouped, ordered by time,
numbered and rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum

from skein_gateway.recall.text_match import ELLIPSIS, excerpt, normalize
from skein_kit.text.quoted_text import MARK, one_line, quote
from skein_kit.text.source_keys import NEUTRAL_TRUST
from skein_kit.text.token_estimate import DEFAULT_BUDGET, UNITS_PER_TOKEN, estimate_tokens, token_units

# What makes a text from its inputs: this module, skein_gateway.recall.text_match and items_of of convert.py. Raise the
# number with every change of a text, so that receipts of earlier texts name the version that made them.
VERSION = "context-5"
# Share of the budget that profile facts take at most. A smaller budget than this one is the question's alone, which
# fills it. docs/decisions/pages.md has figures.
PAGE_SHARE, MIN_PAGE_BUDGET = 0.1, DEFAULT_BUDGET
# Shorter runs of words occur in another text by chance.
_MIN_WORDS = 4
_CITATION = re.compile(r"\[(\d+)\]")
# The number of a citation as long as most are, where none is known yet.
_LONG_NUMBER = "99"
# Profile facts come first: the beginning of a text stays the same from question to question.
_PAGE_GROUP = (-1, "")
_INDENT = "  "


class ItemKind(IntEnum):
    """Kind of an item, in the order of the groups."""

    BLOCK = 0
    PROFILE = 1
    MEMORY = 2
    MESSAGE = 3


ItemKey = tuple[ItemKind, str]

# Largest share of the budget for one item, so that others fit as well.
_SHARES = {ItemKind.BLOCK: 0.5, ItemKind.PROFILE: 0.25, ItemKind.MEMORY: 0.5, ItemKind.MESSAGE: 0.5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A candidate for the context."""

    kind: ItemKind
    item_id: str
    text: str
    at: datetime | None = None
    # Type of a memory.
    type: str = ""
    # Author of a message, or label of a block.
    by: str = ""
    session_id: str = ""
    # Position in the session; orders messages of equal time.
    sequence: int = 0
    score: float = 0.0
    # Of a hit that has one.
    relevance: float | None = None
    # Part of a profile or of the conversation's end, or a profile fact: shown even if another item contains the same
    # words.
    is_part: bool = False
    # Trust of a memory along the chain of its sources, or of another item by its authors; None: neutral.
    trust: float | None = None
    revision: int = 0
    # Place of a profile fact in the page, from 1; 0 for another item.
    page_place: int = 0

    @property
    def key(self) -> ItemKey:
        """Return what tells the item from all others."""
        return self.kind, self.item_id

    def may_replace(self, other: Item) -> bool:
        """Tell whether the item may stand for another one whose words it contains: a distrusted one may not."""
        return not self.is_distrusted or other.is_distrusted

    @property
    def is_distrusted(self) -> bool:
        """Tell whether the trust is below the neutral one."""
        return self.trust is not None and self.trust < NEUTRAL_TRUST


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextFormat:
    """Options of rendering."""

    markdown: bool = True
    newest_first: bool = False
    # The current conversation; it sorts as the newest group whatever its times.
    session_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackOptions:
    """How items are packed."""

    token_budget: int
    # Stems of the query's words: a long text is cut to the part with most of them.
    terms: frozenset[str]
    context_format: ContextFormat
    # The budget of which one item may have a share, where it is another one than that of the text.
    item_token_budget: int | None = None
    # Numbers of items that have one already, and the first number of others.
    numbers: Mapping[ItemKey, int] = field(default_factory=dict)
    first_number: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """The item behind a number in the text."""

    number: int
    item: Item
    is_cut: bool
    # Ids of items whose words this one contains.
    duplicate_ids: tuple[str, ...]
    # Longest excerpt that was allowed, if the item is cut.
    max_characters: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedContext:
    """The packed text with its citations."""

    text: str
    citations: tuple[Citation, ...]
    token_count: int
    omitted_count: int
    # Offsets in the text: the ends of blocks and profile, of memories, and of messages; each only where there are some.
    section_ends: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _PackedItem:
    """An item with its rendered body."""

    item: Item
    body: str
    normalize: str
    # Units of the line (skein_kit.text.token_estimate), with its newline and the longest possible number.
    cost: int
    is_cut: bool
    duplicate_ids: tuple[str, ...] = ()
    max_characters: int = 0


@dataclass(slots=True)
class _Packer:
    """The items packed so far. All sizes are hundredths of tokens."""

    space: int
    # One item may take a share of this.
    item_space: int
    digits: int
    # A single item may take the whole budget.
    is_only: bool
    context_format: ContextFormat
    terms: frozenset[str]
    packed: list[_PackedItem] = field(default_factory=list)
    used: int = 0
    omitted_count: int = 0

    def add(self, item: Item) -> None:
        """Add an item, or an excerpt of it, if it has new content and fits."""
        body = body_of(item.text)
        if not body:
            return
        words = normalize(body)
        if not item.is_part:
            for index, other in enumerate(self.packed):
                if _contains_words(other.normalize, words) and other.item.may_replace(item):
                    self.packed[index] = replace(other, duplicate_ids=(*other.duplicate_ids, item.item_id))
                    return
        contained = [
            other
            for other in self.packed
            if not other.item.is_part and _contains_words(words, other.normalize) and item.may_replace(other.item)
        ]
        remaining = [other for other in self.packed if other not in contained] if contained else self.packed
        used = _cost(remaining, self.context_format) if contained else self.used
        space = self.space - used - self._heading(item, remaining)
        line = token_units(_line(item, "9" * self.digits, "", self.context_format) + "\n")
        max_units = min(space, self.space if self.is_only else int(self.item_space * _SHARES[item.kind])) - line
        text, max_characters = fitting_excerpt(body, max_units, self.terms)
        is_cut = text != body
        words = normalize(text) if is_cut else words
        if not text or (is_cut and self._repeats(item, words, contained)):
            self.omitted_count += 1
            return
        ids = tuple(entry for other in contained for entry in (other.item.item_id, *other.duplicate_ids))
        cost = line + token_units(text)
        entry = _PackedItem(
            item=item,
            body=text,
            normalize=words,
            cost=cost,
            is_cut=is_cut,
            duplicate_ids=ids,
            max_characters=max_characters,
        )
        self.packed = [*remaining, entry]
        self.used = self.space - space + cost

    def _repeats(self, item: Item, words: str, contained: Sequence[_PackedItem]) -> bool:
        """Tell whether an excerpt would repeat packed words, or replace packed items that it only partly contains."""
        return bool(contained) or (
            not item.is_part
            and any(_contains_words(other.normalize, words) and other.item.may_replace(item) for other in self.packed)
        )

    def _heading(self, item: Item, others: Iterable[_PackedItem]) -> int:
        """Return the size of the group's heading if the item is the first of its group, else 0."""
        name = _group(item)
        return 0 if any(_group(other.item) == name for other in others) else _heading_cost(item, self.context_format)


def pack(items: Sequence[Item], options: PackOptions) -> PackedContext:
    """Pack the items that fit into the token budget, in the given order.

    Long texts are cut to the part with most terms. Of two items of which one contains the other's words, only the
    longer is shown.
    """
    packer = _Packer(
        space=options.token_budget * UNITS_PER_TOKEN,
        item_space=(options.item_token_budget or options.token_budget) * UNITS_PER_TOKEN,
        digits=len(str(max((options.first_number + len(items) - 1, *options.numbers.values())))),
        is_only=len(items) == 1,
        context_format=options.context_format,
        terms=options.terms,
    )
    for item in items:
        packer.add(item)
    return replace(_render(packer.packed, options), omitted_count=packer.omitted_count)


def page_that_fits(items: Sequence[Item], options: PackOptions) -> list[Item]:
    """Return the profile facts that fit whole into their share of the budget, in order; no question changes them."""
    page: list[Item] = []
    if options.token_budget < MIN_PAGE_BUDGET:
        return page
    remaining = int(options.token_budget * PAGE_SHARE) * UNITS_PER_TOKEN
    for item in items:
        line = _line(item, _LONG_NUMBER, body_of(item.text), options.context_format)
        cost = token_units(line + "\n") + (0 if page else _heading_cost(item, options.context_format))
        if cost <= remaining:
            page.append(item)
            remaining -= cost
    return page


def render(items: Sequence[tuple[Item, int, tuple[str, ...]]], options: PackOptions) -> PackedContext:
    """Render items as they were packed before: each with the longest excerpt of it, 0 for none, and its duplicates."""
    packed = []
    for item, max_characters, duplicate_ids in items:
        body = body_of(item.text)
        text = excerpt_of(body, max_characters, options.terms) if max_characters else body
        packed.append(
            _PackedItem(
                item=item,
                body=text,
                normalize="",
                cost=0,
                is_cut=text != body,
                duplicate_ids=duplicate_ids,
                max_characters=max_characters,
            )
        )
    return _render(packed, options)


def excerpt_of(body: str, max_characters: int, terms: frozenset[str]) -> str:
    """Return the part of a body with most of the terms; empty if none fits."""
    text = excerpt(body, max_characters, terms)
    # An excerpt from a later line begins with the mark of that line.
    return text.replace(f"{ELLIPSIS} {MARK}", f"{ELLIPSIS} ", 1) if text.startswith(ELLIPSIS) else text


def fitting_excerpt(body: str, max_units: int, terms: frozenset[str]) -> tuple[str, int]:
    """Return a body of at most so many hundredths of tokens, or an excerpt and the characters that it may have.

    The characters are 0 for a whole body, and the text is empty if no excerpt fits.
    """
    units = token_units(body)
    if units <= max_units:
        return body, 0
    text, max_characters = body, len(body)
    while text and units > max_units:
        max_characters = max(0, max_characters * max_units // units)
        text = excerpt_of(body, max_characters, terms)
        units = token_units(text)
    return text, max_characters


def body_of(text: str) -> str:
    """Return a text for a line: quoted, without empty lines and without anything that looks like a citation."""
    lines = (line.rstrip() for line in text.splitlines())
    return _CITATION.sub(r"(\1)", quote("\n".join(line for line in lines if line), _INDENT))


def _contains_words(words: str, others: str) -> bool:
    """Tell whether `words` equals `others`, or contains it as a run of at least _MIN_WORDS words."""
    return words == others or (others.count(" ") >= _MIN_WORDS - 1 and f" {others} " in f" {words} ")


def _group(item: Item) -> tuple[int, str]:
    """Return the group of an item."""
    if item.page_place:
        return _PAGE_GROUP
    if item.kind is ItemKind.MEMORY:
        return item.kind, item.type
    return item.kind, item.session_id if item.kind is ItemKind.MESSAGE else ""


def _title(item: Item) -> str:
    if item.page_place:
        return "Profile facts"
    titles = {
        ItemKind.BLOCK: "Core memory",
        ItemKind.PROFILE: "Profile",
        ItemKind.MEMORY: f"Memories: {item.type}",
        ItemKind.MESSAGE: f"Conversation {item.session_id}",
    }
    return _label(titles[item.kind])


def _label(name: str) -> str:
    """Return a name from a caller on one line, without anything that looks like a citation."""
    return _CITATION.sub(r"(\1)", one_line(name))


def _heading(item: Item, context_format: ContextFormat) -> str:
    return f"## {_title(item)}\n\n" if context_format.markdown else f"{_title(item)}\n"


def _heading_cost(item: Item, context_format: ContextFormat) -> int:
    # Includes the empty line before it.
    return token_units(_heading(item, context_format) + "\n")


def _line(item: Item, number: str, body: str, context_format: ContextFormat) -> str:
    """Return a line that begins with a citation; only a profile's has nothing before its text."""
    source = source_of(item)
    return f"{mark_of(number, context_format)} {source}{': ' if source else ''}{body}"


def mark_of(number: int | str, context_format: ContextFormat) -> str:
    """Return the beginning of a line."""
    return f"{'- ' if context_format.markdown else ''}[{number}]"


def source_of(item: Item) -> str:
    """Return when an item was made, and by whom."""
    time_text = (
        "" if item.at is None else item.at.strftime("%Y-%m-%d %H:%M" if item.kind is ItemKind.MESSAGE else "%Y-%m-%d")
    )
    by = _label(item.by)
    return f"{time_text} {by}" if time_text and by else time_text or by


def _cost(packed: Iterable[_PackedItem], context_format: ContextFormat) -> int:
    firsts = {_group(entry.item): entry for entry in packed}
    return sum(entry.cost for entry in packed) + sum(
        _heading_cost(entry.item, context_format) for entry in firsts.values()
    )


def _render(packed: Sequence[_PackedItem], options: PackOptions) -> PackedContext:
    context_format = options.context_format
    groups: dict[tuple[int, str], list[_PackedItem]] = {}
    for entry in packed:
        groups.setdefault(_group(entry.item), []).append(entry)
    sections, citations, next_number = list[str](), list[Citation](), options.first_number
    ends: dict[int, int] = {}
    length = 0
    for name in _sorted_groups(groups, context_format):
        lines = []
        is_reversed = context_format.newest_first and name != _PAGE_GROUP
        for entry in sorted(groups[name], key=lambda entry: _moment(entry.item), reverse=is_reversed):
            number = options.numbers.get(entry.item.key, 0)
            if not number:
                number, next_number = next_number, next_number + 1
            lines.append(_line(entry.item, str(number), entry.body, context_format))
            citations.append(
                Citation(
                    number=number,
                    item=entry.item,
                    is_cut=entry.is_cut,
                    duplicate_ids=entry.duplicate_ids,
                    max_characters=entry.max_characters,
                )
            )
        sections.append(_heading(groups[name][0].item, context_format) + "\n".join(lines))
        length += len(sections[-1]) + (2 if length else 0)
        ends[max(name[0], ItemKind.PROFILE)] = length
    text = "\n\n".join(sections)
    return PackedContext(
        text=text,
        citations=tuple(citations),
        token_count=estimate_tokens(text),
        omitted_count=0,
        section_ends=tuple(ends.values()),
    )


def _sorted_groups(
    groups: dict[tuple[int, str], list[_PackedItem]], context_format: ContextFormat
) -> list[tuple[int, str]]:
    """Return the groups in order: profile facts, then by kind; memories by type, conversations by first message."""
    messages = sorted(
        (name for name in groups if name[0] is ItemKind.MESSAGE),
        key=lambda name: (
            name[1] == context_format.session_id,
            min(_moment(entry.item) for entry in groups[name]),
            name[1],
        ),
        reverse=context_format.newest_first,
    )
    return [*sorted(name for name in groups if name[0] is not ItemKind.MESSAGE), *messages]


def _moment(item: Item) -> tuple[float, int, str]:
    if item.page_place:
        return 0.0, item.page_place, item.item_id
    return (item.at.timestamp() if item.at is not None else 0.0, item.sequence, item.item_id)
