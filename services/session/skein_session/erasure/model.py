"""Limits and receipts of purges."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from skein_session.cold_storage.store import FileRef

# Messages that one call purges by default.
DEFAULT_LIMIT = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgeOptions:
    """How much one call purges; a dry run counts and changes nothing."""

    limit: int = DEFAULT_LIMIT
    is_dry_run: bool = False


@dataclass(kw_only=True, slots=True)
class Receipt:
    """The purged rows: ids of sessions and messages, and counts by table."""

    session_ids: list[str] = field(default_factory=list)
    message_ids: list[UUID] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # Pending files that are deleted after the commit.
    cancelled_files: list[FileRef] = field(default_factory=list)
    # True when another call has to purge the rest.
    has_more: bool = False
    # Digests that the purge wrote, and that of the person.
    tombstones: list[bytes] = field(default_factory=list)
    subject_tombstone: bytes = b""

    def add_count(self, table: str, count: int) -> None:
        """Add purged rows of a table; zero adds no entry."""
        if count:
            self.counts[table] += count
