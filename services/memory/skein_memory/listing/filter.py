"""Filters of memories, the index that each is read from, and the ranges of ids that are scanned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from skein_kit import filters
from skein_kit.filters.expression import And, Compare, Expression, Has, In, Not, Or, Tags
from skein_kit.filters.fields import FIELDS, MAX_PROPERTY_CHARACTERS, OVERFLOW, Kind
from skein_kit.ids import EPOCH, id_time, min_id_at, parse_id
from skein_memory.memories.model import MAX_AHEAD

_MILLISECOND = timedelta(milliseconds=1)
_NO_ID = UUID(int=0)
# Planning a query costs some 0.1 ms for each month that it may touch, so the newest ranges come first.
_SPANS = (timedelta(days=62), timedelta(days=366))
# Values of one access path at most: each is read from the index by itself.
_MAX_PATH_VALUES = 20
# The first columns are the most selective. Each of them is indexed together with the id.
_RANKS = {
    "memory_id": 0,
    "external_id": 0,
    "key": 1,
    "content_hash": 1,
    "session_id": 2,
    "properties": 3,
    "subject_id": 4,
    "tags": 5,
    "agent_id": 6,
    "source": 7,
    "source_agent": 7,
    "type": 8,
}
ACTIVE = Compare(("is_active",), "=", True)  # noqa: FBT003 - the field's value.
NOT_ARCHIVED = Not(Has(("archive_time",)))


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessPath:
    """The index that a list is read from; its rows are checked against the whole condition."""

    kind: Literal["all", "ids", "external_ids", "column", "tags", "properties"]
    column: str = ""
    values: tuple[str, ...] = ()
    # The names of the properties of these values.
    names: tuple[str, ...] = ()


FULL_SCAN = AccessPath(kind="all")


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """The conditions of a list."""

    # All of them must hold.
    conditions: tuple[Expression, ...] = ()
    hides_expired: bool = False
    # Read the memories of this time; None: the current ones.
    as_of_time: datetime | None = None

    def without_deleted(self) -> Filter:
        """Return the filter without deleted and expired memories."""
        return replace(self, conditions=(*self.conditions, ACTIVE), hides_expired=True)

    def without_expired(self) -> Filter:
        """Return the filter without expired memories."""
        return replace(self, hides_expired=True)

    def condition(self, at: datetime) -> Expression | None:
        """Return the whole condition at the time `at`; None when every memory matches."""
        parts = list(self.conditions)
        if self.hides_expired:
            expire = ("expire_time",)
            parts.append(Or((Not(Has(expire)), Compare(expire, ">", self.as_of_time or at))))
        if len(parts) > 1:
            return And(tuple(parts))
        return parts[0] if parts else None

    @property
    def access_path(self) -> AccessPath:
        """Return the index that is likely to read the fewest rows that do not match."""
        paths = [path for part in self._conjuncts() if (path := _path_of(part)) is not None]
        if self.as_of_time is not None:
            # The indexes hold current values; only ids never change.
            paths = [path for path in paths if path.kind in {"ids", "external_ids"}]
        return min(paths, key=_rank, default=FULL_SCAN)

    def equal_values(self, names: Collection[str]) -> dict[str, str] | None:
        """Return what fields must equal; None when the filter demands anything else than values of `names`."""
        values: dict[str, str] = {}
        for part in self._conjuncts():
            match part:
                case Compare((name,), "=", str(value)) if name in names and value and values.get(name, value) == value:
                    values[name] = value
                case _:
                    return None
        return None if self.hides_expired or self.as_of_time is not None else values

    def id_ranges(self, after: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
        """Yield ranges of ids, lower end inclusive, upper exclusive, newest first, of all memories that may match.

        `after` is the last id of the page before. No memory is newer than `at` plus MAX_AHEAD.
        """
        start_time, end_time = self._times()
        lowest = _NO_ID if start_time is None else min_id_at(max(start_time, EPOCH))
        end = at + 2 * MAX_AHEAD
        if end_time is not None and end_time < end:
            # Ids carry milliseconds: memories of the last one are checked against end_time itself.
            end = max(end_time, EPOCH) + _MILLISECOND
        before = min_id_at(end) if after is None else min(after, min_id_at(end))
        for span in _SPANS:
            since = max(id_time(before) - span, EPOCH)
            from_id = max(lowest, min_id_at(since))
            if from_id < before:
                yield from_id, before
            before = min(before, from_id)
        if lowest < before:
            yield lowest, before

    def id_ranges_ascending(self, after: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
        """Yield ranges of ids as `id_ranges` does, oldest first."""
        ranges = list(self.id_ranges(None, at))
        if not ranges:
            return
        lowest, end = ranges[-1][0], ranges[0][1]
        if after is None:
            # The month of the first match is unknown: all months are read at once.
            yield lowest, end
            return
        if after >= end:
            return
        since = max(lowest, UUID(int=after.int + 1))
        for span in _SPANS:
            until = min(end, min_id_at(id_time(since) + span))
            if since < until:
                yield since, until
            since = max(since, until)
        if since < end:
            yield since, end

    @property
    def subject_id(self) -> str | None:
        """Return the subject that all matches must have; None when matches may have any."""
        for part in self._conjuncts():
            if isinstance(part, Compare) and (part.path, part.operator) == (("subject_id",), "=") and part.value:
                return str(part.value)
        return None

    def may_match_created_between(self, first: datetime, last: datetime) -> bool:
        """Return whether memories created between two times, give or take a millisecond, may match."""
        start_time, end_time = self._times()
        return (start_time is None or start_time <= last + _MILLISECOND) and (end_time is None or first <= end_time)

    def _times(self) -> tuple[datetime | None, datetime | None]:
        """Return the first and the last time of creation of memories that may match; both inclusive."""
        start, end = None, None
        for part in self._conjuncts():
            if isinstance(part, Compare) and part.path == ("create_time",) and isinstance(part.value, datetime):
                if part.operator in {">", ">=", "="}:
                    start = part.value if start is None else max(start, part.value)
                if part.operator in {"<", "<=", "="}:
                    end = part.value if end is None else min(end, part.value)
        return start, end

    def _conjuncts(self) -> Iterator[Expression]:
        for part in self.conditions:
            yield from filters.conjuncts(part)


def _path_of(part: Expression) -> AccessPath | None:
    """Return the index that contains all matches of one condition; None when there is none."""
    match part:
        case Tags("any", tags) if len(tags) <= _MAX_PATH_VALUES:
            return AccessPath(kind="tags", values=tags)
        case Tags("all", tags):
            return AccessPath(kind="tags", values=tags[:1])
        case Compare(path, "=", value):
            return _column_path(path, (value,))
        case In(path, values) if len(values) <= _MAX_PATH_VALUES:
            return _column_path(path, values)
    return None


def _column_path(path: filters.expression.Path, values: Sequence[filters.expression.Value]) -> AccessPath | None:
    field = FIELDS[path[0]]
    # An unset field or property equals the empty text, and is not in the index.
    if "" in values or (field.kind is not Kind.PROPERTIES and field.column not in _RANKS):
        return None
    if field.kind is Kind.PROPERTIES:
        return _property_path(".".join(path), map(filters.property_text, values))
    texts = tuple(dict.fromkeys(str(value) for value in values))
    if field.ignores_case:
        return _property_path(field.column, (filters.property_text(filters.fold_case(text)) for text in texts))
    if field.column == "memory_id":
        return AccessPath(kind="ids", values=tuple(text for text in texts if parse_id(text)))
    if field.column == "external_id":
        return AccessPath(kind="external_ids", values=texts)
    return AccessPath(kind="column", column=field.column, values=texts)


def _property_path(name: str, texts: Iterable[str]) -> AccessPath | None:
    if len(name) > MAX_PROPERTY_CHARACTERS:
        return None
    pairs = [*((name, text) for text in dict.fromkeys(texts)), OVERFLOW]
    return AccessPath(kind="properties", names=tuple(n for n, _ in pairs), values=tuple(v for _, v in pairs))


def _rank(path: AccessPath) -> int:
    if path.names and path.names[0] in _RANKS:
        return _RANKS[path.names[0]]
    ranks = {"ids": "memory_id", "external_ids": "external_id", "column": path.column}
    return _RANKS[ranks.get(path.kind, path.kind)]
