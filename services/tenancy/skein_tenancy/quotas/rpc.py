"""The RPCs that concern quotas and usage: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.tenancy.v1 import limits_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.errors import TenantMissing
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.identity.permissions import OPERATOR, SYSTEM
from skein_tenancy import convert as wire
from skein_tenancy.errors import OrganizationNotFound
from skein_tenancy.quotas import model as quotas
from skein_tenancy.rpc_base import Rpcs

if TYPE_CHECKING:
    from skein_kit.identity.identity_token import Caller


class QuotaRpcs(Rpcs):
    """What tenants and organizations may have at most, and what they have."""

    async def GetQuota(self, request: pb.GetQuotaRequest, context: Context) -> pb.GetQuotaResponse:
        who = caller(context)
        organization_id = _organization(request.organization_id, who)
        if organization_id is None:
            return pb.GetQuotaResponse(quota=await self._parts.quotas.get_quota(_tenant(who)))
        return pb.GetQuotaResponse(quota=await self._parts.quotas.get_organization_quota(organization_id))

    async def UpdateQuota(self, request: pb.UpdateQuotaRequest, context: Context) -> pb.UpdateQuotaResponse:
        who = caller(context)
        organization_id = _organization(request.organization_id, who)
        change, once = quotas.QuotaChange.of(request, organization_id), IdempotencyKey.of(who, request)
        if organization_id is None:
            return await self._parts.quotas.update_quota(_tenant(who), change, once)
        return await self._parts.quotas.update_organization_quota(organization_id, change, once)

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        who = caller(context)
        organization_id = _organization(request.organization_id, who)
        if organization_id is None:
            return pb.GetUsageResponse(usage=await self._parts.quotas.get_usage(_tenant(who)))
        return await self._parts.quotas.get_organization_usage(organization_id)


class RateLimitHandlers(Rpcs):
    """What the gateway and the worker ask about limits."""

    async def LeaseRequests(self, request: pb.LeaseRequestsRequest, context: Context) -> pb.LeaseRequestsResponse:
        who = caller(context)
        if not who.permissions.isdisjoint({OPERATOR, SYSTEM}):
            return wire.unlimited_lease(request)
        return await self._parts.quotas.lease_requests(
            who.tenant_id, who.principal, (request.tenant_count, request.caller_count), self._parts.settings.rates()
        )

    async def CollectUsage(self, request: pb.CollectUsageRequest, context: Context) -> pb.CollectUsageResponse:
        return pb.CollectUsageResponse(usage=await self._parts.quotas.collect_usage(caller(context).tenant()))


def _organization(organization_id: str, who: Caller) -> UUID | None:
    """Read which organization is meant, if one is: they are the operator's business."""
    if not organization_id:
        return None
    if OPERATOR not in who.permissions:
        raise OrganizationNotFound
    return UUID(organization_id)


def _tenant(who: Caller) -> UUID:
    if who.tenant_id is None:
        raise TenantMissing
    return who.tenant_id
