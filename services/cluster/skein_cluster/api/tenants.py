"""Tenants that the command creates or looks up by their slugs. Every client is an operator's."""

from __future__ import annotations

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_client.errors import AlreadyExists, NotFound
from skein_client.pagination import iterate_pages
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_importers.organizations import DEFAULT_NAME, DEFAULT_SLUG, ensure_organization
from skein_kit.ids import parse_id


async def ensure_tenant(operator: Client, organization_id: str, name: str, slug: str) -> str:
    """Return the id of the organization's tenant with this slug; create it if needed."""
    draft = tenancy_pb2.Tenant(organization_id=organization_id, display_name=name, slug=slug)
    try:
        created = await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=draft))
    except AlreadyExists:
        request = tenancy_pb2.ListTenantsRequest(page_size=1000, organization_id=organization_id)
        async for tenant in iterate_pages(operator.tenancy.ListTenants, request, "tenants"):
            if tenant.slug == slug:
                return str(tenant.tenant_id)
        raise
    return created.tenant.tenant_id


async def create_tenant(operator: Client, name: str) -> tuple[str, str]:
    """Create a tenant; return its id and an API key with every permission in it."""
    request = tenancy_pb2.CreateTenantRequest(tenant=tenancy_pb2.Tenant(display_name=name))
    try:
        created = await operator.tenancy.CreateTenant(request)
    except NotFound:
        # The first tenant after `skein bootstrap` needs an organization.
        default = tenancy_pb2.Organization(display_name=DEFAULT_NAME, slug=DEFAULT_SLUG)
        await operator.tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=default))
        created = await operator.tenancy.CreateTenant(request)
    tenant_id = created.tenant.tenant_id
    request_for_key = auth_pb2.CreateApiKeyRequest(display_name=name)
    key = await operator.auth.CreateApiKey(request_for_key, metadata=_acting_in(tenant_id))
    return tenant_id, key.secret


async def find_tenant(operator: Client, name: str) -> str:
    """Return the id of the tenant with this id or slug. Raises CommandError when none or several match."""
    if parse_id(name) is not None:
        return name
    request = tenancy_pb2.ListTenantsRequest(page_size=1000)
    tenant_ids = [
        str(tenant.tenant_id)
        async for tenant in iterate_pages(operator.tenancy.ListTenants, request, "tenants")
        if tenant.slug == name
    ]
    if len(tenant_ids) == 1:
        return tenant_ids[0]
    matches = "No tenant has" if not tenant_ids else "Tenants of several organizations have"
    raise CommandError(f"{matches} the slug {name}; use the id of the tenant (skein tenants list).", ExitCode.REFUSED)


async def ensure_legacy_tenant(operator: Client, slug: str, token: str) -> str:
    """Create the tenant of callers that share one bearer token of an earlier system, and set that token.

    Return the tenant's id. A repeat changes nothing.
    """
    organization_id = await ensure_organization(operator, DEFAULT_NAME, DEFAULT_SLUG)
    tenant_id = await ensure_tenant(operator, organization_id, slug, slug)
    request = accounts_pb2.SetLegacyTokenRequest(token=token)
    await operator.auth.SetLegacyToken(request, metadata=_acting_in(tenant_id))
    return tenant_id


def _acting_in(tenant_id: str) -> tuple[tuple[str, str]]:
    return (("skein-tenant-id", tenant_id),)
