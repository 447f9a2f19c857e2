"""Forged credentials, at a rate that no honest caller has.

Attack: well-formed API keys, legacy tokens and access tokens are invented and sent by the thousand from one address.
May be seen: UNAUTHENTICATED, or RATE_LIMITED with a time to wait; genuine keys work from the same address meanwhile.
May be spent: no transaction for what the cluster cannot have made; the source's tokens for what only auth can tell;
one audit event a minute for each source.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg
import grpc
import httpx
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant, refused
from fix_gateway import gateway_before
from fix_http import TLS
from fix_metrics import counted
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio
from joserfc import jwt
from joserfc.jwk import RSAKey

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc
from skein_auth.api_keys.model import ApiKeyToken
from skein_auth.signing.keyring import UNKNOWN_KEY_SECONDS
from skein_kit.database.transactions import NO_TENANT
from skein_kit.ids import new_id, now

INVALID = (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID")
# More calls than these at once are refused by admission control before their credential is read.
AT_ONCE = 50
# Of a gateway of its own: so few that a small flood shows what becomes of it on a machine of any speed.
UNPROVEN_PER_SECOND = 4
GET_ME = "/skein.auth.v1.AuthService/GetMe"
# What any other test of this cluster is refused is counted under 127.0.0.1.
_addresses = iter(f"127.7.{high}.{low}" for high in range(1, 250) for low in range(1, 250))


@pytest.fixture
async def database(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with cluster.superuser() as connection:
        yield connection


@pytest.fixture
def address() -> str:
    """An address of this machine that no other test calls from."""
    return next(_addresses)


@asynccontextmanager
async def calling_from(origin: str, address: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.AsyncHTTPTransport(verify=TLS, local_address=address, limits=httpx.Limits(max_connections=16))
    async with httpx.AsyncClient(
        base_url=f"http://{origin}", transport=transport, trust_env=False, timeout=60
    ) as client:
        yield client


async def answers(client: httpx.AsyncClient, credentials: Iterable[str]) -> list[int]:
    """Return the HTTP status that each credential gets, in order."""
    turns = asyncio.Semaphore(16)

    async def one(credential: str) -> int:
        async with turns:
            headers = {"authorization": f"Bearer {credential}"}
            return (await client.post(GET_ME, json={}, headers=headers)).status_code

    return list(await asyncio.gather(*[one(credential) for credential in credentials]))


def queries(*names: str) -> float:
    """Return how often auth made some named queries."""
    return sum(counted("skein_database_query_duration_seconds_count", service="auth", query=name) for name in names)


def lookups() -> float:
    return queries("find_api_key", "find_operator_key", "find_legacy_token")


async def events_from(database: asyncpg.Connection[asyncpg.Record], address: str) -> int:
    """Return the audit events of refused credentials of one address, in no tenant."""
    count: int = await database.fetchval(
        "SELECT count(*) FROM auth.audit_events WHERE tenant_id = $1 AND event = 'credential_refused' AND address = $2",
        NO_TENANT, address,
    )  # fmt: skip
    return count


def invented(tenant: Tenant, count: int) -> list[str]:
    """Return well-formed keys that name a real tenant, with check digits of the attacker's own."""
    return [ApiKeyToken.new(tenant.tenant_id, uuid.uuid4(), b"a key of my own").encode() for _ in range(count)]


def without_check_digits(tenant: Tenant, count: int) -> list[str]:
    return [ApiKeyToken.new(tenant.tenant_id, uuid.uuid4()).encode() for _ in range(count)]


@pytest.mark.system
async def test_invented_keys_cost_neither_a_query_nor_an_event_each(
    cluster: Cluster, tenant: Tenant, address: str, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    forged = invented(tenant, attack_size(100, 20_000))
    before = lookups()

    async with calling_from(cluster.addresses["http"], address) as client:
        actual_answers = await answers(client, forged)
        # A key that was not seen before, from the same address.
        fresh = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="honest"))
        assert await answers(client, [fresh.secret]) == [200]

    assert set(actual_answers) == {401}
    # Genuine keys are exchanged again as often as the gateway forgets them.
    assert lookups() - before < len(forged) / 2
    # The minute of the first may end meanwhile.
    assert 1 <= await events_from(database, address) <= attack_size(2, 5)


@pytest.mark.system
async def test_auth_itself_refuses_invented_keys_without_a_query(cluster: Cluster, tenant: Tenant) -> None:
    before, forged = lookups(), invented(tenant, attack_size(100, 5_000))

    async with cluster.direct("auth") as channel:
        identity = auth_pb2_grpc.AuthInternalServiceStub(channel)
        for key in forged:
            with refused(*INVALID):
                await identity.Exchange(auth_pb2.ExchangeRequest(bearer=key))

    # Those are of genuine keys that something else in the cluster calls with.
    assert lookups() - before < len(forged) / 2


@pytest.mark.system
async def test_credentials_that_only_auth_can_check_cost_their_source_alone(cluster: Cluster, tenant: Tenant) -> None:
    # Half as many again as one source may present at once.
    count = attack_size(15 * UNPROVEN_PER_SECOND, 20_000)
    kinds = {
        "keys without check digits": without_check_digits(tenant, count),
        "legacy tokens": [uuid.uuid4().hex for _ in range(count)],
        "tokens of unknown signing keys": tokens(count),
    }
    legacy = uuid.uuid4().hex
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    await acting.auth.SetLegacyToken(accounts_pb2.SetLegacyTokenRequest(token=legacy))

    limit = str(UNPROVEN_PER_SECOND)
    async with gateway_before(cluster, tenant, {}, SKEIN_ADVANCED_UNPROVEN_CREDENTIALS_PER_SECOND=limit) as gateway:
        for kind, forged in kinds.items():
            origin = gateway.host.addresses["http"]
            genuine = (await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="honest"))).secret
            async with (
                calling_from(origin, next(_addresses)) as client,
                calling_from(origin, next(_addresses)) as other,
            ):
                assert await answers(client, [legacy]) == [200], kind
                started = time.monotonic()
                actual_answers = await answers(client, forged)

                judged = actual_answers.count(401)
                assert judged + actual_answers.count(429) == count, kind
                assert judged <= UNPROVEN_PER_SECOND * (10 + time.monotonic() - started) + 1, kind
                # From the flooded address: a genuine key that was never seen, a legacy token that was good before.
                assert await answers(client, [genuine, legacy]) == [200, 200], kind
                # From another one: a key that the gateway has to ask for.
                assert await answers(other, without_check_digits(tenant, 1)) == [401], kind


def tokens(count: int) -> list[str]:
    """Return access tokens of signing keys that auth never had."""
    key = RSAKey.generate_key(2048)
    return [
        jwt.encode({"alg": "RS256", "typ": "at+jwt", "kid": uuid.uuid4().hex}, {"sub": "x"}, key, algorithms=["RS256"])
        for _ in range(count)
    ]


@pytest.mark.system
async def test_tokens_that_name_our_signing_key_need_its_signature(cluster: Cluster, address: str) -> None:
    purpose = auth_pb2.SIGNING_KEY_PURPOSE_ACCESS
    keys = await cluster.anonymous.auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest(purpose=purpose))
    key = RSAKey.generate_key(2048)
    header = {"alg": "RS256", "typ": "at+jwt", "kid": keys.signing_keys[0].key_id}
    count = attack_size(40, 5_000)
    forged = [jwt.encode(header, {"jti": str(n)}, key, algorithms=["RS256"]) for n in range(count)]
    names = ("get_auth_session_state", "list_signing_keys", "find_api_key")
    before = queries(*names)

    async with calling_from(cluster.addresses["http"], address) as client:
        actual_answers = await answers(client, forged)

    assert set(actual_answers) == {401}
    assert queries(*names) - before < count / 2


@pytest.mark.system
async def test_unknown_signing_keys_make_auth_read_its_own_a_few_times_a_second(cluster: Cluster) -> None:
    forged = tokens(attack_size(40, 2_000))
    before, started = queries("list_signing_keys"), time.monotonic()

    async with cluster.direct("auth") as channel:
        identity = auth_pb2_grpc.AuthInternalServiceStub(channel)
        results: list[object] = []
        for start in range(0, len(forged), AT_ONCE):
            group = forged[start : start + AT_ONCE]
            calls = [identity.Exchange(auth_pb2.ExchangeRequest(bearer=token)) for token in group]
            results += await asyncio.gather(*calls, return_exceptions=True)

    assert {error.code() for error in results if isinstance(error, aio.AioRpcError)} == {
        grpc.StatusCode.UNAUTHENTICATED
    }
    # The second half is what other services read for identities.
    most = 2 * (time.monotonic() - started) / UNKNOWN_KEY_SECONDS + 2
    assert queries("list_signing_keys") - before <= most


@pytest.mark.system
async def test_a_revoked_key_costs_one_look_however_often_it_comes(cluster: Cluster, tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="ended"))
    await tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=made.api_key.api_key_id))
    before, started = lookups(), time.monotonic()

    async with cluster.direct("auth") as channel:
        identity = auth_pb2_grpc.AuthInternalServiceStub(channel)
        for _ in range(attack_size(100, 5_000)):
            with refused(*INVALID):
                await identity.Exchange(auth_pb2.ExchangeRequest(bearer=made.secret))

    # Beside the key of the assistants, which the gateway exchanges again every few seconds.
    assert lookups() - before <= 2 + (time.monotonic() - started) * 2 / 3


async def test_a_disabled_service_account_that_is_enabled_again_is_let_in_at_once(
    cluster: Cluster, tenant: Tenant
) -> None:
    account = (
        await tenant.auth.CreateServiceAccount(
            accounts_pb2.CreateServiceAccountRequest(
                service_account=accounts_pb2.ServiceAccount(
                    display_name="robot", permissions=["memory.read"], disabled=True
                )
            )
        )
    ).service_account
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="robot", service_account_id=account.service_account_id)
    )
    calling = cluster.with_key(key.secret)
    with refused(*INVALID):
        await calling.auth.GetMe(auth_pb2.GetMeRequest())

    account.disabled = False
    change = accounts_pb2.UpdateServiceAccountRequest(
        service_account=account, update_mask=FieldMask(paths=["disabled"])
    )
    await tenant.auth.UpdateServiceAccount(change)

    assert await calling.auth.GetMe(auth_pb2.GetMeRequest())


async def test_keys_of_before_check_digits_work_and_get_them_when_they_are_rotated(
    cluster: Cluster, tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    old = ApiKeyToken.new(tenant.tenant_id, new_id(now()))
    await database.execute(
        "INSERT INTO auth.api_keys"
        " (tenant_id, api_key_id, display_name, permissions, secret_hash, create_time, created_by)"
        " VALUES ($1, $2, 'old', '{memory.read,keys.write}', $3, now(), 'test')",
        tenant.tenant_id, old.key_id, old.secret_hash(),
    )  # fmt: skip
    calling = cluster.with_key(old.encode())

    assert (await calling.auth.GetMe(auth_pb2.GetMeRequest())).principal == f"api_key:{old.key_id}"
    rotated = await calling.auth.RotateApiKey(accounts_pb2.RotateApiKeyRequest(api_key_id=str(old.key_id)))

    key = ApiKeyToken.parse(rotated.secret)
    assert key is not None
    assert key.mac
    assert await cluster.with_key(rotated.secret).auth.GetMe(auth_pb2.GetMeRequest())


async def test_a_new_check_key_makes_no_digits_before_every_replica_knows_it(
    tenant: Tenant, database: asyncpg.Connection[asyncpg.Record]
) -> None:
    before = [row["secret"] for row in await database.fetch("SELECT secret FROM auth.check_keys")]
    newest = await database.fetchval("INSERT INTO auth.check_keys DEFAULT VALUES RETURNING secret")

    try:
        made = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="made meanwhile"))
    finally:
        # Minutes later it would make the digits of all keys of later tests.
        await database.execute("DELETE FROM auth.check_keys WHERE secret = $1", newest)

    key = ApiKeyToken.parse(made.secret)
    assert key is not None
    assert key.has_valid_mac(before)
    assert not key.has_valid_mac([newest])
