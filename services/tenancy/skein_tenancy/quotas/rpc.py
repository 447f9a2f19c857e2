"""The RPCs of quotas and usage: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import OPERATOR
from skein_kit.rpc import well_known_types
from skein_kit.rpc.well_known_types import to_message, to_timestamp
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.quotas.model import (
    ORGANIZATION_KINDS,
    TENANT_KINDS,
    TENANTS,
    OrganizationUsage,
    Quota,
    QuotaChange,
    Usage,
)
from skein_tenancy.quotas.store import QuotaStore
from skein_tenancy.validation import require_tenant


class QuotaHandlers:
    """Quotas and usage of tenants and, for operators, of organizations."""

    def __init__(self, store: QuotaStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def GetQuota(self, request: pb.GetQuotaRequest, context: Context) -> pb.GetQuotaResponse:
        caller = caller_of(context)
        organization_id = _organization_id(request.organization_id, caller)
        if organization_id is None:
            quota = await self._store.get_quota(require_tenant(caller))
        else:
            quota = await self._store.get_organization_quota(organization_id)
        return pb.GetQuotaResponse(quota=_quota(quota))

    async def UpdateQuota(self, request: pb.UpdateQuotaRequest, context: Context) -> pb.UpdateQuotaResponse:
        caller = caller_of(context)
        organization_id = _organization_id(request.organization_id, caller)
        change, key = _change(request), IdempotencyKey.of(caller, request)
        begin = (
            self._idempotency.begin_as_operator(key)
            if organization_id
            else self._idempotency.begin_with_key(require_tenant(caller), key)
        )
        async with begin as write:
            if organization_id is None:
                quota = await self._store.update_quota(write.tx, require_tenant(caller), change)
            else:
                quota = await self._store.update_organization_quota(write.tx, organization_id, change)
            return await write.save(pb.UpdateQuotaResponse(quota=_quota(quota)))

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        caller = caller_of(context)
        organization_id = _organization_id(request.organization_id, caller)
        if organization_id is None:
            usage = await self._store.get_usage(require_tenant(caller))
            return pb.GetUsageResponse(usage=map(_usage, usage))
        return _organization_usage(await self._store.get_organization_usage(organization_id))

    async def CollectUsage(self, request: pb.CollectUsageRequest, context: Context) -> pb.CollectUsageResponse:
        usage = await self._store.collect_usage(caller_of(context).require_tenant())
        return pb.CollectUsageResponse(usage=map(_usage, usage))


def _organization_id(text: str, caller: Caller) -> UUID | None:
    """Return the organization of a request, None for one about the caller's tenant.

    Raises OrganizationNotFound for callers that are no operators.
    """
    if not text:
        return None
    if OPERATOR not in caller.permissions:
        raise OrganizationNotFound
    return UUID(text)


def _change(request: pb.UpdateQuotaRequest) -> QuotaChange:
    """Read the limits that the mask names, or all when it is empty. Raises FieldInvalid for a limit of tenants."""
    if request.organization_id:
        kinds = well_known_types.updated_fields(request.update_mask, ORGANIZATION_KINDS)
    elif request.quota.HasField(TENANTS):
        raise FieldInvalid(violations=[(f"quota.{TENANTS}", "is a limit of organizations only")])
    else:
        kinds = well_known_types.updated_fields(request.update_mask, TENANT_KINDS)
    limits = {kind: getattr(request.quota, kind) if request.quota.HasField(kind) else None for kind in sorted(kinds)}
    return QuotaChange(revision=request.quota.revision, limits=limits)


def _quota(value: Quota) -> pb.Quota:
    return pb.Quota(revision=value.revision, update_time=to_timestamp(value.update_time), **value.limits)


def _usage(value: Usage) -> pb.Usage:
    return to_message(pb.Usage, value)


def _organization_usage(value: OrganizationUsage) -> pb.GetUsageResponse:
    return pb.GetUsageResponse(usage=map(_usage, value.usage), collect_time=to_timestamp(value.collect_time))
