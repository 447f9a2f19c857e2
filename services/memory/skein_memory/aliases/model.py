"""Aliases: memories that are other names for a canonical memory. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from skein_kit.rpc.row_times import ImportTimes

DEFAULT_CONFIDENCE = 0.9
# Aliases of an alias that one call moves along.
MAX_MOVED = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """An alias of a canonical memory; the canonical memory is no alias itself."""

    alias_memory_id: UUID
    canonical_memory_id: UUID
    confidence: float
    note: str | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str

    def repoint(self, canonical_id: UUID, *, at: datetime, by: str) -> Alias:
        """Return its next revision, for another memory."""
        return replace(
            self, canonical_memory_id=canonical_id, revision=self.revision + 1, update_time=at, updated_by=by
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AliasDraft:
    """A caller's request to make one memory an alias of another; both are named by id or external id."""

    alias_name: str
    canonical_name: str
    confidence: float
    note: str | None
    archive: bool
    # None: now.
    times: ImportTimes | None = None

    def to_alias(
        self, before: Alias | None, last_revision: int, alias_id: UUID, canonical_id: UUID, *, at: datetime, by: str
    ) -> Alias:
        """Return the new alias; `last_revision` is the number of its last stored revision."""
        return Alias(
            alias_memory_id=alias_id,
            canonical_memory_id=canonical_id,
            confidence=self.confidence,
            note=self.note,
            revision=(last_revision if before is None else before.revision) + 1,
            create_time=(self.times.create_time if self.times else at) if before is None else before.create_time,
            update_time=self.times.update_time if self.times else at,
            created_by=by if before is None else before.created_by,
            updated_by=by,
        )
