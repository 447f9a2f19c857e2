"""Filters of a search: conditions that the index tests, and conditions on the rows that are found. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import asyncpg

from skein_kit.filters.expression import And, Expression
from skein_kit.filters.fields import ITEM_KINDS
from skein_kit.filters.item_kinds import for_kind

# Conditions of what a caller may see at all: of the reader that a request names, a credential's agent, a call's spaces.
WALLS = ("visible_to", "bound_agent", "space")
# The values of conditions that take others than one of their name.
_VALUES_OF = {
    "visible_to": ("seeing_agent_id", "seeing_subject_id", "seeing_session_id"),
    "bound_agent": ("bound_agent_id",),
    "space": ("seen_space_ids",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Conditions that must all hold."""

    # Names of the conditions that the index can test, and the values that they take.
    index_conditions: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    # Conditions that are tested on the rows of the items found, by name.
    row_conditions: Mapping[str, Expression] = field(default_factory=dict)
    # It asks for another time than the present.
    is_point_in_time: bool = False

    @property
    def has_index_conditions(self) -> bool:
        """Whether the index can test a condition."""
        return bool(self.index_conditions)

    @property
    def person_id(self) -> str:
        """The person whom the search is about; empty for none."""
        return str(self.values.get("seeing_subject_id") or self.values.get("subject_id") or "")

    @property
    def row_condition(self) -> Expression | None:
        """The conditions that are tested on rows, as one; None without any."""
        parts = tuple(self.row_conditions.values())
        if len(parts) > 1:
            return And(parts)
        return parts[0] if parts else None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of items that can pass: of some kinds no item passes the conditions on rows, whatever it holds."""
        condition = self.row_condition
        if condition is None:
            return ITEM_KINDS
        return tuple(kind for kind in ITEM_KINDS if for_kind(condition, kind) is not False)

    def row_tests(self, kinds: Sequence[str]) -> dict[str, Expression | None]:
        """Return the test of the rows of each of some kinds; None where all rows pass. Empty without any test."""
        condition = self.row_condition
        tests = {} if condition is None else {kind: for_kind(condition, kind) for kind in kinds}
        if all(test is True for test in tests.values()):
            return {}
        return {kind: None if test is True else test for kind, test in tests.items() if test is not False}

    def admits_trust_of(self, row: asyncpg.Record | dict[str, Any]) -> bool:
        """Return whether an item has the trust that is required at least; the index can tell of memories alone."""
        trust, min_trust = row["trust"], self.values.get("min_trust")
        return trust is None or min_trust is None or trust >= min_trust

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all conditions, as a request has them."""
        return (*self.index_conditions, *self.row_conditions)

    def without(self, name: str) -> Self:
        """Return the filter without one of its conditions."""
        value_names = _VALUES_OF.get(name, (name,))
        return replace(
            self,
            index_conditions=tuple(each for each in self.index_conditions if each != name),
            values={key: value for key, value in self.values.items() if key not in value_names},
            row_conditions={key: value for key, value in self.row_conditions.items() if key != name},
        )

    @property
    def wall(self) -> Self:
        """The conditions of what the caller may see at all, which no answer tells anything about."""
        filter_ = self
        for name in self.all_names:
            filter_ = filter_ if name in WALLS else filter_.without(name)
        return filter_
