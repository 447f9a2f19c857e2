"""The deletion of tenants: who may ask for how much grace, and how a report grows. No SQL, no clock."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from skein_kit.errors import FieldInvalid, TenantNotDeleted
from skein_kit.identity.permissions import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

    from skein.tenancy.v1 import members_pb2
    from skein.tenancy.v1 import tenancy_pb2 as pb
    from skein_kit.identity.identity_token import Caller

GRACE, PURGING, DONE, UNDONE = "grace", "purging", "done", "undone"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionRequest:
    """The wish to delete a tenant, or all tenants of an organization."""

    grace: timedelta
    created_by: str

    @classmethod
    def of(
        cls, caller: Caller, request: pb.DeleteTenantRequest | pb.DeleteOrganizationRequest, *, usual: timedelta
    ) -> DeletionRequest:
        """Read how long rows are to be kept: as `usual` when nothing is said. Only operators may say less than that."""
        grace = request.grace.ToTimedelta() if request.HasField("grace") else usual
        if grace < usual and OPERATOR not in caller.permissions:
            seconds = int(usual.total_seconds())
            raise FieldInvalid(violations=[("grace", f"is {seconds} seconds at least; only operators may give less")])
        return cls(grace=grace, created_by=caller.principal)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionProgress:
    """What was removed of a tenant, and where."""

    stage: str
    counts: Mapping[str, int]
    finished: bool

    @classmethod
    def of(cls, request: members_pb2.RecordDeletionRequest) -> DeletionProgress:
        return cls(stage=request.stage, counts=request.deleted_counts, finished=request.finished)

    def added_to(self, deletion: asyncpg.Record, at: datetime) -> dict[str, object]:
        """Return the columns of a deletion that has come this far.

        A deletion that is done stays done, but it takes the counts of batches that a second worker removed meanwhile.
        Raises TenantNotDeleted for a deletion that was undone, or whose grace is not over.
        """
        if deletion["state"] == UNDONE or deletion["purge_time"] > at:
            raise TenantNotDeleted
        counts = Counter(json.loads(deletion["deleted_counts"]))
        # Two workers may finish the same deletion; the tenant's own row counts once.
        if not (self.finished and deletion["state"] == DONE):
            counts.update(self.counts)
        done = self.finished or deletion["state"] == DONE
        return {
            "state": DONE if done else PURGING,
            "stage": "" if done else self.stage,
            "deleted_counts": json.dumps(counts),
            "finish_time": (deletion["finish_time"] or at) if done else None,
        }
