"""Organizations and tenants by their slugs: found, or made when they are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2
from skein_client.errors import AlreadyExists
from skein_client.pages import items

if TYPE_CHECKING:
    from skein_cluster.calling import Api


async def ensure_organization(operator: Api, name: str, slug: str) -> str:
    """Return the id of the organization."""
    wanted = tenancy_pb2.Organization(display_name=name, slug=slug)
    try:
        made = await operator.tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=wanted))
    except AlreadyExists:
        request = tenancy_pb2.ListOrganizationsRequest(page_size=1000)
        async for organization in items(operator.tenancy.ListOrganizations, request, "organizations"):
            if organization.slug == slug:
                return str(organization.organization_id)
        raise
    return made.organization.organization_id


async def ensure_tenant(operator: Api, organization_id: str, name: str, slug: str) -> str:
    """Return the id of the organization's tenant."""
    wanted = tenancy_pb2.Tenant(organization_id=organization_id, display_name=name, slug=slug)
    try:
        made = await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=wanted))
    except AlreadyExists:
        request = tenancy_pb2.ListTenantsRequest(page_size=1000, organization_id=organization_id)
        async for tenant in items(operator.tenancy.ListTenants, request, "tenants"):
            if tenant.slug == slug:
                return str(tenant.tenant_id)
        raise
    return made.tenant.tenant_id
