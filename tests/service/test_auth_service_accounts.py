from __future__ import annotations

import asyncio
import uuid

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2

MISSING_ID = str(uuid.UUID(int=7))


async def made(tenant: Tenant, *permissions: str, **fields: object) -> pb.ServiceAccount:
    account = pb.ServiceAccount(display_name="bot", permissions=permissions, **fields)  # type: ignore[arg-type]
    answer = await tenant.auth.CreateServiceAccount(pb.CreateServiceAccountRequest(service_account=account))
    return answer.service_account


async def key_of(
    tenant: Tenant, account: pb.ServiceAccount, *permissions: str, agent_id: str = ""
) -> auth_pb2.CreateApiKeyResponse:
    return await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(
            display_name="of the bot",
            permissions=permissions,
            agent_id=agent_id,
            service_account_id=account.service_account_id,
        )
    )


async def changed(tenant: Tenant, account: pb.ServiceAccount, *paths: str) -> pb.ServiceAccount:
    request = pb.UpdateServiceAccountRequest(service_account=account, update_mask=FieldMask(paths=paths))
    return (await tenant.auth.UpdateServiceAccount(request)).service_account


async def until_refused(cluster: Cluster, secret: str) -> None:
    """Return once calls with the key are refused."""
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await cluster.with_key(secret).auth.GetMe(auth_pb2.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                return


async def test_calls_with_its_keys_are_made_by_the_service_account(cluster: Cluster, tenant: Tenant) -> None:
    account = await made(tenant, "memory.read", "memory.write", agent_id="voice")
    key = await key_of(tenant, account)

    me = await cluster.with_key(key.secret).auth.GetMe(auth_pb2.GetMeRequest())

    assert me == auth_pb2.GetMeResponse(
        principal=f"service_account:{account.service_account_id}",
        tenant_id=str(tenant.tenant_id),
        permissions=["memory.read", "memory.write"],
        agent_id="voice",
    )
    assert key.api_key.service_account_id == account.service_account_id


async def test_it_needs_a_name(tenant: Tenant) -> None:
    request = pb.CreateServiceAccountRequest(service_account=pb.ServiceAccount(permissions=["memory.read"]))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.auth.CreateServiceAccount(request)


async def test_a_key_carries_no_more_than_its_service_account(tenant: Tenant) -> None:
    account = await made(tenant, "memory.read", "session.read", agent_id="voice")

    fewer = await key_of(tenant, account, "memory.read")

    assert list(fewer.api_key.permissions) == ["memory.read"]
    assert fewer.api_key.agent_id == "voice"
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_ESCALATION"):
        await key_of(tenant, account, "memory.read", "memory.write")
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_ESCALATION"):
        await key_of(tenant, account, agent_id="planner")


@pytest.mark.system
@pytest.mark.parametrize("what", ["permissions", "disabled", "deleted"])
async def test_a_change_bounds_its_keys_soon(cluster: Cluster, tenant: Tenant, what: str) -> None:
    account = await made(tenant, "memory.read", "memory.write")
    key = await key_of(tenant, account)
    calls = cluster.with_key(key.secret)
    await calls.auth.GetMe(auth_pb2.GetMeRequest())

    if what == "permissions":
        del account.permissions[:]
        account.permissions.append("memory.read")
        await changed(tenant, account, "permissions")
        async with asyncio.timeout(30):
            while list((await calls.auth.GetMe(auth_pb2.GetMeRequest())).permissions) != ["memory.read"]:
                await asyncio.sleep(0.05)
    elif what == "disabled":
        account.disabled = True
        await changed(tenant, account, "disabled")
        await until_refused(cluster, key.secret)
    else:
        request = pb.DeleteServiceAccountRequest(service_account_id=account.service_account_id)
        await tenant.auth.DeleteServiceAccount(request)
        await until_refused(cluster, key.secret)


async def test_keys_of_a_deleted_one_stay_in_the_list_as_revoked(tenant: Tenant) -> None:
    account = await made(tenant, "memory.read")
    key = await key_of(tenant, account)

    await tenant.auth.DeleteServiceAccount(
        pb.DeleteServiceAccountRequest(service_account_id=account.service_account_id)
    )

    listed = (await tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys
    assert [key_.HasField("revoke_time") for key_ in listed if key_.api_key_id == key.api_key.api_key_id] == [True]
    with refused(grpc.StatusCode.NOT_FOUND, "SERVICE_ACCOUNT_NOT_FOUND"):
        await tenant.auth.GetServiceAccount(pb.GetServiceAccountRequest(service_account_id=account.service_account_id))


async def test_they_are_paged_newest_first(tenant: Tenant) -> None:
    ids = [(await made(tenant, "memory.read")).service_account_id for _ in range(3)]

    request = pb.ListServiceAccountsRequest(page_size=2)
    first = await tenant.auth.ListServiceAccounts(request)
    request.page_token = first.next_page_token
    second = await tenant.auth.ListServiceAccounts(request)

    service_account_ids = [
        account.service_account_id for account in (*first.service_accounts, *second.service_accounts)
    ]
    assert service_account_ids == sorted(ids, reverse=True)


async def test_each_change_is_an_event(tenant: Tenant) -> None:
    account = await made(tenant, "memory.read")
    await changed(tenant, account, "display_name")
    await tenant.auth.DeleteServiceAccount(
        pb.DeleteServiceAccountRequest(service_account_id=account.service_account_id)
    )

    listed = (await tenant.auth.ListAuditEvents(pb.ListAuditEventsRequest(page_size=3))).audit_events
    assert [(event.event, event.target) for event in listed] == [
        (f"service_account_{what}", f"service_account:{account.service_account_id}")
        for what in ("deleted", "updated", "created")
    ]
