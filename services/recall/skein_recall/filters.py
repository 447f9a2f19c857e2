"""What a recall is restricted to: the conditions of a MemoryFilter, as the search statement takes them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_kit import filtering
from skein_kit.errors import FieldInvalid
from skein_kit.filtering import And, Compare, Expression
from skein_kit.filtering.visibility import valid_at_time
from skein_kit.ids import first_id
from skein_kit.wire import moment

if TYPE_CHECKING:
    from datetime import datetime

# Names as the index has them, by number; an unspecified scope restricts nothing.
SCOPES = {number: name.removeprefix("SCOPE_").lower() for name, number in pb.Scope.items() if number}


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Conditions that must all hold; None does not restrict."""

    types: list[str] | None = None
    tags_any: list[str] | None = None
    tags_all: list[str] | None = None
    agent_id: str | None = None
    subject_id: str | None = None
    session_id: str | None = None
    scopes: list[str] | None = None
    source: str | None = None
    key: str | None = None
    min_importance: float | None = None
    # What a context sees: whether there is one, and its ids, None for none.
    sees: bool | None = None
    seeing_agent_id: str | None = None
    seeing_subject_id: str | None = None
    seeing_session_id: str | None = None
    # Ids begin with their time, so a range of time is a range of ids, to the millisecond.
    first_id: UUID | None = None
    end_id: UUID | None = None
    # What the index knows nothing of, or not all: held against the memories that were found.
    where: Expression | None = None

    @classmethod
    def of(cls, asked: pb.MemoryFilter) -> Self:
        """Read a request's filter."""
        return cls(
            types=list(asked.types) or None,
            tags_any=list(asked.tags_any) or None,
            tags_all=sorted(set(asked.tags_all)) or None,
            agent_id=asked.agent_id or None,
            subject_id=asked.subject_id or None,
            session_id=asked.session_id or None,
            scopes=[SCOPES[scope] for scope in asked.scopes if scope in SCOPES] or None,
            source=asked.source or None,
            key=asked.key or None,
            min_importance=asked.min_importance or None,
            sees=asked.HasField("visible_to") or None,
            seeing_agent_id=asked.visible_to.agent_id or None,
            seeing_subject_id=asked.visible_to.subject_id or None,
            seeing_session_id=asked.visible_to.session_id or None,
            first_id=_id_at(_moment(asked, "start_time")),
            end_id=_id_at(_moment(asked, "end_time")),
            where=_where(asked),
        )

    @property
    def restricts(self) -> bool:
        """Say whether there is any condition."""
        return any(value is not None for value in self.parameters().values())

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of items that can pass: nothing that is held against memories passes a message."""
        return frozenset({"memory", "message"}) if self.where is None else frozenset({"memory"})

    def parameters(self) -> dict[str, object]:
        """Return the conditions by the names of the statement's parameters."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "where"}


def _moment(asked: pb.MemoryFilter, field: str, *, before_1970: bool = False) -> datetime | None:
    try:
        return moment(asked, field, before_1970=before_1970)
    except FieldInvalid as invalid:
        raise FieldInvalid(violations=[(f"filter.{name}", what) for name, what in invalid.violations]) from None


def _where(asked: pb.MemoryFilter) -> Expression | None:
    """Read the conditions that the statement does not take."""
    valid_at = _moment(asked, "valid_at_time", before_1970=True)
    parts = [
        filtering.read(asked.where, "filter.where"),
        Compare(("importance",), "<=", asked.max_importance) if asked.HasField("max_importance") else None,
        None if valid_at is None else valid_at_time(valid_at),
    ]
    found = tuple(part for part in parts if part is not None)
    if len(found) > 1:
        return And(found)
    return found[0] if found else None


def _id_at(time: datetime | None) -> UUID | None:
    return None if time is None else first_id(time)
