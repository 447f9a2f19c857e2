"""Conflicts: pairs of memories that cannot both be right, and their resolutions. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id
from skein_kit.rpc.row_times import ImportTimes
from skein_memory.memories.model import Memory
from skein_memory.validation import check_revision

SUPERSEDED = "superseded"
STATUSES = ("dismissed", "needs_review", "resolved", SUPERSEDED)
# Statuses of open conflicts; None: without a resolution.
OPEN: frozenset[str | None] = frozenset({None, "needs_review"})
# Statuses with a canonical memory.
_STATUSES_WITH_CANONICAL = frozenset({"resolved", SUPERSEDED})
CONTRADICTS, SAME_KEY, RESOLUTION = "contradicts_link", "same_key", "resolution"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """The resolution of a conflict, and its effects."""

    resolution_id: UUID
    a_memory_id: UUID
    b_memory_id: UUID
    status: str
    canonical_memory_id: UUID | None
    note: str | None
    # The link that it created, and the end of validity that it set on the other memory; None for none.
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
    # The lower confidence of the two memories.
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

    def check(self) -> None:
        """Reject a canonical memory for a status without one, or a missing one. Raises FieldInvalid."""
        if self.status == SUPERSEDED and self.canonical_name is None:
            raise FieldInvalid(violations=[("canonical_memory_id", "must name the memory that replaces the other")])
        if self.canonical_name is not None and self.status not in _STATUSES_WITH_CANONICAL:
            raise FieldInvalid(
                violations=[("canonical_memory_id", f"has no place in a conflict that is {self.status}")]
            )

    def to_resolution(
        self,
        before: Resolution | None,
        last_revision: int,
        pair: tuple[UUID, UUID],
        canonical_id: UUID | None,
        effects: tuple[UUID | None, datetime | None],
        *,
        at: datetime,
        by: str,
    ) -> Resolution:
        """Return the resolution of a sorted pair, with its effects: link and end of validity."""
        check_revision(self.revision, 0 if before is None else before.revision)
        return Resolution(
            resolution_id=new_id(at) if before is None else before.resolution_id,
            a_memory_id=pair[0],
            b_memory_id=pair[1],
            status=self.status,
            canonical_memory_id=canonical_id,
            note=self.note,
            link_id=effects[0],
            closed_time=effects[1],
            revision=(last_revision if before is None else before.revision) + 1,
            create_time=(self.times.create_time if self.times else at) if before is None else before.create_time,
            update_time=self.times.update_time if self.times else at,
            created_by=by if before is None else before.created_by,
            updated_by=by,
        )


def pair_key(a: UUID, b: UUID) -> str:
    """Return the name of a pair, in either order."""
    lower, higher = sorted((a, b))
    return f"{lower}|{higher}"
