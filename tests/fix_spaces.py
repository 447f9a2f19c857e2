"""Spaces of a tenant, and keys that see some of them."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING

from fix_cluster import Cluster, Stubs, Tenant
from fix_world import identity

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import spaces_pb2 as pb
from skein_kit.identity.permissions import AGENT_PERMISSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

SPACE_KEY = "skein-space-id"
ROLES = {
    "reader": pb.SPACE_ROLE_READER,
    "writer": pb.SPACE_ROLE_WRITER,
    "manager": pb.SPACE_ROLE_MANAGER,
}


async def new_space(tenant: Stubs, name: str) -> str:
    """Make a space."""
    request = pb.CreateSpaceRequest(space=pb.Space(display_name=name))
    return (await tenant.tenancy.CreateSpace(request)).space.space_id


async def grant(tenant: Stubs, space_id: str, principal: str, role: str = "writer", *, bind: bool = False) -> None:
    """Show a space to a principal."""
    message = pb.SpaceGrant(space_id=space_id, principal=principal, role=ROLES[role])
    await tenant.tenancy.GrantSpace(pb.GrantSpaceRequest(grant=message, bind=bind))


async def new_key(
    cluster: Cluster,
    tenant: Tenant,
    spaces: Iterable[str],
    role: str = "writer",
    *,
    bind: bool = False,
    permissions: Iterable[str] = AGENT_PERMISSIONS,
) -> tuple[str, str]:
    """Make a key that sees some spaces; return its principal and its secret, once auth knows of them."""
    made = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="spaces", permissions=sorted(permissions))
    )
    principal = f"api_key:{made.api_key.api_key_id}"
    for space_id in spaces:
        await grant(tenant, space_id, principal, role, bind=bind)
    async with cluster.superuser() as connection:
        # The first one would open ten seconds later.
        await connection.execute(
            "UPDATE tenancy.spaces SET open_time = create_time WHERE tenant_id = $1 AND open_time IS NOT NULL",
            tenant.tenant_id,
        )
    async with asyncio.timeout(30):
        # Auth remembers for a second that a tenant has no spaces.
        while "spaces" not in _claims(await identity(cluster, made.secret)):
            await asyncio.sleep(0.1)
    return principal, made.secret


def _claims(token: str) -> dict[str, object]:

    claims: dict[str, object] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims
