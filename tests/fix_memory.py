"""The memory service by itself on a database of its own: its neighbours are away, identities come from the test."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from fix_cluster import PATIENT, AuthorizedChannel
from fix_database import TestDatabase
from fix_external_postgres import database_settings, password_environment
from fix_identities import identity_settings, service_channel
from grpc import aio
from joserfc.jwk import OKPKey

from skein.memory.v1 import memory_pb2
from skein_cluster import registry
from skein_kit.host.process import Host, run_services
from skein_kit.identity import permissions
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token
from skein_kit.settings import ProcessSettings

KEY = OKPKey.generate_key("Ed25519", {"kid": "test"}, private=True)


@dataclass(frozen=True)
class MemoryServer:
    """A memory service that answers, and the database below it."""

    database: TestDatabase
    tenant_id: UUID
    # Where it keeps what is no table.
    folder: Path
    address: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self, **environment: str) -> AsyncIterator[None]:
        """Run the service with these settings while the block runs."""

        async def public_keys() -> dict[str, str]:
            return {"test": json.dumps(KEY.as_dict(private=False))}

        addresses = {"memory": "127.0.0.1:0", "recall": "127.0.0.1:9", "auth": "127.0.0.1:9"}
        host = Host(
            settings=ProcessSettings(
                **identity_settings(), **database_settings(self.database.url), admin_port=0, **PATIENT
            ),
            environment={**password_environment(), "SKEIN_DATA_DIR": str(self.folder), **environment},
            schema_version=registry.migrations()[-1].number,
            addresses=addresses,
            _verifier=IdentityTokenVerifier(public_keys),
        )
        async with run_services(registry.load(["memory"]), host) as services:
            await services.wait_ready(60)
            self.address[:] = [addresses["memory"]]
            yield

    @asynccontextmanager
    async def channel(
        self, *, system: bool = False, tenant: bool = True, closed: bool = False, agent_id: str = ""
    ) -> AsyncIterator[aio.Channel]:
        who = Caller(
            principal="system:worker" if system else "api_key:1",
            tenant_id=self.tenant_id if tenant else None,
            permissions=permissions.SYSTEM_PERMISSIONS if system else permissions.TENANT_PERMISSIONS,
            is_tenant_deleted=closed,
            agent_id=agent_id,
        )
        async with service_channel(self.address[0], "memory") as channel:
            yield cast(
                "aio.Channel", AuthorizedChannel(channel, lambda: sign_identity_token(who, key=KEY, at=time.time())[0])
            )

    async def rows(self, statement: str) -> list[Any]:
        async with self.database.superuser() as connection:
            return await connection.fetch(statement)


@pytest.fixture
async def memory_server(database: TestDatabase, tmp_path: Path) -> MemoryServer:
    """A tenant in a fresh database; the test starts the service."""
    tenant_id, organization_id = uuid4(), uuid4()
    async with database.superuser() as connection:
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
    return MemoryServer(database=database, tenant_id=tenant_id, folder=tmp_path)


def stored(memory: memory_pb2.Memory) -> memory_pb2.Memory:
    """Return what is stored of a memory, without what is reckoned when it is read."""
    kept = memory_pb2.Memory()
    kept.CopyFrom(memory)
    for name in ("scores", "access_count", "last_access_time"):
        kept.ClearField(name)
    return kept
