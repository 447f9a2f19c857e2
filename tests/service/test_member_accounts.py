from __future__ import annotations

import uuid

import grpc
from fix_cluster import Cluster, Stubs, Tenant, refused

from skein.auth.v1 import accounts_pb2
from skein.auth.v1.accounts_pb2 import Account
from skein.tenancy.v1 import members_pb2 as pb
from skein.tenancy.v1 import tenancy_pb2


def operator_in(cluster: Cluster, tenant: Tenant) -> Stubs:
    return cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})


async def new_account(cluster: Cluster) -> Account:
    request = accounts_pb2.CreateAccountRequest(email=f"{uuid.uuid4().hex}@Example.com", display_name="Ann")
    return (await cluster.operator.auth.CreateAccount(request)).account


async def test_the_operator_makes_an_account_a_member_with_its_address_and_name(
    cluster: Cluster, tenant: Tenant
) -> None:
    account = await new_account(cluster)
    request = pb.AddMemberRequest(account_id=account.account_id, role=pb.ROLE_ADMIN, request_id="r")
    operator = operator_in(cluster, tenant)

    added = await operator.tenancy.AddMember(request)
    again = await operator.tenancy.AddMember(request)
    read = await tenant.tenancy.GetMember(pb.GetMemberRequest(account_id=account.account_id))

    assert added == again
    assert added.member == read.member
    assert (read.member.email, read.member.display_name, read.member.role) == (account.email, "Ann", pb.ROLE_ADMIN)
    with refused(grpc.StatusCode.ALREADY_EXISTS, "MEMBER_EXISTS"):
        await operator.tenancy.AddMember(pb.AddMemberRequest(account_id=account.account_id, role=pb.ROLE_VIEWER))


async def test_an_unknown_account_cannot_become_a_member(cluster: Cluster, tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"):
        await operator_in(cluster, tenant).tenancy.AddMember(
            pb.AddMemberRequest(account_id=str(uuid.uuid4()), role=pb.ROLE_VIEWER)
        )


async def test_an_operator_makes_a_tenant_for_an_account(cluster: Cluster) -> None:
    account = await new_account(cluster)
    request = tenancy_pb2.CreateTenantRequest(
        tenant=tenancy_pb2.Tenant(display_name="Ann's"),
        owner_account_id=account.account_id,
        request_id=uuid.uuid4().hex,
    )

    made = await cluster.operator.tenancy.CreateTenant(request)
    again = await cluster.operator.tenancy.CreateTenant(request)

    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": made.tenant.tenant_id})
    members = (await acting.tenancy.ListMembers(pb.ListMembersRequest())).members
    assert made == again
    assert made.tenant.role == pb.ROLE_UNSPECIFIED
    assert [(member.account_id, member.role) for member in members] == [(account.account_id, pb.ROLE_OWNER)]
    with refused(grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"):
        await cluster.operator.tenancy.CreateTenant(
            tenancy_pb2.CreateTenantRequest(
                tenant=tenancy_pb2.Tenant(display_name="Nobody's"), owner_account_id=str(uuid.uuid4())
            )
        )
