from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest
from fix_auth import let_in_again
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant
from fix_identities import identity_settings, service_channel
from grpc import aio
from joserfc import jws

from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_auth import service
from skein_auth.api_keys.bootstrap import OperatorKeyRefused, ensure_operator_key
from skein_auth.api_keys.model import ApiKeyToken
from skein_auth.encryption import DecryptionError, SecretCipher
from skein_auth.settings import SystemKeys
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_cluster import registry
from skein_cluster.embedded.databases import create_database
from skein_kit.database.schema_migrations import migrate
from skein_kit.database.transactions import NO_TENANT, Database
from skein_kit.host.process import Host, run_services
from skein_kit.settings import ProcessSettings, SettingInvalid


def key_id_of(token: str) -> str:
    return str(jws.extract_compact(token.encode()).headers()["kid"])


@pytest.fixture
async def url(cluster: Cluster) -> str:
    """A database of the test's own, migrated and empty."""
    name = f"auth_{uuid.uuid4().hex[:12]}"
    await create_database(cluster.postgres, name)
    url = cluster.postgres.url(user="postgres", database=name)
    await migrate(url, registry.migrations(), registry.WITH_DATABASE)
    return url


@asynccontextmanager
async def keyring(url: str, system_keys: SystemKeys) -> AsyncIterator[Keyring]:
    async with Database.open(url, service="auth", size=2, timeout=30.0) as database:
        yield Keyring(SigningKeyStore(database), SecretCipher(system_keys))


@asynccontextmanager
async def replica(cluster: Cluster, **environment: str) -> AsyncIterator[aio.Channel]:
    """Run another auth beside the cluster's own, over the same database."""
    values = {**cluster.environment, **environment}
    url = cluster.postgres.url(user="postgres", database="skein")
    host = Host(
        settings=ProcessSettings(database_url=url, system_key=SYSTEM_KEY, admin_port=0, **identity_settings()),
        environment=values,
        schema_version=registry.migrations()[-1].number,
        addresses={**cluster.addresses, "auth": "127.0.0.1:0"},
    )
    async with run_services([service.SERVICE], host) as here:
        await here.wait_ready(10)
        async with service_channel(host.addresses["auth"], "auth") as channel:
            yield channel


async def listed(cluster: Cluster) -> list[pb.SigningKey]:
    return list((await cluster.anonymous.auth.ListSigningKeys(pb.ListSigningKeysRequest())).signing_keys)


# Rotation


async def test_public_keys_are_listed_without_their_private_halves(cluster: Cluster) -> None:
    keys = await listed(cluster)

    active = json.loads(keys[0].jwk)
    assert not keys[0].HasField("expire_time")
    assert (active["kty"], active["crv"], active["kid"]) == ("OKP", "Ed25519", keys[0].key_id)
    assert all("d" not in json.loads(key.jwk) for key in keys)


async def test_after_a_rotation_old_tokens_go_on_and_new_ones_use_the_new_key(cluster: Cluster, tenant: Tenant) -> None:
    async with cluster.direct("auth") as channel:
        identity = rpc.AuthInternalServiceStub(channel)
        old = (await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key))).token

        rotated = await cluster.operator.auth.RotateSigningKey(pb.RotateSigningKeyRequest())
        new = (await identity.Exchange(pb.ExchangeRequest(bearer=tenant.api_key))).token

        for token in (old, new):
            stub = rpc.AuthServiceStub(Stubs.of(channel, token).channel)
            assert (await stub.GetMe(pb.GetMeRequest())).tenant_id == str(tenant.tenant_id)

    keys = {key.key_id: key for key in await listed(cluster)}
    assert key_id_of(new) == rotated.signing_key.key_id
    assert key_id_of(old) != key_id_of(new)
    replaced = keys[key_id_of(old)]
    overlap = replaced.expire_time.seconds - rotated.signing_key.create_time.seconds
    assert 119 <= overlap <= 121
    assert next(iter(keys)) == rotated.signing_key.key_id


async def test_concurrent_rotations_leave_one_key_that_signs(cluster: Cluster) -> None:
    rotated = await asyncio.gather(
        *(cluster.operator.auth.RotateSigningKey(pb.RotateSigningKeyRequest()) for _ in range(5))
    )

    keys = await listed(cluster)
    active = [key.key_id for key in keys if not key.HasField("expire_time")]
    assert len(active) == 1
    assert {answer.signing_key.key_id for answer in rotated} <= {key.key_id for key in keys}


async def test_keys_that_verify_nothing_any_more_are_hidden_and_deleted(cluster: Cluster, tenant: Tenant) -> None:
    before = (await listed(cluster))[0].key_id
    await cluster.operator.auth.RotateSigningKey(pb.RotateSigningKeyRequest())
    async with cluster.superuser() as connection:
        await connection.execute("UPDATE auth.signing_keys SET expire_time = now() WHERE key_id = $1", before)
        hidden = before not in {key.key_id for key in await listed(cluster)}

        async with cluster.direct("auth") as channel:
            # The keys are of no tenant.
            request = pb.ExchangeRequest(system=pb.SystemCredential(key=SYSTEM_KEY, service="worker"))
            token = (await rpc.AuthInternalServiceStub(channel).Exchange(request)).token
            stub = rpc.AuthInternalServiceStub(Stubs.of(channel, token).channel)
            deleted = await stub.DeleteExpired(pb.DeleteExpiredRequest())

        count = await connection.fetchval("SELECT count(*) FROM auth.signing_keys WHERE key_id = $1", before)
    await let_in_again(cluster, tenant)
    assert hidden
    assert deleted.deleted_count >= 1
    assert count == 0


async def test_a_replica_notices_a_key_that_another_one_made(cluster: Cluster, tenant: Tenant) -> None:
    async with replica(cluster) as channel:
        rotated = await cluster.operator.auth.RotateSigningKey(pb.RotateSigningKeyRequest())

        async with asyncio.timeout(30):
            signed_by = ""
            while signed_by != rotated.signing_key.key_id:
                await asyncio.sleep(0.05)
                answer = await rpc.AuthInternalServiceStub(channel).Exchange(pb.ExchangeRequest(bearer=tenant.api_key))
                signed_by = key_id_of(answer.token)


# Replicas and system keys


async def test_replicas_that_start_together_share_one_key(url: str) -> None:
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(keyring(url, SystemKeys.of(SYSTEM_KEY))) for _ in range(4)]

        keys = await asyncio.gather(*(each.active_key() for each in replicas))

    assert len({key.kid for key in keys}) == 1
    assert all(key.is_private for key in keys)


async def test_a_signing_key_opens_with_the_system_keys_that_were_given(url: str) -> None:
    changed = "n" * 40
    async with keyring(url, SystemKeys.of(SYSTEM_KEY)) as first:
        made = await first.active_key()

    async with keyring(url, SystemKeys.of(changed)) as stranger:
        with pytest.raises(DecryptionError):
            await stranger.active_key()
    async with keyring(url, SystemKeys.of(changed, SYSTEM_KEY)) as heir:
        opened = await heir.active_key()
        rotated = await heir.generate("identity")
        async with (
            Database.open(url, service="auth", size=1, timeout=30.0) as database,
            database.global_transaction() as tx,
        ):
            await heir.rotate(tx, rotated, emergency=False)
    async with keyring(url, SystemKeys.of(changed)) as successor:
        successors = await successor.active_key()

    assert opened.kid == made.kid
    assert successors.kid == rotated.key_id


async def test_a_private_half_lies_sealed_in_the_database(url: str) -> None:
    async with keyring(url, SystemKeys.of(SYSTEM_KEY)) as ring:
        private = (await ring.active_key()).as_dict(private=True)["d"]
    connection = await asyncpg.connect(url)
    try:
        row = await connection.fetchrow("SELECT public_jwk, encrypted_private_jwk FROM auth.signing_keys")
    finally:
        await connection.close()

    assert isinstance(private, str)
    assert row is not None
    assert private not in row["public_jwk"]
    assert private.encode() not in row["encrypted_private_jwk"]


@pytest.mark.parametrize("system_key", ["", "short"])
async def test_auth_does_not_start_without_a_system_key(system_key: str) -> None:
    environment: Mapping[str, str] = {}
    host = Host(
        settings=ProcessSettings(system_key=system_key), environment=environment, schema_version=1, addresses={}
    )

    with pytest.raises(SettingInvalid, match="SKEIN_SYSTEM_KEY"):
        async with service.start(host):
            pass


# The operator's first key


async def test_a_new_operator_key_works(cluster: Cluster) -> None:
    url = cluster.postgres.url(user="postgres", database="skein")

    secret = await ensure_operator_key(url, display_name="second")
    again = await ensure_operator_key(url, display_name="second", secret=secret)

    assert again == secret
    me = await cluster.with_key(secret).auth.GetMe(pb.GetMeRequest())
    assert me.principal.startswith("operator:")


async def test_a_key_that_was_kept_works_in_an_empty_database(url: str) -> None:
    kept = ApiKeyToken.new(NO_TENANT, uuid.uuid4())

    restored = await ensure_operator_key(url, display_name="restored", secret=kept.encode())

    key = ApiKeyToken.parse(restored)
    assert key is not None
    assert (key.key_id, key.secret) == (kept.key_id, kept.secret)
    assert await ensure_operator_key(url, display_name="restored", secret=restored) == restored


@pytest.mark.parametrize("check_key", [b"", b"that of another database"], ids=["an earlier version's", "another's"])
async def test_a_kept_operator_key_gets_the_check_digits_of_this_database(url: str, check_key: bytes) -> None:
    kept = ApiKeyToken.new(NO_TENANT, uuid.uuid4(), check_key)

    key = ApiKeyToken.parse(await ensure_operator_key(url, display_name="restored", secret=kept.encode()))

    assert key is not None
    assert key.mac not in (b"", kept.mac)


async def test_other_keys_are_not_taken_for_an_operator_key(url: str, tenant: Tenant) -> None:
    taken = ApiKeyToken.parse(await ensure_operator_key(url, display_name="first"))
    assert taken is not None

    for secret in ("nonsense", tenant.api_key, ApiKeyToken.new(NO_TENANT, taken.key_id).encode()):
        with pytest.raises(OperatorKeyRefused):
            await ensure_operator_key(url, display_name="x", secret=secret)


async def test_a_revoked_operator_key_does_not_come_back(url: str) -> None:
    secret = await ensure_operator_key(url, display_name="x")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("UPDATE auth.operator_keys SET revoke_time = now()")
    finally:
        await connection.close()

    with pytest.raises(OperatorKeyRefused, match="revoked"):
        await ensure_operator_key(url, display_name="x", secret=secret)
