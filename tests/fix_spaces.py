"""Spaces of a tenant, and keys that see some of them."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import grpc
from fix_cluster import Cluster, Stubs, Tenant
from fix_world import identity

from skein.auth.v1 import auth_pb2
from skein.tenancy.v1 import spaces_pb2 as pb
from skein_kit.identity.permissions import AGENT_PERMISSIONS, TENANT_PERMISSIONS

SPACE_KEY = "skein-space-id"
ALL = sorted(TENANT_PERMISSIONS)
ROLES = {
    "reader": pb.SPACE_ROLE_READER,
    "writer": pb.SPACE_ROLE_WRITER,
    "manager": pb.SPACE_ROLE_MANAGER,
}


@dataclass(frozen=True)
class House:
    """A tenant with two spaces, and keys with every permission.

    One is the doctor's, one the cook's, and one is bound to the cook's space.
    """

    cluster: Cluster
    tenant: Tenant
    clinic_id: str
    kitchen_id: str
    doctor_principal: str
    doctor_secret: str
    cook_secret: str
    bound_secret: str

    @property
    def doctor(self) -> Stubs:
        """Sees the default space and the clinic, and writes in the clinic."""
        return self.cluster.with_key(self.doctor_secret, **{SPACE_KEY: self.clinic_id})

    @property
    def cook(self) -> Stubs:
        """Sees the default space and the kitchen."""
        return self.cluster.with_key(self.cook_secret)

    @property
    def bound(self) -> Stubs:
        """Sees the kitchen alone."""
        return self.cluster.with_key(self.bound_secret)

    async def revoke_doctor(self) -> None:
        """Take the clinic from the doctor, and wait until the gateway has noticed."""
        await self.tenant.tenancy.RevokeSpaceGrant(
            pb.RevokeSpaceGrantRequest(space_id=self.clinic_id, principal=self.doctor_principal)
        )
        async with asyncio.timeout(30):
            while True:
                try:
                    await self.doctor.list_memories()
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.NOT_FOUND:
                        raise
                    return
                await asyncio.sleep(0.1)

    @classmethod
    async def new(cls, tenant: Tenant, cluster: Cluster) -> House:
        """Make the spaces and the keys."""
        clinic_id, kitchen_id = await first_spaces(cluster, tenant, "clinic", "kitchen")
        doctor_principal, doctor = await new_key(cluster, tenant, [clinic_id], permissions=ALL)
        _, cook = await new_key(cluster, tenant, [kitchen_id], permissions=ALL)
        _, bound = await new_key(cluster, tenant, [kitchen_id], bind=True, permissions=ALL)
        # The gateway remembers for some seconds that the tenant's own key sees no spaces.
        _, owner = await new_key(cluster, tenant, [], permissions=ALL)
        channel = cluster.with_key(owner).channel
        return cls(
            cluster=cluster,
            tenant=Tenant(channel=channel, tenant_id=tenant.tenant_id, api_key=owner),
            clinic_id=clinic_id,
            kitchen_id=kitchen_id,
            doctor_principal=doctor_principal,
            doctor_secret=doctor,
            cook_secret=cook,
            bound_secret=bound,
        )


async def first_spaces(cluster: Cluster, tenant: Tenant, *names: str) -> list[str]:
    """Make the first spaces of a tenant that has made no call yet.

    Auth remembers for a second that a tenant has no spaces. Another one stands there at the first call.
    """
    other = uuid.uuid4()
    async with cluster.superuser() as connection:
        await connection.execute(
            """
            INSERT INTO tenancy.spaces
                (tenant_id, space_id, display_name, create_time, update_time, created_by, updated_by, open_time)
            VALUES ($1, $2, $3, now(), now(), 'test', 'test', now())
            """,
            tenant.tenant_id,
            other,
            str(other),
        )
        space_ids = [await new_space(tenant, name) for name in names]
        await connection.execute(
            "DELETE FROM tenancy.spaces WHERE tenant_id = $1 AND space_id = $2", tenant.tenant_id, other
        )
    return space_ids


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
    agent_id: str = "",
) -> tuple[str, str]:
    """Make a key that sees some spaces; return its principal and its secret, once auth knows of them."""
    made = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="spaces", permissions=sorted(permissions), agent_id=agent_id)
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
