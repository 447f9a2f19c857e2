"""People join a tenant and leave it again, through the gateway."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import grpc
import pytest
from fix_accounts import PASSWORD, Account, member, new_account, new_email, sign_in
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2, tenancy_pb2


def acting(cluster: Cluster, account: Account, tenant: Tenant) -> Account:
    metadata = {"skein-tenant-id": str(tenant.tenant_id)}
    return replace(account, stubs=cluster.with_key(account.access_token, **metadata))


async def invited(tenant: Tenant, email: str) -> str:
    request = members_pb2.CreateInvitationRequest(email=email, role=members_pb2.ROLE_MEMBER)
    return (await tenant.tenancy.CreateInvitation(request)).token


@pytest.mark.essential
async def test_an_invited_person_signs_up_joins_remembers_and_leaves(cluster: Cluster, tenant: Tenant) -> None:
    email = new_email()
    token = await invited(tenant, email)
    await cluster.anonymous.auth.SignUp(
        accounts_pb2.SignUpRequest(email=email, password=PASSWORD, invitation_token=token)
    )
    account = await sign_in(cluster, email)

    joined = await account.stubs.tenancy.AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))
    listed = await account.stubs.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest())
    there = acting(cluster, account, tenant)
    made = await there.stubs.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="somebody joined"))
    )
    me = await there.stubs.auth.GetMe(auth_pb2.GetMeRequest())
    await there.stubs.tenancy.LeaveTenant(members_pb2.LeaveTenantRequest())

    assert joined.tenant_id == str(tenant.tenant_id)
    assert [(each.tenant_id, each.role) for each in listed.tenants] == [
        (str(tenant.tenant_id), members_pb2.ROLE_MEMBER)
    ]
    assert made.memory.created_by == f"account:{account.account_id}"
    assert (me.role, me.account.email) == ("member", email)
    await _until_refused(there, grpc.StatusCode.NOT_FOUND)
    assert list((await account.stubs.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest())).tenants) == []


async def test_an_invitation_is_for_the_one_who_has_the_address(cluster: Cluster, tenant: Tenant) -> None:
    token = await invited(tenant, new_email())
    stranger = await new_account(cluster)

    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await stranger.stubs.tenancy.AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))


async def test_a_tenant_is_closed_to_who_is_no_member(cluster: Cluster, tenant: Tenant) -> None:
    stranger = acting(cluster, await new_account(cluster), tenant)

    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await stranger.stubs.memory.ListMemories(memory_pb2.ListMemoriesRequest())


@pytest.mark.parametrize("how", ["demoted", "removed", "deactivated"])
async def test_permissions_taken_from_a_member_are_gone_soon(cluster: Cluster, tenant: Tenant, how: str) -> None:
    person = await member(cluster, tenant, "member")
    await person.stubs.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="still here"))
    )

    if how == "demoted":
        await tenant.tenancy.UpdateMember(
            members_pb2.UpdateMemberRequest(account_id=person.account_id, role=members_pb2.ROLE_VIEWER)
        )
    elif how == "removed":
        await tenant.tenancy.RemoveMember(members_pb2.RemoveMemberRequest(account_id=person.account_id))
    else:
        account = accounts_pb2.Account(account_id=person.account_id, status=accounts_pb2.ACCOUNT_STATUS_DEACTIVATED)
        await cluster.operator.auth.UpdateAccount(
            accounts_pb2.UpdateAccountRequest(account=account, update_mask=FieldMask(paths=["status"]))
        )

    expected = {
        "demoted": grpc.StatusCode.PERMISSION_DENIED,
        "removed": grpc.StatusCode.NOT_FOUND,
        "deactivated": grpc.StatusCode.UNAUTHENTICATED,
    }
    await _until_refused(person, expected[how])


async def _until_refused(account: Account, code: grpc.StatusCode) -> None:
    """Wait until the account may remember nothing more."""
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="and now"))
    async with asyncio.timeout(30):
        while True:
            try:
                await account.stubs.memory.CreateMemory(request)
            except aio.AioRpcError as error:
                assert error.code() is code  # noqa: PT017 - the loop ends with it.
                return
            await asyncio.sleep(0.1)
