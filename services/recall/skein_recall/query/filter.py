"""What a recall is restricted to: the conditions of a MemoryFilter, as the search statements take them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from skein.memory.v1 import memory_pb2 as pb
from skein_kit import filters
from skein_kit.filters.expression import And, Compare, Expression
from skein_kit.filters.visibility import valid_at_time
from skein_kit.ids import min_id_at
from skein_kit.rpc.well_known_types import read_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

# Names as the index has them, by number; an unspecified scope restricts nothing.
SCOPES = {number: name.removeprefix("SCOPE_").lower() for name, number in pb.Scope.items() if number}


# What each condition asks of a document, by its name; `d` is the document. Only those that were given are put into a
# statement, so that each is planned for itself.
_CONDITIONS = MappingProxyType(
    {
        "types": "d.type = ANY (:types::text[])",
        "scopes": "d.scope = ANY (:scopes::text[])",
        "source": "d.source = :source::text",
        "key": "d.key = :key::text",
        "min_importance": "d.importance >= :min_importance::double precision",
        "agent_id": "d.agent_id = :agent_id::text",
        "subject_id": "d.subject_id = :subject_id::text",
        "session_id": "d.session_id = :session_id::text",
        "start_time": "d.item_id >= :start_time::uuid",
        "end_time": "d.item_id < :end_time::uuid",
        "tags_any": """d.item_id = ANY (ARRAY(
            SELECT t.memory_id FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_any::text[])))""",
        "tags_all": """d.item_id = ANY (ARRAY(
            SELECT t.memory_id FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_all::text[])
            GROUP BY t.memory_id HAVING count(*) = cardinality(:tags_all::text[])))""",
        # A message is of its session.
        "visible_to": """CASE coalesce(d.scope, 'session')
            WHEN 'global' THEN true
            WHEN 'agent' THEN d.agent_id = :seeing_agent_id::text
            WHEN 'user' THEN d.subject_id = :seeing_subject_id::text
                AND (d.agent_id IS NULL OR d.agent_id = coalesce(:seeing_agent_id::text, d.agent_id))
            ELSE d.session_id = :seeing_session_id::text
                AND (d.agent_id IS NULL OR d.agent_id = coalesce(:seeing_agent_id::text, d.agent_id))
                AND (d.subject_id IS NULL OR d.subject_id = coalesce(:seeing_subject_id::text, d.subject_id))
            END""",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Conditions that must all hold."""

    # What the index knows, by the conditions' names, and the values that they take.
    names: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    # What the index knows nothing of, or not all: held against the memories that were found, by name.
    wheres: Mapping[str, Expression] = field(default_factory=dict)
    # It asks about another time than now.
    is_of_the_past: bool = False

    @classmethod
    def of(cls, asked: pb.MemoryFilter) -> Self:
        """Read a request's filter."""
        start, end = _moment(asked, "start_time"), _moment(asked, "end_time")
        given: dict[str, object] = {
            "types": list(asked.types),
            "scopes": [SCOPES[scope] for scope in asked.scopes if scope in SCOPES],
            "source": asked.source,
            "key": asked.key,
            "min_importance": asked.min_importance,
            "agent_id": asked.agent_id,
            "subject_id": asked.subject_id,
            "session_id": asked.session_id,
            # Ids begin with their time, so a range of time is a range of ids, to the millisecond.
            "start_time": start and min_id_at(start),
            "end_time": end and min_id_at(end),
            "tags_any": list(asked.tags_any),
            "tags_all": sorted(set(asked.tags_all)),
        }
        values = {name: value for name, value in given.items() if value}
        names = tuple(values)
        if asked.HasField("visible_to"):
            names += ("visible_to",)
            values |= {
                "seeing_agent_id": asked.visible_to.agent_id or None,
                "seeing_subject_id": asked.visible_to.subject_id or None,
                "seeing_session_id": asked.visible_to.session_id or None,
            }
        return cls(names=names, values=values, wheres=_wheres(asked), is_of_the_past=asked.HasField("valid_at_time"))

    @property
    def restricts(self) -> bool:
        """Say whether there is a condition that the index knows."""
        return bool(self.names)

    @property
    def condition(self) -> str:
        """Return the conditions as the statements take them."""
        return " AND ".join(f"({_CONDITIONS[name]})" for name in self.names)

    @property
    def where(self) -> Expression | None:
        """Return what is held against the memories that were found; None for nothing."""
        parts = tuple(self.wheres.values())
        if len(parts) > 1:
            return And(parts)
        return parts[0] if parts else None

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of items that can pass: nothing that is held against memories passes a message."""
        return frozenset({"memory"}) if self.wheres else frozenset({"memory", "message"})

    @property
    def all_names(self) -> tuple[str, ...]:
        """Return the names of all conditions, as a request has them."""
        return (*self.names, *self.wheres)

    def without(self, name: str) -> Self:
        """Return the filter without one of its conditions."""
        used = _CONDITIONS_OF.get(name, (name,))
        return dataclasses.replace(
            self,
            names=tuple(one for one in self.names if one != name),
            values={key: value for key, value in self.values.items() if key not in used},
            wheres={key: value for key, value in self.wheres.items() if key != name},
        )


_CONDITIONS_OF = {"visible_to": ("seeing_agent_id", "seeing_subject_id", "seeing_session_id")}


def _moment(asked: pb.MemoryFilter, field: str, *, before_1970: bool = False) -> datetime | None:
    return read_time(asked, field, before_1970=before_1970, within="filter.", may_be_infinite=True)


def _wheres(asked: pb.MemoryFilter) -> dict[str, Expression]:
    """Read the conditions that the index does not take."""
    valid_at = _moment(asked, "valid_at_time", before_1970=True)
    parts = {
        "where": filters.parse(asked.where, "filter.where"),
        "max_importance": Compare(("importance",), "<=", asked.max_importance)
        if asked.HasField("max_importance")
        else None,
        "valid_at_time": None if valid_at is None else valid_at_time(valid_at),
    }
    return {name: part for name, part in parts.items() if part is not None}
