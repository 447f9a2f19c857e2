"""The session service without its neighbours, with settings of a test's choice."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID, uuid4

from fix_cluster import PATIENT, AuthorizedChannel
from fix_database import TestDatabase
from fix_external_postgres import database_settings, password_environment
from fix_identities import identity_settings, service_channel
from grpc import aio
from joserfc.jwk import OKPKey

from skein_cluster import registry
from skein_kit.host.process import Host, run_services
from skein_kit.identity import permissions as access
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token
from skein_kit.settings import ProcessSettings

KEY = OKPKey.generate_key("Ed25519", {"kid": "test"}, private=True)


@dataclass(frozen=True)
class SessionServer:
    """A session service that answers, and the database below it."""

    address: str
    database: TestDatabase
    tenant_id: UUID

    @asynccontextmanager
    async def channel(
        self, *, system: bool = False, tenant: bool = True, closed: bool = False
    ) -> AsyncIterator[aio.Channel]:
        permissions = access.SYSTEM_PERMISSIONS if system else access.TENANT_PERMISSIONS
        who = Caller(
            principal="system:worker" if system else "api_key:1",
            tenant_id=self.tenant_id if tenant else None,
            permissions=permissions,
            is_tenant_deleted=closed,
        )
        async with service_channel(self.address, "session") as channel:
            yield cast(
                "aio.Channel", AuthorizedChannel(channel, lambda: sign_identity_token(who, key=KEY, at=time.time())[0])
            )

    async def rows(self, statement: str) -> list[Any]:
        async with self.database.superuser() as connection:
            return await connection.fetch(statement)


@asynccontextmanager
async def run_session_server(
    database: TestDatabase, environment: Mapping[str, str], *, recall: str = "127.0.0.1:9"
) -> AsyncIterator[SessionServer]:
    """Run the session service alone; calls to the others fail, unless something is where recall is looked for."""
    settings = ProcessSettings(**identity_settings(), **database_settings(database.url), admin_port=0, **PATIENT)

    async def public_keys() -> dict[str, str]:
        return {"test": json.dumps(KEY.as_dict(private=False))}

    addresses = {"session": "127.0.0.1:0", "recall": recall, "auth": "127.0.0.1:9"}
    host = Host(
        settings=settings,
        environment={**password_environment(), **environment},
        schema_version=registry.migrations()[-1].number,
        addresses=addresses,
        _verifier=IdentityTokenVerifier(public_keys),
    )
    tenant_id = uuid4()
    async with database.superuser() as connection:
        organization_id = uuid4()
        await connection.execute(
            "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, 'o', 'o', now(), now())",
            organization_id,
        )
        await connection.execute(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, $2, 't', 't', now(), now())",
            tenant_id,
            organization_id,
        )
    async with run_services(registry.load(["session"]), host) as services:
        await services.wait_ready(60)
        yield SessionServer(address=addresses["session"], database=database, tenant_id=tenant_id)
