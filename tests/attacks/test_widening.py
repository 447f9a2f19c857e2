"""Attack: a caller with few permissions makes a key, service account, member or grant that has more, in every way.
May be seen: PERMISSION_ESCALATION or ROLE_TOO_LOW, which names the permission; an application asks for less.
May be spent: the refused call; no key, service account, invitation or role is left behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from fix_accounts import member, new_account
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_oauth import App
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein.tenancy.v1 import members_pb2
from skein_kit.identity.permissions import ROLE_PERMISSIONS

DENIED = grpc.StatusCode.PERMISSION_DENIED
# Enough to manage everything, and too little to read anything that is remembered.
FEW = ["keys.write", "keys.read", "members.write", "members.read", "tenant.read", "tenant.own"]
WIDENED = "PERMISSION_ESCALATION"


@dataclass(frozen=True)
class PrivilegedTenant:
    """A tenant with things that may more than the attacker may."""

    cluster: Cluster
    tenant: Tenant
    attacker: Stubs
    bot_id: str
    bot_of_agent_id: str
    sleeping_bot_id: str
    key_id: str
    member_id: str

    def snapshot(self) -> Awaitable[list[Any]]:
        """Read everything that an attack could change."""

        async def read() -> list[Any]:
            keys = await self.tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())
            for key in keys.api_keys:
                key.ClearField("use_time")
            return [
                keys,
                await self.tenant.auth.ListServiceAccounts(accounts_pb2.ListServiceAccountsRequest()),
                await self.tenant.tenancy.ListMembers(members_pb2.ListMembersRequest()),
                await self.tenant.tenancy.ListInvitations(members_pb2.ListInvitationsRequest()),
            ]

        return read()


async def new_key(
    stubs: Stubs, *permissions: str, agent_id: str = "", bot_id: str = ""
) -> auth_pb2.CreateApiKeyResponse:
    request = auth_pb2.CreateApiKeyRequest(
        display_name="k", permissions=permissions, agent_id=agent_id, service_account_id=bot_id
    )
    return await stubs.auth.CreateApiKey(request)


async def new_bot(stubs: Stubs, *permissions: str, agent_id: str = "", disabled: bool = False) -> str:
    account = accounts_pb2.ServiceAccount(
        display_name="b", permissions=permissions, agent_id=agent_id, disabled=disabled
    )
    request = accounts_pb2.CreateServiceAccountRequest(service_account=account)
    return (await stubs.auth.CreateServiceAccount(request)).service_account.service_account_id


async def change_bot(stubs: Stubs, service_account_id: str, *paths: str, **values: Any) -> None:
    account = accounts_pb2.ServiceAccount(service_account_id=service_account_id, **values)
    await stubs.auth.UpdateServiceAccount(
        accounts_pb2.UpdateServiceAccountRequest(service_account=account, update_mask=FieldMask(paths=paths))
    )


@pytest.fixture
async def victim(cluster: Cluster, tenant: Tenant) -> PrivilegedTenant:
    few = await new_key(tenant, *FEW)
    return PrivilegedTenant(
        cluster=cluster,
        tenant=tenant,
        attacker=cluster.with_key(few.secret),
        bot_id=await new_bot(tenant, *FEW, "memory.read"),
        bot_of_agent_id=await new_bot(tenant, *FEW, agent_id="hall"),
        sleeping_bot_id=await new_bot(tenant, *FEW, "secrets.read", disabled=True),
        key_id=(await new_key(tenant, "memory.read")).api_key.api_key_id,
        member_id=(await member(cluster, tenant, "viewer")).account_id,
    )


async def invite(victim: PrivilegedTenant, role: members_pb2.Role) -> None:
    request = members_pb2.CreateInvitationRequest(email="m@x.invalid", role=role)
    await victim.attacker.tenancy.CreateInvitation(request)


async def raise_member(victim: PrivilegedTenant, role: members_pb2.Role) -> None:
    request = members_pb2.UpdateMemberRequest(account_id=victim.member_id, role=role)
    await victim.attacker.tenancy.UpdateMember(request)


async def rotate(victim: PrivilegedTenant) -> None:
    await victim.attacker.auth.RotateApiKey(accounts_pb2.RotateApiKeyRequest(api_key_id=victim.key_id))


async def transfer(victim: PrivilegedTenant) -> None:
    await victim.attacker.tenancy.TransferOwnership(members_pb2.TransferOwnershipRequest(account_id=victim.member_id))


ATTACKS: dict[str, Callable[[PrivilegedTenant], Awaitable[Any]]] = {
    "a key": lambda victim: new_key(victim.attacker, "memory.read"),
    "a key of a service account": lambda victim: new_key(victim.attacker, "memory.read", bot_id=victim.bot_id),
    "a rotated key": rotate,
    "a service account": lambda victim: new_bot(victim.attacker, "secrets.read"),
    "a wider service account": lambda victim: change_bot(
        victim.attacker, victim.bot_id, "permissions", permissions=[*FEW, "memory.read", "memory.write"]
    ),
    "an enabled service account": lambda victim: change_bot(victim.attacker, victim.sleeping_bot_id, "disabled"),
    "an invited viewer": lambda victim: invite(victim, members_pb2.ROLE_VIEWER),
    "an invited admin": lambda victim: invite(victim, members_pb2.ROLE_ADMIN),
    "an invited owner": lambda victim: invite(victim, members_pb2.ROLE_OWNER),
    "a raised member": lambda victim: raise_member(victim, members_pb2.ROLE_ADMIN),
    "a raised owner": lambda victim: raise_member(victim, members_pb2.ROLE_OWNER),
    "a new owner": transfer,
}


@pytest.mark.system
async def test_no_way_leads_to_more_than_a_key_has(victim: PrivilegedTenant) -> None:
    before = await victim.snapshot()

    for name, attack in ATTACKS.items():
        with refused(DENIED, WIDENED):
            print(name)  # noqa: T201 - a failure names the way.
            await attack(victim)

    assert await victim.snapshot() == before


async def test_a_request_without_a_list_is_cut_to_the_maker_s_permissions(victim: PrivilegedTenant) -> None:
    key = await new_key(victim.attacker)
    of_bot = await new_key(victim.attacker, bot_id=victim.bot_id)
    bot = await new_bot(victim.attacker)
    response = await victim.tenant.auth.GetServiceAccount(accounts_pb2.GetServiceAccountRequest(service_account_id=bot))

    assert sorted(key.api_key.permissions) == sorted(FEW)
    assert sorted(of_bot.api_key.permissions) == sorted(FEW)
    assert sorted(response.service_account.permissions) == sorted(FEW)


@pytest.mark.system
async def test_a_key_that_is_bound_to_an_agent_gives_nothing_to_another(victim: PrivilegedTenant) -> None:
    full = sorted(ROLE_PERMISSIONS["owner"])
    bound = victim.cluster.with_key((await new_key(victim.tenant, *full, agent_id="kitchen")).secret)
    before = await victim.snapshot()

    attacks: list[Callable[[], Awaitable[Any]]] = [
        lambda: new_key(bound, "memory.read", agent_id="hall"),
        lambda: new_key(bound, "memory.read", bot_id=victim.bot_of_agent_id),
        lambda: new_bot(bound, "memory.read", agent_id="hall"),
        lambda: change_bot(bound, victim.bot_of_agent_id, "permissions", permissions=[*FEW, "memory.read"]),
        lambda: change_bot(bound, victim.bot_id, "permissions", permissions=[*FEW, "memory.read", "memory.write"]),
        lambda: change_bot(bound, victim.bot_of_agent_id, "agent_id"),
        lambda: bound.auth.RotateApiKey(accounts_pb2.RotateApiKeyRequest(api_key_id=victim.key_id)),
        lambda: bound.tenancy.CreateInvitation(
            members_pb2.CreateInvitationRequest(email="m@x.invalid", role=members_pb2.ROLE_VIEWER)
        ),
        lambda: bound.tenancy.UpdateMember(
            members_pb2.UpdateMemberRequest(account_id=victim.member_id, role=members_pb2.ROLE_MEMBER)
        ),
    ]
    for attack in attacks:
        with refused(DENIED, WIDENED):
            await attack()

    assert await victim.snapshot() == before


async def test_an_application_gets_no_more_than_its_person_s_role_however_it_asks(
    cluster: Cluster, tenant: Tenant, direct: aio.Channel
) -> None:
    app = await App.registered(direct)
    viewer = await member(cluster, tenant, "viewer")
    tokens = await app.tokens(viewer, tenant, " ".join(sorted(ROLE_PERMISSIONS["owner"])))

    me = await cluster.with_key(tokens.access_token).auth.GetMe(auth_pb2.GetMeRequest())

    assert set(me.permissions) == set(tokens.scope.split()) == ROLE_PERMISSIONS["viewer"]
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_SCOPE"):
        await app.refresh(tokens.refresh_token, scope="memory.write")


async def test_an_admin_s_application_cannot_invite_beyond_its_own_scopes(
    cluster: Cluster, tenant: Tenant, app: App
) -> None:
    admin, guest = await member(cluster, tenant, "admin"), await new_account(cluster)
    tokens = await app.tokens(admin, tenant, "members.write members.read keys.write")
    application = cluster.with_key(tokens.access_token)

    for role in (members_pb2.ROLE_VIEWER, members_pb2.ROLE_ADMIN):
        with refused(DENIED, WIDENED):
            await application.tenancy.CreateInvitation(
                members_pb2.CreateInvitationRequest(email=guest.email, role=role)
            )
    with refused(DENIED, WIDENED):
        await new_key(application, "memory.read")
    with refused(DENIED, WIDENED):
        await new_bot(application, "memory.read")
    assert not (await tenant.tenancy.ListInvitations(members_pb2.ListInvitationsRequest())).invitations
