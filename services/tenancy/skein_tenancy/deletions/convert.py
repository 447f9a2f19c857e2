"""Deletions as protobuf messages, and requests for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.deletions.model import DeletionProgress, DeletionRequest

if TYPE_CHECKING:
    from datetime import timedelta

    from skein.tenancy.v1 import tenancy_pb2 as pb
    from skein_kit.identity.identity_token import Caller
    from skein_tenancy.deletions.model import Deletion


def deletion_request(
    request: pb.DeleteTenantRequest | pb.DeleteOrganizationRequest, caller: Caller, *, default_grace: timedelta
) -> DeletionRequest:
    grace = request.grace.ToTimedelta() if request.HasField("grace") else None
    return DeletionRequest.create(caller, grace, default_grace=default_grace)


def progress(request: members_pb2.RecordDeletionRequest) -> DeletionProgress:
    return DeletionProgress(stage=request.stage, counts=request.deleted_counts, is_finished=request.finished)


def deletion(value: Deletion) -> members_pb2.Deletion:
    return members_pb2.Deletion(
        tenant_id=str(value.tenant_id),
        organization_id=str(value.organization_id),
        state=f"DELETION_STATE_{value.state.upper()}",
        create_time=to_timestamp(value.create_time),
        purge_time=to_timestamp(value.purge_time),
        finish_time=to_timestamp(value.finish_time),
        created_by=value.created_by,
        deleted_counts=json.loads(value.deleted_counts),
        stage=value.stage,
    )
