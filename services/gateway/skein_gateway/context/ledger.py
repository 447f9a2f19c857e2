"""Turns of a context ledger: a first text, then appends that leave every earlier byte as it is. Pure.

Lines of the ledger itself are "[3] now: ..." and "[3] withdrawn: superseded", in a group that comes first. Stored text
makes no such line: it stands behind the number of its own item, and behind a time or its kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from skein_gateway.context.model import (
    Citation,
    ContextFormat,
    Item,
    ItemKey,
    ItemKind,
    PackedContext,
    PackOptions,
    body_of,
    excerpt_of,
    fitting_excerpt,
    mark_of,
    pack,
    render,
    source_of,
)
from skein_kit.text.quoted_text import one_line
from skein_kit.text.token_estimate import UNITS_PER_TOKEN, estimate_tokens

# Shares of the budget: of one append, and of all appends to one first text. docs/guides/prompt-cache.md has figures.
APPEND_SHARE, REBASE_SHARE = 0.25, 10.0
# Hits with a smaller share of the best hit's score are appended while the append has this share of the budget at most.
_STRONG_SCORE_SHARE, _WEAK_APPEND_SHARE = 0.7, 0.15
# Tokens of a line beside its text.
_LINE_TOKENS = 6
# One changed item takes this share of the budget at most.
_CHANGE_SHARE = 0.25
_SEARCHED = frozenset({ItemKind.MEMORY, ItemKind.MESSAGE})
# A conversation with more items begins anew.
MAX_ENTRIES = 1500
_DIGEST_BYTES = 16


class EntryState(IntEnum):
    """What the texts say of an item, with the numbers of skein.session.v1.LedgerEntryState."""

    SENT = 1
    CONTAINED = 2
    SUPERSEDED = 3
    EXPIRED = 4
    FORMER = 5


class Rebase(IntEnum):
    """Why a text is a new first one, with the numbers of skein.gateway.v1.RebaseReason."""

    NONE = 0
    REQUESTED = 1
    REQUEST_CHANGED = 2
    ITEM_GONE = 3
    BUDGET = 4
    ANSWER_LOST = 5
    SPACE_LOST = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """An item of a ledger."""

    kind: ItemKind
    item_id: str
    revision: int
    number: int
    state: EntryState
    digest: bytes = b""
    # Longest excerpt; 0: the text has the whole item.
    max_characters: int = 0
    # The revision of the turn that wrote the entry.
    turn: int = 0
    # As of the item.
    page_place: int = 0
    # That turn said "now:", "superseded" or "expired" of a number that was known.
    is_change: bool = False

    @property
    def key(self) -> ItemKey:
        """Return what tells the item from all others."""
        return self.kind, self.item_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """What a prompt has."""

    # Of the turn that is made, or was made last.
    revision: int
    salt: bytes
    entries: tuple[Entry, ...] = ()
    next_number: int = 1
    first_token_count: int = 0
    appended_token_count: int = 0
    # Turns that appended something, and first texts by their reason.
    append_count: int = 0
    first_text_counts: Mapping[Rebase, int] = field(default_factory=dict)

    @property
    def by_key(self) -> dict[ItemKey, Entry]:
        """Return the entries by their items."""
        return {entry.key: entry for entry in self.entries}

    @property
    def sent(self) -> list[Entry]:
        """Return the entries of items that the texts show."""
        return [entry for entry in self.entries if entry.state is EntryState.SENT]

    def digest(self, item: Item) -> bytes:
        """Return the keyed digest of what a text has of an item, whose lines a page joins."""
        text = f"{source_of(item)}\0{one_line(item.text)}"
        return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES, key=self.salt).digest()


class Change(IntEnum):
    """How a known item differs, with the numbers of skein.recall.v1.KnownItemState."""

    CHANGED = 1
    SUPERSEDED = 2
    EXPIRED = 3
    GONE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A known item that is not as it was known."""

    change: Change
    # As it is, if it was changed.
    item: Item | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """The text of one turn, and the ledger after it."""

    text: str
    ledger: Ledger
    rebase: Rebase = Rebase.NONE
    citations: tuple[Citation, ...] = ()
    # Numbers that no longer hold, with the reason.
    withdrawals: tuple[tuple[int, Change], ...] = ()
    cache_breakpoints: tuple[int, ...] = ()
    omitted_count: int = 0

    @property
    def token_count(self) -> int:
        """Return the estimated tokens of the text."""
        return estimate_tokens(self.text)

    def counted(self) -> Turn:
        """Return the turn with itself in the counts of its ledger."""
        ledger, counts = self.ledger, self.ledger.first_text_counts
        if self.rebase:
            ledger = replace(ledger, first_text_counts={**counts, self.rebase: counts.get(self.rebase, 0) + 1})
        elif self.text:
            ledger = replace(ledger, append_count=ledger.append_count + 1)
        return replace(self, ledger=ledger)

    @property
    def prompt_token_count(self) -> int:
        """Return the estimated tokens of all texts that the prompt has."""
        return self.ledger.first_token_count + self.ledger.appended_token_count


_OUTDATED = {Change.SUPERSEDED: EntryState.SUPERSEDED, Change.EXPIRED: EntryState.EXPIRED}
_REASONS = {EntryState.SUPERSEDED: "superseded", EntryState.EXPIRED: "expired"}


def first_text(items: Sequence[Item], options: PackOptions, ledger: Ledger, rebase: Rebase) -> Turn:
    """Pack items into a first text; those that had a number keep it. `ledger` has the revision of the new turn."""
    kept = [entry for entry in ledger.entries if entry.state is not EntryState.CONTAINED]
    numbers = {entry.key: entry.number for entry in kept}
    packed = pack(
        [_with_source(item) for item in items],
        replace(options, numbers=numbers, first_number=ledger.next_number),
    )
    entries = _entries_of(packed, items, ledger)
    shown = {entry.key for entry in entries}
    former = [
        replace(entry, state=EntryState.FORMER, digest=b"", revision=0)
        for entry in kept
        if entry.key not in shown and entry.number
    ]
    after = replace(
        ledger,
        entries=(*entries, *former[: max(0, MAX_ENTRIES - len(entries))]),
        next_number=_next_number(entries, ledger),
        first_token_count=packed.token_count,
        appended_token_count=0,
    )
    return Turn(
        text=packed.text,
        ledger=after,
        rebase=rebase,
        citations=packed.citations,
        cache_breakpoints=packed.section_ends,
        omitted_count=packed.omitted_count,
    )


def append(
    items: Sequence[Item], checks: Mapping[ItemKey, Check], options: PackOptions, ledger: Ledger
) -> Turn | Rebase:
    """Return the text that follows the earlier ones, or why there must be a first text instead.

    `ledger` has the revision of the new turn; `checks` are of sent items that are not as they were. An empty text
    changes nothing that the prompt has.
    """
    if any(check.change is Change.GONE for check in checks.values()):
        return Rebase.ITEM_GONE
    by_key = ledger.by_key
    changes = _Changes(options, ledger)
    for entry in ledger.sent:
        check = checks.get(entry.key)
        if check is not None:
            by_key[entry.key] = changes.add(entry, check)
    # What changed no longer contains what it contained.
    contained = [key for key, entry in by_key.items() if entry.state is EntryState.CONTAINED]
    for key in contained:
        if by_key[key].number in changes.numbers:
            del by_key[key]
    packed = _pack_new(items, by_key, changes, options, ledger)
    entries = _entries_of(packed, items, ledger)
    by_key |= {entry.key: entry for entry in entries}
    turn = _appended(changes, packed, options, ledger)
    appended = ledger.appended_token_count + estimate_tokens(turn.text)
    if appended > options.token_budget * REBASE_SHARE or len(by_key) > MAX_ENTRIES:
        return Rebase.BUDGET
    after = replace(
        ledger,
        entries=tuple(by_key.values()),
        next_number=_next_number(entries, ledger),
        appended_token_count=appended,
    )
    return replace(turn, ledger=after)


def repeat(items: Mapping[ItemKey, Item], options: PackOptions, ledger: Ledger, rebase: Rebase) -> Turn | Rebase:
    """Return the last turn of a ledger again; ANSWER_LOST if an item of it is not as it was."""
    last = [entry for entry in ledger.entries if entry.turn == ledger.revision]
    shown = [entry for entry in last if entry.state is EntryState.SENT]
    for entry in shown:
        item = items.get(entry.key)
        if item is None or ledger.digest(_with_source(item)) != entry.digest:
            return Rebase.ANSWER_LOST
    changes = _Changes(options, ledger)
    for entry in last:
        item = items.get(entry.key)
        if entry.state in _REASONS:
            changes.repeat_withdrawal(entry)
        elif entry.is_change and item is not None:
            changes.repeat_change(entry, _with_source(item))
    contained: dict[int, list[str]] = {}
    for entry in last:
        if entry.state is EntryState.CONTAINED:
            contained.setdefault(entry.number, []).append(entry.item_id)
    packed = render(
        [
            (
                _as_sent(_with_source(item), entry),
                entry.max_characters,
                tuple(contained.get(entry.number, ())),
            )
            for entry in shown
            if not entry.is_change and (item := items.get(entry.key)) is not None
        ],
        replace(options, numbers={entry.key: entry.number for entry in shown}),
    )
    if rebase:
        return Turn(
            text=packed.text,
            ledger=ledger,
            rebase=rebase,
            citations=packed.citations,
            cache_breakpoints=packed.section_ends,
        )
    return _appended(changes, packed, options, ledger)


class _Changes:
    """The lines about numbers that the earlier texts explain."""

    def __init__(self, options: PackOptions, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        self._lines: list[str] = []
        self.citations: list[Citation] = []
        self.withdrawals: list[tuple[int, Change]] = []
        # Of items whose words are others now.
        self.numbers: set[int] = set()

    def add(self, entry: Entry, check: Check) -> Entry:
        """Write a line for a change of an item, if its text changed; return its entry after it."""
        if check.change in _OUTDATED:
            entry = replace(
                entry,
                state=_OUTDATED[check.change],
                turn=self._ledger.revision,
                is_change=True,
                digest=b"",
                max_characters=0,
            )
            self.repeat_withdrawal(entry)
            return entry
        if check.item is None:
            return entry
        item = _with_source(check.item)
        digest = self._ledger.digest(item)
        if digest == entry.digest:
            return replace(entry, revision=item.revision)
        max_units = int(self._options.token_budget * _CHANGE_SHARE) * UNITS_PER_TOKEN
        _, max_characters = fitting_excerpt(body_of(item.text), max_units, self._options.terms)
        entry = replace(
            entry,
            revision=item.revision,
            digest=digest,
            max_characters=max_characters,
            turn=self._ledger.revision,
            is_change=True,
        )
        self.repeat_change(entry, item)
        return entry

    def repeat_change(self, entry: Entry, item: Item) -> None:
        """Write the line of a changed item."""
        body = body_of(item.text)
        text = excerpt_of(body, entry.max_characters, self._options.terms) if entry.max_characters else body
        source = source_of(item)
        mark = mark_of(entry.number, self._options.context_format)
        self._lines.append(f"{mark} now: {source}{': ' if source else ''}{text}")
        self.numbers.add(entry.number)
        self.citations.append(Citation(number=entry.number, item=item, is_cut=text != body, duplicate_ids=()))

    def repeat_withdrawal(self, entry: Entry) -> None:
        """Write the line of an item that no longer holds."""
        mark = mark_of(entry.number, self._options.context_format)
        self._lines.append(f"{mark} withdrawn: {_REASONS[entry.state]}")
        self.numbers.add(entry.number)
        change = next(change for change, state in _OUTDATED.items() if state is entry.state)
        self.withdrawals.append((entry.number, change))

    def text(self, context_format: ContextFormat) -> str:
        """Return the group of changes, with the empty line before it; empty without any."""
        if not self._lines:
            return ""
        heading = "## Changes\n\n" if context_format.markdown else "Changes\n"
        return f"\n\n{heading}" + "\n".join(self._lines)


def _appended(changes: _Changes, packed: PackedContext, options: PackOptions, ledger: Ledger) -> Turn:
    """Return the text of changes and of what is new."""
    text = changes.text(options.context_format)
    offset = len(text)
    if packed.text:
        text += f"\n\n{packed.text}"
        offset += 2
    ends = tuple(end + offset for end in packed.section_ends)
    return Turn(
        text=text,
        ledger=ledger,
        citations=(*changes.citations, *packed.citations),
        withdrawals=tuple(changes.withdrawals),
        cache_breakpoints=ends or ((offset,) if text else ()),
        omitted_count=packed.omitted_count,
    )


def _pack_new(
    items: Sequence[Item], by_key: dict[ItemKey, Entry], changes: _Changes, options: PackOptions, ledger: Ledger
) -> PackedContext:
    """Pack the items that no earlier text has; of one whose text another one is, note that in `by_key`."""
    numbers = {
        entry.digest: entry.number
        for entry in by_key.values()
        if entry.state is EntryState.SENT and not entry.max_characters and entry.digest
    }
    new = []
    for item in map(_with_source, items):
        entry = by_key.get(item.key)
        if entry is not None and entry.state in (EntryState.SENT, EntryState.CONTAINED):
            continue
        number = numbers.get(ledger.digest(item))
        if number is None:
            new.append(item)
        else:
            by_key[item.key] = _contained(item.key, number, ledger)
    used = estimate_tokens(changes.text(options.context_format))
    worth = _worth_appending(new, items, options.token_budget)
    known = {key: entry.number for key, entry in by_key.items() if entry.state is not EntryState.CONTAINED}
    packed = pack(
        worth,
        replace(
            options,
            token_budget=max(0, int(options.token_budget * APPEND_SHARE) - used),
            item_token_budget=options.token_budget,
            numbers=known,
            first_number=ledger.next_number,
        ),
    )
    return replace(packed, omitted_count=packed.omitted_count + len(new) - len(worth))


def _worth_appending(new: Sequence[Item], items: Sequence[Item], token_budget: int) -> list[Item]:
    """Return the new ones of a turn's items without those that answer little and would make the append long."""
    strong_score = _STRONG_SCORE_SHARE * max((item.score for item in items if item.kind in _SEARCHED), default=0.0)
    worth: list[Item] = []
    used = 0
    for item in new:
        tokens = estimate_tokens(item.text) + _LINE_TOKENS
        is_weak = item.kind in _SEARCHED and not item.is_part and item.score < strong_score
        # The packer cuts what is strong and too long.
        if not is_weak or used + tokens <= token_budget * _WEAK_APPEND_SHARE:
            worth.append(item)
            used += tokens
    return worth


def _contained(key: ItemKey, number: int, ledger: Ledger) -> Entry:
    kind, item_id = key
    return Entry(
        kind=kind, item_id=item_id, revision=0, number=number, state=EntryState.CONTAINED, turn=ledger.revision
    )


def _entries_of(packed: PackedContext, items: Sequence[Item], ledger: Ledger) -> list[Entry]:
    """Return the entries of packed ones of some items, and of those whose words they contain."""
    entries = []
    kinds = {item.item_id: item.kind for item in items}
    for citation in packed.citations:
        item = citation.item
        entries.append(
            Entry(
                kind=item.kind,
                item_id=item.item_id,
                revision=item.revision,
                number=citation.number,
                state=EntryState.SENT,
                digest=ledger.digest(item),
                max_characters=citation.max_characters,
                turn=ledger.revision,
                page_place=item.page_place,
            )
        )
        entries += [_contained((kinds[id_], id_), citation.number, ledger) for id_ in citation.duplicate_ids]
    return entries


def _as_sent(item: Item, entry: Entry) -> Item:
    """Return an item that was read again as the page had it, if it was a profile fact."""
    return replace(item, text=one_line(item.text), page_place=entry.page_place) if entry.page_place else item


def _next_number(entries: Sequence[Entry], ledger: Ledger) -> int:
    return max((ledger.next_number, *(entry.number + 1 for entry in entries)))


def _with_source(item: Item) -> Item:
    """Return an item whose line begins with a time or its kind, so that its text and names cannot begin the line."""
    return item if item.at is not None else replace(item, by=f"{item.kind.name.lower()} {item.by}".strip())
