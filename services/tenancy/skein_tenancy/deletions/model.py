"""Deletions of tenants: grace periods, and how a report grows. No gRPC, no SQL, no clock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.errors import FieldInvalid, TenantNotDeleted
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import OPERATOR

GRACE, PURGING, DONE, CANCELLED = "grace", "purging", "done", "cancelled"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionRequest:
    """The grace period and the author of a deletion, of one tenant or of all tenants of an organization."""

    grace: timedelta
    created_by: str

    @classmethod
    def create(cls, caller: Caller, grace: timedelta | None, *, default_grace: timedelta) -> DeletionRequest:
        """Use the default grace period for None. Raises FieldInvalid for a shorter one, except for operators."""
        if grace is None:
            grace = default_grace
        if grace < default_grace and OPERATOR not in caller.permissions:
            seconds = int(default_grace.total_seconds())
            raise FieldInvalid(violations=[("grace", f"is {seconds} seconds at least; only operators may give less")])
        return cls(grace=grace, created_by=caller.principal)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionProgress:
    """Rows that a worker removed of a tenant, by table, and the stage it reached."""

    stage: str
    counts: Mapping[str, int]
    is_finished: bool
    # Auth has signed the certificate of the finished deletion.
    is_certified: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """The deletion of a tenant, and its report."""

    tenant_id: UUID
    deletion_id: UUID
    organization_id: UUID
    # GRACE, PURGING, DONE or CANCELLED.
    state: str
    # What the worker removes now; empty before and after.
    stage: str
    # JSON text: removed rows by table.
    deleted_counts: str
    create_time: datetime
    purge_time: datetime
    finish_time: datetime | None
    created_by: str
    is_certified: bool

    def apply(self, progress: DeletionProgress, at: datetime) -> dict[str, object]:
        """Return the columns that progress changes.

        A finished deletion stays finished, but takes the counts of a second worker's batches.
        Raises TenantNotDeleted for a deletion that was undone, or is in its grace period.
        """
        if self.state == CANCELLED or self.purge_time > at:
            raise TenantNotDeleted
        counts = Counter(json.loads(self.deleted_counts))
        # Two workers may finish the same deletion; the tenant's own row counts once.
        if not (progress.is_finished and self.state == DONE):
            counts.update(progress.counts)
        is_done = progress.is_finished or self.state == DONE
        return {
            "state": DONE if is_done else PURGING,
            "stage": "" if is_done else progress.stage,
            "deleted_counts": json.dumps(counts),
            "finish_time": (self.finish_time or at) if is_done else None,
            "is_certified": self.is_certified or (is_done and progress.is_certified),
        }
