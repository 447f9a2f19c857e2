"""The tenant of those who come from an earlier system and share one bearer token: made when it is not there."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2
from skein_cluster.api.client import open_client
from skein_cluster.api.organizations import ensure_organization, ensure_tenant

if TYPE_CHECKING:
    from skein_client.connection import Connection

DEFAULT_SLUG = "legacy-default-brain"


async def ensure_legacy_tenant(connection: Connection, slug: str, token: str) -> str:
    """Make sure that the default organization has this tenant, and the tenant this token; return the tenant's id.

    The connection is the operator's. Repeating the call changes nothing.
    """
    async with open_client(connection) as operator:
        organization_id = await ensure_organization(operator, "Default", "default")
        tenant_id = await ensure_tenant(operator, organization_id, slug, slug)
    async with open_client(dataclasses.replace(connection, tenant_id=tenant_id)) as acting:
        await acting.auth.SetLegacyToken(accounts_pb2.SetLegacyTokenRequest(token=token))
    return tenant_id
