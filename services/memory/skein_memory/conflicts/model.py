"""Conflicts: pairs of memories that cannot both be right, and their resolutions. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.errors import FieldInvalid, RevisionStale
from skein_kit.ids import new_id
from skein_memory.validation import check_storable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from skein_kit.rpc.row_times import ImportTimes
    from skein_memory.memories.model import Memory

SUPERSEDED = "superseded"
# Names as the database has them, by number; an unspecified one has none.
STATUSES: Mapping[int, str] = {
    value: name.removeprefix("CONFLICT_STATUS_").lower() for name, value in pb.ConflictStatus.items() if value
}
# Statuses of open conflicts; None: without a resolution.
OPEN: frozenset[str | None] = frozenset({None, "needs_review"})
# Where one of the two may be the right one.
_DECIDED = frozenset({"resolved", SUPERSEDED})
CONTRADICTS, SAME_KEY, RESOLUTION = "contradicts_link", "same_key", "resolution"


def statuses_of(request: pb.ListConflictsRequest) -> frozenset[str | None]:
    """Return the statuses that a request selects; None: conflicts without a resolution."""
    if request.statuses:
        return frozenset(STATUSES.get(status) for status in request.statuses)
    return frozenset({None, *STATUSES.values()}) if request.show_settled else OPEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """The resolution of a conflict, and its effects."""

    resolution_id: UUID
    a_memory_id: UUID
    b_memory_id: UUID
    status: str
    canonical_memory_id: UUID | None
    note: str | None
    # The link that it made, and the end that it gave to the other memory's validity; None for none.
    link_id: UUID | None
    closed_time: datetime | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str

    @property
    def other_memory_id(self) -> UUID | None:
        """Return the memory that is not the canonical one, where there is one."""
        if self.canonical_memory_id is None:
            return None
        return self.b_memory_id if self.canonical_memory_id == self.a_memory_id else self.a_memory_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Two memories that cannot both be right, the lower id first."""

    a: Memory
    b: Memory
    reason: str
    # The lower one of both memories' own confidences.
    score: float
    resolution: Resolution | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolutionDraft:
    """A caller's resolution of a conflict; memories are named by id or external id."""

    a_name: str
    b_name: str
    status: str
    # None: neither.
    canonical_name: str | None
    note: str | None
    # The revision of the resolution before; 0 matches any.
    revision: int
    # None: now.
    times: ImportTimes | None = None

    @classmethod
    def of(cls, request: pb.ResolveConflictRequest, times: ImportTimes | None = None) -> Self:
        """Read a caller's message."""
        check_storable([("note", request.note)], [])
        status, canonical = STATUSES[request.status], request.canonical_memory_id or None
        if status == SUPERSEDED and canonical is None:
            raise FieldInvalid(violations=[("canonical_memory_id", "must name the memory that replaces the other")])
        if canonical is not None and status not in _DECIDED:
            raise FieldInvalid(violations=[("canonical_memory_id", f"has no place in a conflict that is {status}")])
        return cls(
            a_name=request.a_memory_id,
            b_name=request.b_memory_id,
            status=status,
            canonical_name=canonical,
            note=request.note or None,
            revision=request.revision,
            times=times,
        )

    def to_resolution(
        self,
        before: Resolution | None,
        last: int,
        pair: tuple[UUID, UUID],
        canonical_id: UUID | None,
        done: tuple[UUID | None, datetime | None],
        *,
        at: datetime,
        by: str,
    ) -> Resolution:
        """Return the resolution of a sorted pair, with its effects: link and end of validity."""
        if self.revision and self.revision != (0 if before is None else before.revision):
            raise RevisionStale(given=self.revision, current=0 if before is None else before.revision)
        return Resolution(
            resolution_id=new_id(at) if before is None else before.resolution_id,
            a_memory_id=pair[0],
            b_memory_id=pair[1],
            status=self.status,
            canonical_memory_id=canonical_id,
            note=self.note,
            link_id=done[0],
            closed_time=done[1],
            revision=(last if before is None else before.revision) + 1,
            create_time=(self.times.create_time if self.times else at) if before is None else before.create_time,
            update_time=self.times.update_time if self.times else at,
            created_by=by if before is None else before.created_by,
            updated_by=by,
        )


def pair_key(one: UUID, other: UUID) -> str:
    """Return the name of a pair, in either order."""
    first, second = sorted((one, other))
    return f"{first}|{second}"
