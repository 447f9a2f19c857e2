"""Tenants of a source's realms, created once and recognized by slug and metadata.

Another tenant with the same slug is never imported into or compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from google.protobuf import json_format

from skein.tenancy.v1 import tenancy_pb2
from skein_client.client import Client
from skein_client.pagination import iterate_pages
from skein_importers.errors import SlugTaken
from skein_importers.organizations import (
    DEFAULT_NAME,
    DEFAULT_SLUG,
    LEGACY_SLUG,
    ensure_organization,
    find_organization,
)
from skein_importers.sources.base import Realm
from skein_importers.sources.rows import format_iso, make_storable, parse_time, struct

# Metadata key of the realm that a tenant was created for.
_MARK = "moved_in"


async def find_tenants(operator: Client, form: str, realms: Sequence[Realm]) -> dict[str, str]:
    """Return the ids of tenants created for realms, by the realms' keys. Raises SlugTaken."""
    by_slug = {realm.slug: realm for realm in realms}
    for realm in realms:
        if by_slug[realm.slug] is not realm:
            raise _slug_taken(realm)
    organization_id = await find_organization(operator, DEFAULT_SLUG)
    if not organization_id:
        return {}
    result: dict[str, str] = {}
    request = tenancy_pb2.ListTenantsRequest(page_size=1000, organization_id=organization_id)
    async for tenant in iterate_pages(operator.tenancy.ListTenants, request, "tenants"):
        realm_of_slug = by_slug.get(tenant.slug)
        if realm_of_slug is None:
            continue
        # The tenant of MemoryVault's shared token may exist before the import.
        is_legacy = tenant.slug == realm_of_slug.key == LEGACY_SLUG
        if not is_legacy and json_format.MessageToDict(tenant.metadata).get(_MARK) != _mark(form, realm_of_slug):
            raise _slug_taken(realm_of_slug)
        result[realm_of_slug.key] = str(tenant.tenant_id)
    return result


async def all_tenants(operator: Client, form: str, realms: Sequence[Realm]) -> Mapping[str, str]:
    """Return the ids of the realms' tenants, by the realms' keys; create missing ones. Raises SlugTaken."""
    result = await find_tenants(operator, form, realms)
    organization_id = await ensure_organization(operator, DEFAULT_NAME, DEFAULT_SLUG)
    for realm in realms:
        if realm.key not in result:
            tenant = tenancy_pb2.Tenant(
                organization_id=organization_id,
                display_name=make_storable(realm.name)[:255] or realm.slug,
                slug=realm.slug,
                metadata=struct({_MARK: _mark(form, realm), **_times(form, realm)}),
            )
            response = await operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=tenant))
            result[realm.key] = response.tenant.tenant_id
    return result


def _times(form: str, realm: Realm) -> dict[str, dict[str, str]]:
    """Return when the realm was made and changed there: a tenant begins with the import."""
    times = {}
    for name, value in realm.times.items():
        with suppress(ValueError):
            times[name] = format_iso(parse_time(value)[0])
    return {form: times} if times else {}


def _slug_taken(realm: Realm) -> SlugTaken:
    return SlugTaken(
        f"There is a tenant {realm.slug!r} already, which was not made for the realm {realm.key!r}: bring that realm "
        "with --realm and a key of the tenant that it belongs to, or give either another slug. Nothing was written."
    )


def _mark(form: str, realm: Realm) -> dict[str, str]:
    return {"format": form, "realm": make_storable(realm.key)}
