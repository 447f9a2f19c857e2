"""Quotas and usage as protobuf messages, and changes of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.rpc import well_known_types
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.quotas.model import ORGANIZATION_KINDS, TENANT_KINDS, TENANTS, QuotaChange

if TYPE_CHECKING:
    from skein_tenancy.quotas.model import OrganizationUsage, Quota, Usage


def change(request: pb.UpdateQuotaRequest) -> QuotaChange:
    """Read the limits that the mask names, or all when it is empty. Raises FieldInvalid for a limit of tenants."""
    if request.organization_id:
        kinds = well_known_types.updated_fields(request.update_mask, ORGANIZATION_KINDS)
    elif request.quota.HasField(TENANTS):
        raise FieldInvalid(violations=[(f"quota.{TENANTS}", "is a limit of organizations only")])
    else:
        kinds = well_known_types.updated_fields(request.update_mask, TENANT_KINDS)
    limits = {kind: getattr(request.quota, kind) if request.quota.HasField(kind) else None for kind in sorted(kinds)}
    return QuotaChange(revision=request.quota.revision, limits=limits)


def quota(value: Quota) -> pb.Quota:
    return pb.Quota(revision=value.revision, update_time=to_timestamp(value.update_time), **value.limits)


def usage(value: Usage) -> pb.Usage:
    return pb.Usage(kind=value.kind, used=value.used, limit=value.limit)


def organization_usage(value: OrganizationUsage) -> pb.GetUsageResponse:
    return pb.GetUsageResponse(usage=map(usage, value.usage), collect_time=to_timestamp(value.collect_time))
