"""An auth service of a test's own, on a fresh database: with the test's settings, and without its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from fix_cluster import SYSTEM_KEY, AuthorizedChannel, Cluster, Tenant
from fix_database import TestDatabase
from fix_external_postgres import database_settings, password_environment
from fix_identities import identity_settings, service_channel
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2
from skein_auth.attempts import limiter
from skein_cluster import registry
from skein_kit.host.process import Host, run_services
from skein_kit.settings import ProcessSettings

PASSWORD = "correct horse battery"
_OPEN = {
    # The issuer that tokens name; no client resolves it.
    "SKEIN_ISSUER": "https://skein.test",
    # As little work as argon2 can do: these tests are not about it.
    "SKEIN_SIGN_UP": "open",
    "SKEIN_ADVANCED_PASSWORD_HASH_MEMORY_KIB": "8",
}


@dataclass(frozen=True)
class Person:
    """A person who signed in."""

    auth: auth_pb2_grpc.AuthServiceAsyncStub
    account_id: UUID
    email: str


@dataclass(frozen=True)
class AuthServer:
    """An auth service that answers, and the database below it."""

    channel: aio.Channel
    database: TestDatabase
    host: Host

    @property
    def anonymous(self) -> auth_pb2_grpc.AuthServiceAsyncStub:
        return auth_pb2_grpc.AuthServiceStub(self.channel)

    async def sign_up(self) -> Person:
        """Sign a new person up and in, whose password is PASSWORD."""
        email = f"{uuid4().hex}@example.com"
        await self.anonymous.SignUp(pb.SignUpRequest(email=email, password=PASSWORD, display_name="Ann"))
        signed_in = await self.sign_in(email)
        return await self.person(signed_in.tokens, signed_in.account)

    async def sign_in(self, email: str, second_factor: str = "", password: str = PASSWORD) -> pb.SignInResponse:
        return await self.anonymous.SignIn(
            pb.SignInRequest(email=email, password=password, second_factor=second_factor)
        )

    async def person(self, tokens: pb.SignInTokens, account: pb.Account) -> Person:
        """Return who has these tokens: their calls come with what the gateway would exchange the tokens for."""
        exchanged = await auth_pb2_grpc.AuthInternalServiceStub(self.channel).Exchange(
            auth_pb2.ExchangeRequest(bearer=tokens.access_token)
        )
        channel = cast("aio.Channel", AuthorizedChannel(self.channel, exchanged.token))
        return Person(auth_pb2_grpc.AuthServiceStub(channel), UUID(account.account_id), account.email)

    async def rows(self, statement: str, *values: object) -> list[Any]:
        async with self.database.superuser() as connection:
            return await connection.fetch(statement, *values)


@asynccontextmanager
async def run_auth_server(
    database: TestDatabase, *, system_key: str = SYSTEM_KEY, **environment: str
) -> AsyncIterator[AuthServer]:
    """Run an auth service with these settings until the block ends."""
    running = _running(database, environment, **identity_settings(), system_key=system_key)
    async with running as (host, address), service_channel(address, "auth") as channel:
        yield AuthServer(channel=channel, database=database, host=host)


@asynccontextmanager
async def run_plain_auth_server(database: TestDatabase) -> AsyncIterator[AuthServer]:
    """Run an auth service whose port asks for no certificate, as that of `skein up`."""
    running = _running(database, {}, system_key=SYSTEM_KEY)
    async with running as (host, address), aio.insecure_channel(address) as channel:
        yield AuthServer(channel=channel, database=database, host=host)


@asynccontextmanager
async def _running(
    database: TestDatabase, environment: Mapping[str, str], **settings: Any
) -> AsyncIterator[tuple[Host, str]]:
    addresses = {"auth": "127.0.0.1:0", "tenancy": "127.0.0.1:9"}
    host = Host(
        settings=ProcessSettings(**database_settings(database.url), admin_port=0, **settings),
        environment={**password_environment(), **_OPEN, **environment},
        schema_version=registry.migrations()[-1].number,
        addresses=addresses,
    )
    with pytest.MonkeyPatch.context() as patch:
        # A module's people sign up within the hour.
        patch.setattr(limiter, "SIGN_UPS", 1000)
        async with run_services(registry.load(["auth"]), host) as services:
            await services.wait_ready(60)
            yield host, addresses["auth"]


async def let_in_again(cluster: Cluster, tenant: Tenant) -> None:
    """Wait until callers get tokens of the new key after one has ended: the gateway caches identities for seconds."""
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
                await cluster.operator.auth.GetMe(auth_pb2.GetMeRequest())
            except aio.AioRpcError:
                continue
            break
