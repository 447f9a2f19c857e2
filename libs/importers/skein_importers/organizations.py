"""Organizations by their slugs, and the names of the default ones."""

from __future__ import annotations

from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_client.errors import AlreadyExists
from skein_client.pagination import iterate_pages

# The organization of tenants for which no other is named.
DEFAULT_NAME, DEFAULT_SLUG = "Default", "default"
# The tenant of callers that share one bearer token of an earlier system.
LEGACY_SLUG = "legacy-default-brain"


async def ensure_organization(operator: Client, name: str, slug: str) -> str:
    """Return the id of the organization with this slug; create it if needed."""
    draft = tenancy_pb2.Organization(display_name=name, slug=slug)
    try:
        created = await operator.tenancy.CreateOrganization(tenancy_pb2.CreateOrganizationRequest(organization=draft))
    except AlreadyExists:
        existing = await find_organization(operator, slug)
        if not existing:
            raise
        return existing
    return created.organization.organization_id


async def find_organization(operator: Client, slug: str) -> str:
    """Return the id of the organization, "" when there is none."""
    request = tenancy_pb2.ListOrganizationsRequest(page_size=1000)
    async for organization in iterate_pages(operator.tenancy.ListOrganizations, request, "organizations"):
        if organization.slug == slug:
            return str(organization.organization_id)
    return ""
