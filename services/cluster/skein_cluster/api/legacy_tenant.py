"""The tenant of callers that share one bearer token of an earlier system."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_cluster.api.client import open_client
from skein_cluster.api.organizations import ensure_tenant
from skein_importers.organizations import DEFAULT_NAME, DEFAULT_SLUG, ensure_organization

if TYPE_CHECKING:
    from skein_client.connection import Connection


async def ensure_legacy_tenant(connection: Connection, slug: str, token: str) -> str:
    """Make sure that the default organization has this tenant, and the tenant this token; return the tenant's id.

    The connection is the operator's. Repeating the call changes nothing.
    """
    async with open_client(connection) as operator:
        organization_id = await ensure_organization(operator, DEFAULT_NAME, DEFAULT_SLUG)
        tenant_id = await ensure_tenant(operator, organization_id, slug, slug)
    async with open_client(dataclasses.replace(connection, tenant_id=tenant_id)) as acting:
        await acting.auth.SetLegacyToken(accounts_pb2.SetLegacyTokenRequest(token=token))
    return tenant_id
