"""What became of the records of an import: counts, and places of what was changed or refused. Never content."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources.base import Notes

if TYPE_CHECKING:
    from collections.abc import Callable

    from skein_client.errors import SkeinError
    from skein_importers.records import Kind

# Refusals of which the place is kept; beyond, they are counted.
MAX_REFUSED_SHOWN = 10_000


class Outcome(StrEnum):
    """What became of a record."""

    WRITTEN = "written"
    # It was there already.
    SKIPPED = "skipped"
    REFUSED = "refused"
    # A vector that does not come along: the cluster makes its own.
    RECOMPUTED = "recomputed"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """One record that was not taken."""

    where: str
    kind: str
    name: str
    reason: str
    # What such a record wants, and one that works; empty for a record that could be read.
    hint: str = ""


@dataclass(slots=True)
class Report:
    """What became of the records, by kind and by table and kind."""

    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    # The first of them.
    refused: list[RefusedRecord] = field(default_factory=list)
    refused_count: int = 0
    # Records read, and what became of them, by table and kind ("" for what could not be read).
    records: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str, Outcome]] = field(default_factory=Counter)
    # Written, found by their words already and by meaning soon.
    pending: int = 0
    notes: Notes = field(default_factory=Notes)
    # Says in a sentence what the cluster refused; the `skein` command adds what to do about it.
    describe_error: Callable[[SkeinError], str] = str

    def count_read(self, record: Record | UnreadableRecord) -> None:
        """Count a record that came from the source; one that could not be read is refused at once."""
        if isinstance(record, UnreadableRecord):
            self.read["unreadable"] += 1
            self.records[record.table, ""] += 1
            self.refuse(record, record.reason)
        else:
            self.read[record.kind] += 1
            self.records[record.table, record.kind] += 1

    def count_written(self, record: Record) -> None:
        """Count a record that was written."""
        self.written[record.kind] += 1
        self.outcomes[record.table, record.kind, Outcome.WRITTEN] += 1

    def skip(self, record: Record) -> None:
        """Count a record that was there already."""
        self.skipped[record.kind] += 1
        self.outcomes[record.table, record.kind, Outcome.SKIPPED] += 1

    def count_ignored(self, record: Record, why: str) -> None:
        """Count a record that is knowingly left behind."""
        self.notes.count_ignored(record.table or str(record.kind), why)

    def recompute(self, record: Record, which: str) -> None:
        """Count a vector that the cluster makes itself."""
        self.outcomes[record.table, record.kind, Outcome.RECOMPUTED] += 1
        self.notes.count_converted(record.table, "embedding", f"made anew: {which}", record.where)

    def refuse(self, record: Record | UnreadableRecord, reason: str) -> None:
        """Count a record that was not taken, and note which."""
        kind: Kind | str = record.kind if isinstance(record, Record) else ""
        self.outcomes[record.table, kind, Outcome.REFUSED] += 1
        self.refused_count += 1
        if len(self.refused) < MAX_REFUSED_SHOWN:
            name = record.name if isinstance(record, Record) else ""
            hint = record.hint if isinstance(record, UnreadableRecord) else ""
            self.refused.append(RefusedRecord(record.where, str(kind), name, reason, hint))
