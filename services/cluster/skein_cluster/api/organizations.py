"""Organizations and tenants by their slugs: found, or made when they are not there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.errors import AlreadyExists, NotFound
from skein_client.pagination import iterate_pages
from skein_cluster.api.client import open_client
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from skein_cluster.api.client import ClusterClient


async def ensure_organization(operator: ClusterClient, name: str, slug: str) -> str:
    """Return the id of the organization."""
    wanted = tenancy_pb2.Organization(display_name=name, slug=slug)
    try:
        made = await operator.tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=wanted))
    except AlreadyExists:
        found = await find_organization(operator, slug)
        if not found:
            raise
        return found
    return made.organization.organization_id


async def find_organization(operator: ClusterClient, slug: str) -> str:
    """Return the id of the organization, "" when there is none."""
    request = tenancy_pb2.ListOrganizationsRequest(page_size=1000)
    async for organization in iterate_pages(operator.tenancy.ListOrganizations, request, "organizations"):
        if organization.slug == slug:
            return str(organization.organization_id)
    return ""


async def ensure_tenant(operator: ClusterClient, organization_id: str, name: str, slug: str) -> str:
    """Return the id of the organization's tenant."""
    wanted = tenancy_pb2.Tenant(organization_id=organization_id, display_name=name, slug=slug)
    try:
        made = await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=wanted))
    except AlreadyExists:
        request = tenancy_pb2.ListTenantsRequest(page_size=1000, organization_id=organization_id)
        async for tenant in iterate_pages(operator.tenancy.ListTenants, request, "tenants"):
            if tenant.slug == slug:
                return str(tenant.tenant_id)
        raise
    return made.tenant.tenant_id


async def create_tenant(operator: ClusterClient, name: str) -> tuple[str, str]:
    """Make a tenant; return its id and an API key that may do everything in it."""
    request = tenancy_pb2.CreateTenantRequest(tenant=tenancy_pb2.Tenant(display_name=name))
    try:
        made = await operator.tenancy.CreateTenant(request)
    except NotFound:
        # The first tenant after `skein bootstrap`: there is no organization yet that it could belong to.
        await operator.tenancy.CreateOrganization(
            tenancy_pb2.CreateOrganizationRequest(
                organization=tenancy_pb2.Organization(display_name="Default", slug="default")
            )
        )
        made = await operator.tenancy.CreateTenant(request)
    tenant_id = made.tenant.tenant_id
    async with open_client(replace(operator.connection, tenant_id=tenant_id)) as acting:
        key = await acting.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name=name))
    return tenant_id, key.secret


async def find_tenant(operator: ClusterClient, name: str) -> str:
    """Return the id of a tenant that is named by its id or its slug. Raises Failure when no or several tenants are."""
    if parse_id(name) is not None:
        return name
    request = tenancy_pb2.ListTenantsRequest(page_size=1000)
    found = [
        str(tenant.tenant_id)
        async for tenant in iterate_pages(operator.tenancy.ListTenants, request, "tenants")
        if tenant.slug == name
    ]
    if len(found) == 1:
        return found[0]
    what = "No tenant has" if not found else "Tenants of several organizations have"
    message = f"{what} the slug {name}; name the tenant by its id (skein tenants list)."
    raise CommandError(message, ExitCode.REFUSED)
