"""Reindexes and their scans of a tenant's documents. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, kw_only=True, slots=True)
class ReindexDraft:
    """A reindex to start."""

    model: str
    # None: all tenants.
    only_tenant_id: UUID | None
    texts_per_second: float
    # By then every process follows the model.
    settle_time: datetime
    at: datetime
    created_by: str
    # The model has vectors of all documents written so far.
    is_complete: bool = False
    # A reindex of the model that runs already keeps its rate.
    keep_rate: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Reindex:
    """A reindex with its progress over all tenants."""

    reindex_id: UUID
    model: str
    only_tenant_id: UUID | None
    texts_per_second: float
    settle_time: datetime
    create_time: datetime
    created_by: str
    cancel_time: datetime | None
    is_complete: bool
    tenants: int
    done_tenants: int
    # Sums over the tenants.
    documents: int
    seen: int
    embedded: int
    missing: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingReindex:
    """A reindex that is not done in one tenant, with its latest scan of the documents: None before the first."""

    reindex_id: UUID
    model: str
    settle_time: datetime
    scan_time: datetime | None
    # Documents up to this id are scanned.
    after_id: UUID | None
    is_finished: bool | None
    # Documents were written without vectors of the model, so another scan is needed.
    is_stale: bool | None
    # Documents that got vectors in this scan.
    embedded_count: int | None

    def is_scan_due(self, at: datetime) -> bool:
        """Return whether to begin a scan.

        The last scan is one that began after every process followed the model, and that found nothing to embed.
        """
        if self.scan_time is None or self.is_finished is None:
            return True
        if not self.is_finished:
            return False
        return bool(self.is_stale or self.embedded_count or at >= self.settle_time)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanProgress:
    """One step of a scan: documents with ids above `after`, up to and including `to`."""

    after: UUID
    to: UUID
    seen_count: int
    embedded_count: int
    # Documents without vectors that could not be embedded.
    missing_count: int
    is_finished: bool
