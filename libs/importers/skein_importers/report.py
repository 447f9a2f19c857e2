"""The result of an import: counts, and places of converted or refused values. Never content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from skein_client.errors import SkeinError
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.base import Notes

# Refusals reported with their line or id; more are only counted.
MAX_REFUSED_SHOWN = 10_000


class Outcome(StrEnum):
    """The result of one record."""

    WRITTEN = "written"
    # The record existed.
    SKIPPED = "skipped"
    REFUSED = "refused"
    # A vector that the cluster computes again.
    RECOMPUTED = "recomputed"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """One refused record."""

    where: str
    kind: str
    name: str
    reason: str
    # Required fields and an example; empty for a record that could be read.
    hint: str = ""


@dataclass(slots=True)
class Report:
    """Counts by kind, and by table and kind."""

    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    # The first refused records.
    refused: list[RefusedRecord] = field(default_factory=list)
    refused_count: int = 0
    # Records read, and their outcomes, by table and kind ("" for unreadable ones).
    records: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str, Outcome]] = field(default_factory=Counter)
    # Records written whose vectors follow.
    pending: int = 0
    notes: Notes = field(default_factory=Notes)
    # Describes the cluster's refusal in a sentence; the `skein` command adds the remedy.
    describe_error: Callable[[SkeinError], str] = str

    def count_read(self, record: Record | UnreadableRecord) -> None:
        """Count a record that was read; an unreadable one counts as refused."""
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
        """Count a record that existed."""
        self.skipped[record.kind] += 1
        self.outcomes[record.table, record.kind, Outcome.SKIPPED] += 1

    def count_ignored(self, record: Record, reason: str) -> None:
        """Count a record that is ignored on purpose."""
        self.notes.count_ignored(record.table or str(record.kind), reason)

    def recompute(self, record: Record, reason: str) -> None:
        """Count a vector that the cluster computes again."""
        self.outcomes[record.table, record.kind, Outcome.RECOMPUTED] += 1
        self.notes.count_converted(record.table, "embedding", f"computed again: {reason}", record.where)

    def refuse(self, record: Record | UnreadableRecord, reason: str) -> None:
        """Count a refused record, and note its line or id."""
        kind: Kind | str = record.kind if isinstance(record, Record) else ""
        self.outcomes[record.table, kind, Outcome.REFUSED] += 1
        self.refused_count += 1
        if len(self.refused) < MAX_REFUSED_SHOWN:
            name = record.name if isinstance(record, Record) else ""
            hint = record.hint if isinstance(record, UnreadableRecord) else ""
            self.refused.append(RefusedRecord(record.where, str(kind), name, reason, hint))
