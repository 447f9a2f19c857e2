from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from fix_auth import let_in_again
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, refused
from fix_identities import identity_settings, service_channel
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from joserfc import jws

from skein.auth.v1 import accounts_pb2
from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein.memory.v1 import memory_pb2
from skein_auth import service
from skein_cluster import registry
from skein_kit.host.process import Host, run_services
from skein_kit.settings import ProcessSettings


def later(**delta: float) -> Timestamp:
    result = Timestamp()
    result.FromDatetime(datetime.now(UTC) + timedelta(**delta))
    return result


async def made(tenant: Stubs, *permissions: str, ends: Timestamp | None = None) -> pb.CreateApiKeyResponse:
    request = pb.CreateApiKeyRequest(display_name="old", permissions=permissions, agent_id="voice", expire_time=ends)
    return await tenant.auth.CreateApiKey(request)


def rotation(
    key: pb.CreateApiKeyResponse, overlap: int | None = None, request_id: str = ""
) -> accounts_pb2.RotateApiKeyRequest:
    duration = None if overlap is None else Duration(seconds=overlap)
    return accounts_pb2.RotateApiKeyRequest(api_key_id=key.api_key.api_key_id, overlap=duration, request_id=request_id)


async def until_refused(cluster: Cluster, secret: str) -> None:
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await cluster.with_key(secret).auth.GetMe(pb.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                return


# API keys


async def test_a_successor_can_do_the_same_and_both_work_during_the_overlap(cluster: Cluster, tenant: Tenant) -> None:
    ends = later(days=90)
    old = await made(tenant, "memory.read", ends=ends)

    rotated = await tenant.auth.RotateApiKey(rotation(old))

    for secret in (old.secret, rotated.secret):
        me = await cluster.with_key(secret).auth.GetMe(pb.GetMeRequest())
        assert (list(me.permissions), me.agent_id) == (["memory.read"], "voice")
    new, replaced = rotated.api_key, rotated.replaced
    assert (new.display_name, new.expire_time) == ("old", old.api_key.expire_time)
    assert replaced.replaced_by == new.api_key_id
    remaining = replaced.expire_time.ToDatetime(UTC) - datetime.now(UTC)
    assert timedelta(hours=23) < remaining <= timedelta(days=1)


@pytest.mark.system
async def test_without_an_overlap_the_old_key_ends_at_once(cluster: Cluster, tenant: Tenant) -> None:
    old = await made(tenant, "memory.read")
    await cluster.with_key(old.secret).auth.GetMe(pb.GetMeRequest())

    await tenant.auth.RotateApiKey(rotation(old, 0))

    await until_refused(cluster, old.secret)


async def test_a_key_that_ends_sooner_keeps_its_end(tenant: Tenant) -> None:
    old = await made(tenant, "memory.read", ends=later(hours=1))

    rotated = await tenant.auth.RotateApiKey(rotation(old, 7200))

    assert rotated.replaced.expire_time == old.api_key.expire_time
    assert rotated.api_key.expire_time == old.api_key.expire_time


async def test_a_key_is_rotated_once(tenant: Tenant) -> None:
    old, revoked = await made(tenant), await made(tenant)
    await tenant.auth.RotateApiKey(rotation(old))
    await tenant.auth.RevokeApiKey(pb.RevokeApiKeyRequest(api_key_id=revoked.api_key.api_key_id))

    for key in (old, revoked):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "API_KEY_INACTIVE"):
            await tenant.auth.RotateApiKey(rotation(key))


async def test_concurrent_rotations_make_one_successor(tenant: Tenant) -> None:
    old = await made(tenant)

    answers = await asyncio.gather(*(tenant.auth.RotateApiKey(rotation(old)) for _ in range(5)), return_exceptions=True)

    assert sum(isinstance(answer, pb.RotateApiKeyResponse) for answer in answers) == 1
    assert len((await tenant.auth.ListApiKeys(pb.ListApiKeysRequest())).api_keys) == 3


async def test_rotating_a_key_grants_no_permission_or_time_that_the_caller_lacks(
    cluster: Cluster, tenant: Tenant
) -> None:
    strong = await made(tenant, "memory.read", "memory.write")
    weak = await tenant.auth.CreateApiKey(
        pb.CreateApiKeyRequest(display_name="x", permissions=["keys.write", "memory.read"])
    )
    brief = await tenant.auth.CreateApiKey(pb.CreateApiKeyRequest(display_name="x", expire_time=later(hours=1)))

    for secret in (weak.secret, brief.secret):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_ESCALATION"):
            await cluster.with_key(secret).auth.RotateApiKey(rotation(strong))


async def test_a_key_with_the_permission_rotates_itself(cluster: Cluster, tenant: Tenant) -> None:
    old = await made(tenant, "keys.write", ends=later(hours=1))

    rotated = await cluster.with_key(old.secret).auth.RotateApiKey(rotation(old))

    assert rotated.api_key.created_by == f"api_key:{old.api_key.api_key_id}"


async def test_an_overlap_beyond_thirty_days_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.auth.RotateApiKey(rotation(await made(tenant), 31 * 86400))


async def test_a_rotation_is_an_event(tenant: Tenant) -> None:
    old = await made(tenant)
    await tenant.auth.RotateApiKey(rotation(old))

    listed = await tenant.auth.ListAuditEvents(accounts_pb2.ListAuditEventsRequest(page_size=1))

    assert listed.audit_events[0].event == "api_key_rotated"
    assert listed.audit_events[0].target == f"api_key:{old.api_key.api_key_id}"


# Last use


@asynccontextmanager
async def replica(cluster: Cluster) -> AsyncIterator[aio.Channel]:
    """Run another auth beside the cluster's own, over the same database."""
    host = Host(
        settings=ProcessSettings(
            database_url=cluster.postgres.url(user="postgres", database="skein"),
            system_key=SYSTEM_KEY,
            admin_port=0,
            **identity_settings(),
        ),
        environment=dict(cluster.environment),
        schema_version=registry.migrations()[-1].number,
        addresses={**cluster.addresses, "auth": "127.0.0.1:0"},
    )
    async with run_services([service.SERVICE], host) as here:
        await here.wait_ready(10)
        async with service_channel(host.addresses["auth"], "auth") as channel:
            yield channel


@pytest.mark.system
async def test_a_key_shows_when_it_was_last_used_to_the_minute(
    cluster: Cluster, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LAST_USE_SECONDS", 0.05)
    key = await made(tenant, "memory.read")
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    listing = pb.ListApiKeysRequest(page_size=1)

    async with replica(cluster) as channel:
        await rpc.AuthInternalServiceStub(channel).Exchange(pb.ExchangeRequest(bearer=key.secret))
        async with asyncio.timeout(30):
            while not (result := (await tenant.auth.ListApiKeys(listing)).api_keys[0]).HasField("use_time"):
                await asyncio.sleep(0.05)

    assert not key.api_key.HasField("use_time")
    assert result.use_time.ToDatetime(UTC) in (before, before + timedelta(minutes=1))


# Signing keys


def key_id_of(token: str) -> str:
    return str(jws.extract_compact(token.encode()).headers()["kid"])


async def listed(
    cluster: Cluster, purpose: pb.SigningKeyPurpose = pb.SIGNING_KEY_PURPOSE_UNSPECIFIED
) -> dict[str, pb.SigningKey]:
    answer = await cluster.anonymous.auth.ListSigningKeys(pb.ListSigningKeysRequest(purpose=purpose))
    return {key.key_id: key for key in answer.signing_keys}


async def test_each_purpose_has_keys_of_its_own(cluster: Cluster) -> None:
    identity, access = await listed(cluster), await listed(cluster, pb.SIGNING_KEY_PURPOSE_ACCESS)

    assert not identity.keys() & access.keys()
    assert '"RSA"' in next(iter(access.values())).jwk
    assert '"OKP"' in next(iter(identity.values())).jwk


async def test_rotating_one_purpose_leaves_the_other(cluster: Cluster) -> None:
    before = await listed(cluster)

    rotated = await cluster.operator.auth.RotateSigningKey(
        pb.RotateSigningKeyRequest(purpose=pb.SIGNING_KEY_PURPOSE_ACCESS)
    )

    access = await listed(cluster, pb.SIGNING_KEY_PURPOSE_ACCESS)
    assert next(iter(access)) == rotated.signing_key.key_id
    assert next(iter(await listed(cluster))) == next(iter(before))


@pytest.mark.system
async def test_tokens_signed_by_a_stolen_key_are_refused_soon_everywhere(cluster: Cluster, tenant: Tenant) -> None:
    async with cluster.direct("auth") as channel, cluster.direct("memory") as elsewhere:
        token = (await rpc.AuthInternalServiceStub(channel).Exchange(pb.ExchangeRequest(bearer=tenant.api_key))).token
        memory = Stubs.of(elsewhere, token).memory
        auth = Stubs.of(channel, token).auth
        await memory.ListMemories(memory_pb2.ListMemoriesRequest())
        await auth.GetMe(pb.GetMeRequest())

        await cluster.operator.auth.RotateSigningKey(pb.RotateSigningKeyRequest(emergency=True))

        hidden = key_id_of(token) not in await listed(cluster)
        async with asyncio.timeout(30):
            for call in (
                lambda: memory.ListMemories(memory_pb2.ListMemoriesRequest()),
                lambda: auth.GetMe(pb.GetMeRequest()),
            ):
                while True:
                    await asyncio.sleep(0.05)
                    try:
                        await call()
                    except aio.AioRpcError as error:
                        assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                        break
    await let_in_again(cluster, tenant)
    assert hidden


async def test_a_rotation_of_the_signing_key_is_the_operators_event(cluster: Cluster) -> None:
    request = pb.RotateSigningKeyRequest(request_id=uuid.uuid4().hex)
    rotated = await cluster.operator.auth.RotateSigningKey(request)
    await cluster.operator.auth.RotateSigningKey(request)

    response = await cluster.operator.auth.ListAuditEvents(accounts_pb2.ListAuditEventsRequest(page_size=20))

    target = f"signing_key:{rotated.signing_key.key_id}"
    assert [event.event for event in response.audit_events if event.target == target] == ["signing_key_rotated"]
