"""The tenancy service without its neighbours: who calls is signed with a key of the test's own."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from uuid import UUID, uuid4

import pytest
from fix_cluster import AuthorizedChannel
from fix_database import TestDatabase, fresh_database
from fix_external_postgres import database_settings, password_environment
from fix_identities import identity_settings, service_channel
from grpc import aio
from joserfc.jwk import OKPKey

from skein.tenancy.v1 import members_pb2, tenancy_pb2, tenancy_pb2_grpc
from skein_cluster import registry
from skein_cluster.embedded.server import Server
from skein_kit.host.process import Host, run_services
from skein_kit.identity import permissions as access
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token
from skein_kit.settings import ProcessSettings

KEY = OKPKey.generate_key("Ed25519", {"kid": "test"}, private=True)
OPERATOR = Caller(principal="operator:1", tenant_id=None, permissions=frozenset(access.OPERATOR_PERMISSIONS))
SYSTEM = Caller(principal="system:auth", tenant_id=None, permissions=access.SYSTEM_PERMISSIONS)
ROLES = {
    "viewer": members_pb2.ROLE_VIEWER,
    "member": members_pb2.ROLE_MEMBER,
    "admin": members_pb2.ROLE_ADMIN,
    "owner": members_pb2.ROLE_OWNER,
}


@dataclass(frozen=True)
class Person:
    """A person with an account."""

    account_id: UUID
    email: str

    @classmethod
    def new(cls) -> Person:
        account_id = uuid4()
        return cls(account_id, f"{account_id.hex[:12]}@example.com")

    def caller(self, tenant_id: UUID | None = None, role: str = "") -> Caller:
        """Return the person's own sign-in, in a tenant or in none."""
        permissions = access.ROLE_PERMISSIONS[role] if role else frozenset({"tenant.read"})
        return Caller(
            principal=f"account:{self.account_id}",
            tenant_id=tenant_id,
            permissions=permissions | {access.ACCOUNT, access.CREATE_TENANT},
            account_id=self.account_id,
            role=role,
            email=self.email,
        )


@dataclass(frozen=True)
class Tenancy:
    """A tenancy service that answers; each call says who makes it."""

    database: TestDatabase
    address: str
    channel: aio.Channel

    def calls(self, who: Caller) -> tenancy_pb2_grpc.TenancyServiceAsyncStub:
        return tenancy_pb2_grpc.TenancyServiceStub(self._signed(who))

    def internal(self, who: Caller = SYSTEM) -> tenancy_pb2_grpc.TenancyInternalServiceAsyncStub:
        return tenancy_pb2_grpc.TenancyInternalServiceStub(self._signed(who))

    async def new_tenant(self) -> UUID:
        """Make a tenant without an owner."""
        request = tenancy_pb2.CreateTenantRequest(tenant=tenancy_pb2.Tenant(display_name=f"t {uuid4().hex}"))
        return UUID((await self.calls(OPERATOR).CreateTenant(request)).tenant.tenant_id)

    async def invited(self, tenant_id: UUID, email: str, role: str) -> str:
        """Return the token of a new invitation by the operator."""
        request = members_pb2.CreateInvitationRequest(email=email, role=ROLES[role])
        return (await self.calls(operator_in(tenant_id)).CreateInvitation(request)).token

    async def joined(self, tenant_id: UUID, role: str, person: Person | None = None) -> Person:
        """Return a person who has just become a member."""
        person = person or Person.new()
        token = await self.invited(tenant_id, person.email, role)
        await self.calls(person.caller()).AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))
        return person

    async def roles(self, tenant_id: UUID) -> dict[UUID, str]:
        listed = await self.calls(operator_in(tenant_id)).ListMembers(members_pb2.ListMembersRequest(page_size=1000))
        names = {value: name for name, value in ROLES.items()}
        return {UUID(member.account_id): names[member.role] for member in listed.members}

    def _signed(self, who: Caller) -> aio.Channel:
        return cast(
            "aio.Channel", AuthorizedChannel(self.channel, lambda: sign_identity_token(who, key=KEY, at=time.time())[0])
        )


def operator_in(tenant_id: UUID) -> Caller:
    return Caller(principal="operator:1", tenant_id=tenant_id, permissions=frozenset(access.OPERATOR_PERMISSIONS))


def key_of(tenant_id: UUID, *permissions: str) -> Caller:
    """Return a tenant's key with these permissions, or with all."""
    granted = frozenset(permissions) or access.TENANT_PERMISSIONS
    return Caller(principal="api_key:1", tenant_id=tenant_id, permissions=granted)


@asynccontextmanager
async def serving(database: TestDatabase, **environment: str) -> AsyncIterator[Tenancy]:
    """Run the service with these settings while the block runs."""

    async def public_keys() -> dict[str, str]:
        return {"test": json.dumps(KEY.as_dict(private=False))}

    addresses = {"tenancy": "127.0.0.1:0", "auth": "127.0.0.1:9"}
    host = Host(
        settings=ProcessSettings(**identity_settings(), **database_settings(database.url), admin_port=0),
        environment={**password_environment(), "SKEIN_CANARY_SECONDS": "0", **environment},
        schema_version=registry.migrations()[-1].number,
        addresses=addresses,
        _verifier=IdentityTokenVerifier(public_keys),
    )
    async with run_services(registry.load(["tenancy"]), host) as services:
        await services.wait_ready(60)
        async with service_channel(addresses["tenancy"], "tenancy") as channel:
            yield Tenancy(database, addresses["tenancy"], channel)


@asynccontextmanager
async def with_organization(database: TestDatabase) -> AsyncIterator[Tenancy]:
    """Run the service with one organization while the block runs."""
    async with serving(database) as result:
        request = tenancy_pb2.CreateOrganizationRequest(organization=tenancy_pb2.Organization(slug="default"))
        await result.calls(OPERATOR).CreateOrganization(request)
        yield result


@pytest.fixture
async def tenancy(database: TestDatabase) -> AsyncIterator[Tenancy]:
    """A tenancy service of the test's own."""
    async with with_organization(database) as result:
        yield result


@pytest.fixture(scope="module")
async def shared_tenancy(server: Server, template: str) -> AsyncIterator[Tenancy]:
    """A tenancy service for tests that look at tenants of their own alone."""
    async with fresh_database(server, template) as database, with_organization(database) as result:
        yield result
