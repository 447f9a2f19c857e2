"""`python tests/bench/people.py`: what getting in costs, in a cluster of many tenants and accounts.

Nothing here is asserted. A `skein up` of its own gets 10,000 tenants with a key each and 100,000 accounts, all with one
password, written past the services; then people sign in and keys are presented through the gateway. Hashing has the
settings that it always has.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import sys
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import asyncpg
import click
import uvloop
from bench import processes, report
from bench.load import Limits, measured
from bench.loading import newest_check_key
from bench.subject import FORMS, data_folder, running
from grpc import aio
from joserfc.jwk import OKPKey

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc
from skein_auth.accounts.passwords import Passwords, QueueKey
from skein_auth.api_keys.model import ApiKeyToken
from skein_auth.settings import AuthSettings
from skein_gateway.identity.credential_cache import CachedIdentity, IdentityCache
from skein_kit.calls.call import Call
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token
from skein_kit.ids import new_id

if TYPE_CHECKING:
    from bench.subject import Subject

PASSWORD = "the password of everybody here"
_CHUNK = 10_000
_MICRO = 20_000


@click.command()
@click.option("--tenants", default=10_000, show_default=True)
@click.option("--accounts", default=100_000, show_default=True)
@click.option("--form", type=click.Choice(["one", "many"]), default="one", show_default=True)
def main(*, tenants: int, accounts: int, form: str) -> None:
    """Print sign-ins a second, and what knowing a caller costs."""
    uvloop.run(_bench(tenants, accounts, dict(zip(("one", "many"), FORMS, strict=True))[form]))


async def _bench(tenants: int, accounts: int, form: str) -> None:
    out = report.console()
    out.print(f"Load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.", style="dim")
    await _micro(out)
    with data_folder() as folder:
        async with running(folder, form) as subject:
            keys = await _fill(subject, tenants, accounts)
            out.print(f"{tenants:,} tenants with a key each, {accounts:,} accounts", style="dim")
            async with aio.insecure_channel(subject.addresses["gateway"]) as channel:
                await _measure(out, subject, channel, keys, accounts)


async def _micro(out: Any) -> None:
    """What a process spends on knowing the caller of one call, without any socket."""
    key = OKPKey.import_key({**OKPKey.generate_key("Ed25519", private=True).as_dict(private=True), "kid": "k"})
    caller = Caller(principal="api_key:1", tenant_id=uuid.uuid4(), permissions=frozenset({"memory.read"}))

    async def keys() -> dict[str, str]:
        return {"k": json.dumps(key.as_dict(private=False))}

    verifier = IdentityTokenVerifier(keys)
    tokens = [
        sign_identity_token(replace(caller, agent_id=str(number)), key=key, at=time.time())[0] for number in range(1000)
    ]
    # Neither is ever asked: everything is remembered.
    credentials = IdentityCache(None, verifier, None)  # type: ignore[arg-type]
    call = Call(path="/x/Y", metadata={"authorization": "Bearer skein_key"}, deadline=None, peer="")
    identity = CachedIdentity(caller=caller, token=tokens[0], ends=time.monotonic() + 3600, expires=math.inf)
    await verifier.verify(tokens[0])
    out.print(f"service, token seen before: {await _each(lambda: verifier.verify(tokens[0]), _MICRO):.1f} µs")
    fresh = iter(tokens[1:])
    out.print(f"service, new token (Ed25519): {await _each(lambda: verifier.verify(next(fresh)), 900):.0f} µs")
    credentials._cache = _Everything(identity)  # type: ignore[assignment]
    out.print(f"gateway, credential seen before: {await _each(lambda: credentials.identify(call), _MICRO):.1f} µs")


class _Everything(dict[bytes, CachedIdentity]):
    """Remembers every credential."""

    def __init__(self, identity: CachedIdentity) -> None:
        super().__init__()
        self._identity = identity

    def get(self, _key: bytes, _default: object = None) -> CachedIdentity:
        return self._identity

    def move_to_end(self, _key: bytes) -> None:
        """Do nothing."""


async def _each(make: Any, times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        await make()
    return (time.perf_counter() - started) / times * 1e6


async def _fill(subject: Subject, tenants: int, accounts: int) -> list[str]:
    """Write tenants, keys and accounts; return the keys."""
    at = datetime.now(UTC)
    connection = await asyncpg.connect(dsn=subject.database_url)
    try:
        organization_id = await connection.fetchval("SELECT organization_id FROM tenancy.organizations LIMIT 1")
        check_key = await newest_check_key(connection)
        made = [ApiKeyToken.new(new_id(at), new_id(at), check_key) for _ in range(tenants)]
        await connection.copy_records_to_table(
            "tenants",
            schema_name="tenancy",
            columns=["tenant_id", "organization_id", "display_name", "slug", "create_time", "update_time"],
            records=[(key.tenant_id, organization_id, "t", key.tenant_id.hex, at, at) for key in made],
        )
        columns = ["tenant_id", "api_key_id", "display_name", "permissions", "secret_hash", "create_time", "created_by"]
        await connection.copy_records_to_table(
            "api_keys",
            schema_name="auth",
            columns=columns,
            records=[(key.tenant_id, key.key_id, "k", ["memory.read"], key.secret_hash(), at, "bench") for key in made],
        )
        async with Passwords.open(AuthSettings.read(subject_environment())) as passwords:
            password_hash = await passwords.hash(PASSWORD, QueueKey.of_source("bench"))
        for start in range(0, accounts, _CHUNK):
            await connection.copy_records_to_table(
                "accounts",
                schema_name="auth",
                columns=[
                    "account_id",
                    "email",
                    "password_hash",
                    "display_name",
                    "status",
                    "create_time",
                    "update_time",
                ],
                records=[
                    (new_id(at), f"person{number}@example.org", password_hash, "p", "active", at, at)
                    for number in range(start, min(start + _CHUNK, accounts))
                ],
            )
        await connection.execute("ANALYZE")
    finally:
        await connection.close()
    return [key.encode() for key in made]


def subject_environment() -> dict[str, str]:
    """Return the settings that the cluster has: none of the developer's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}


async def _measure(out: Any, subject: Subject, channel: aio.Channel, keys: list[str], accounts: int) -> None:
    stub = auth_pb2_grpc.AuthServiceStub(channel)
    people = itertools.count()
    tokens: list[str] = []

    async def sign_in(_number: int) -> None:
        person = next(people) * 7919 % accounts
        request = accounts_pb2.SignInRequest(email=f"person{person}@example.org", password=PASSWORD)
        tokens.append((await stub.SignIn(request)).tokens.refresh_token)

    async def refresh(number: int) -> None:
        token = tokens[number % len(tokens)]
        tokens[number % len(tokens)] = (
            await stub.RefreshSession(accounts_pb2.RefreshSessionRequest(refresh_token=token))
        ).tokens.refresh_token

    async def new_key(number: int) -> None:
        await stub.GetMe(auth_pb2.GetMeRequest(), metadata=(("authorization", f"Bearer {keys[number % len(keys)]}"),))

    async def same_key(_number: int) -> None:
        await stub.GetMe(auth_pb2.GetMeRequest(), metadata=(("authorization", f"Bearer {keys[0]}"),))

    for name, work, in_flight, limits in (
        ("SignIn", sign_in, 1, Limits(calls=60, seconds=10)),
        ("SignIn", sign_in, 4, Limits(calls=200, seconds=10)),
        ("RefreshSession", refresh, 1, Limits(calls=200, seconds=10)),
        ("GetMe, a key not seen before", new_key, 1, Limits(calls=1000, seconds=10)),
        ("GetMe, a key not seen before", new_key, 8, Limits(calls=4000, seconds=10)),
        ("GetMe, the same key", same_key, 1, Limits(calls=2000, seconds=10)),
    ):
        figures = await measured(
            work,
            itertools.count(),
            in_flight=in_flight,
            limits=limits,
            server_cpu=lambda: processes.cpu_seconds(subject.pid),
        )
        times = f"p50 {figures.p50:.1f} ms, p95 {figures.p95:.1f} ms"
        out.print(f"{name}, {in_flight} in flight: {figures.per_second:,.0f}/s, {times}")
        await asyncio.sleep(0)


if __name__ == "__main__":
    main()
