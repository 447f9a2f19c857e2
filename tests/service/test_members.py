from __future__ import annotations

import asyncio
import uuid

import grpc
import pytest
from fix_cluster import refused
from fix_tenancy import OPERATOR, ROLES, Person, Tenancy, key_of, operator_in
from grpc import aio

from skein.tenancy.v1 import members_pb2 as pb
from skein.tenancy.v1 import tenancy_pb2

OWNER, ADMIN, MEMBER, VIEWER = (ROLES[name] for name in ("owner", "admin", "member", "viewer"))


def update(person: Person, role: pb.Role, **fields: object) -> pb.UpdateMemberRequest:
    return pb.UpdateMemberRequest(account_id=str(person.account_id), role=role, **fields)  # type: ignore[arg-type]


def remove(person: Person) -> pb.RemoveMemberRequest:
    return pb.RemoveMemberRequest(account_id=str(person.account_id))


@pytest.fixture
def tenancy(shared_tenancy: Tenancy) -> Tenancy:
    return shared_tenancy


@pytest.fixture
async def tenant_id(tenancy: Tenancy) -> uuid.UUID:
    return await tenancy.new_tenant()


async def standing(tenancy: Tenancy, tenant_id: uuid.UUID, person: Person | None = None) -> pb.GetMembershipResponse:
    account_id = "" if person is None else str(person.account_id)
    return await tenancy.internal().GetMembership(
        pb.GetMembershipRequest(tenant_id=str(tenant_id), account_id=account_id)
    )


# What an account is


async def test_the_standing_of_an_account_is_its_role_in_an_open_tenant(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    member = await tenancy.joined(tenant_id, "member")

    assert await standing(tenancy, tenant_id, member) == pb.GetMembershipResponse(
        state=pb.TENANT_STATE_ACTIVE, role=MEMBER
    )
    assert await standing(tenancy, tenant_id, Person.new()) == pb.GetMembershipResponse(state=pb.TENANT_STATE_ACTIVE)
    assert await standing(tenancy, tenant_id) == pb.GetMembershipResponse(state=pb.TENANT_STATE_ACTIVE)


async def test_the_standing_in_no_tenant_is_unspecified(tenancy: Tenancy) -> None:
    assert await standing(tenancy, uuid.uuid4(), Person.new()) == pb.GetMembershipResponse()


async def test_a_deleted_tenant_is_closed(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    await tenancy.calls(OPERATOR).DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant_id)))

    assert (await standing(tenancy, tenant_id)).state == pb.TENANT_STATE_DELETED


# Reading


async def test_a_member_is_read_as_it_joined(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = await tenancy.joined(tenant_id, "admin")

    read = await tenancy.calls(key_of(tenant_id)).GetMember(pb.GetMemberRequest(account_id=str(person.account_id)))

    assert (read.member.account_id, read.member.role) == (str(person.account_id), ADMIN)
    assert (read.member.email, read.member.revision) == (person.email, 1)
    assert read.member.created_by == f"account:{person.account_id}"
    assert read.member.create_time == read.member.update_time


async def test_members_are_paged_in_order_of_joining(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    joined = [str((await tenancy.joined(tenant_id, "viewer")).account_id) for _ in range(5)]

    seen: list[str] = []
    request = pb.ListMembersRequest(page_size=2)
    while True:
        page = await tenancy.calls(key_of(tenant_id)).ListMembers(request)
        seen += [member.account_id for member in page.members]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert seen == joined


# Roles


async def test_an_admin_changes_roles_up_to_its_own(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    admin, other = await tenancy.joined(tenant_id, "admin"), await tenancy.joined(tenant_id, "viewer")
    acting = tenancy.calls(admin.caller(tenant_id, "admin"))

    raised = await acting.UpdateMember(update(other, ADMIN, revision=1))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "ROLE_TOO_LOW"):
        await acting.UpdateMember(update(other, OWNER))

    assert (raised.member.role, raised.member.revision) == (ADMIN, 2)
    assert (await tenancy.roles(tenant_id))[other.account_id] == "admin"


async def test_a_member_cannot_change_or_remove_one_of_a_higher_role(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    admin = await tenancy.joined(tenant_id, "admin")
    owners = [await tenancy.joined(tenant_id, "owner") for _ in range(2)]

    for who in (admin.caller(tenant_id, "admin"), key_of(tenant_id, "members.write")):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "ROLE_TOO_LOW"):
            await tenancy.calls(who).UpdateMember(update(owners[0], VIEWER))
        with refused(grpc.StatusCode.PERMISSION_DENIED, "ROLE_TOO_LOW"):
            await tenancy.calls(who).RemoveMember(remove(owners[0]))
    await tenancy.calls(key_of(tenant_id, "members.write", "tenant.own")).RemoveMember(remove(owners[0]))

    assert set((await tenancy.roles(tenant_id)).values()) == {"admin", "owner"}


@pytest.mark.system
async def test_a_key_gives_no_role_that_may_do_more_than_the_key(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    member, owner = await tenancy.joined(tenant_id, "member"), await tenancy.joined(tenant_id, "owner")
    only_members = tenancy.calls(key_of(tenant_id, "members.write"))

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_ESCALATION"):
        await only_members.UpdateMember(update(member, ADMIN))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_ESCALATION"):
        await tenancy.calls(key_of(tenant_id, "tenant.own")).TransferOwnership(
            pb.TransferOwnershipRequest(account_id=str(member.account_id), from_account_id=str(owner.account_id))
        )
    lowered = await only_members.UpdateMember(update(member, VIEWER))

    assert lowered.member.role == VIEWER
    assert set((await tenancy.roles(tenant_id)).values()) == {"viewer", "owner"}


async def test_members_and_viewers_cannot_manage_members(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    member, viewer = await tenancy.joined(tenant_id, "member"), await tenancy.joined(tenant_id, "viewer")

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await tenancy.calls(member.caller(tenant_id, "member")).RemoveMember(remove(viewer))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await tenancy.calls(viewer.caller(tenant_id, "viewer")).ListMembers(pb.ListMembersRequest())


async def test_a_role_is_changed_by_who_knows_its_revision(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = await tenancy.joined(tenant_id, "viewer")

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenancy.calls(key_of(tenant_id)).UpdateMember(update(person, MEMBER, revision=7))


# Owners


async def test_the_last_owner_cannot_leave_be_demoted_or_removed(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    owner = await tenancy.joined(tenant_id, "owner")
    await tenancy.joined(tenant_id, "admin")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_OWNER"):
        await tenancy.calls(owner.caller(tenant_id, "owner")).LeaveTenant(pb.LeaveTenantRequest())
    for who in (operator_in(tenant_id), owner.caller(tenant_id, "owner")):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_OWNER"):
            await tenancy.calls(who).UpdateMember(update(owner, ADMIN))
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_OWNER"):
            await tenancy.calls(who).RemoveMember(remove(owner))

    assert (await tenancy.roles(tenant_id))[owner.account_id] == "owner"


@pytest.mark.parametrize("way", ["leave", "demote", "remove", "delete account"])
async def test_one_of_owners_who_leave_at_once_stays(tenancy: Tenancy, tenant_id: uuid.UUID, way: str) -> None:
    owners = [await tenancy.joined(tenant_id, "owner") for _ in range(4)]

    async def go(person: Person) -> grpc.StatusCode:
        acting = tenancy.calls(person.caller(tenant_id, "owner"))
        try:
            if way == "leave":
                await acting.LeaveTenant(pb.LeaveTenantRequest())
            elif way == "demote":
                await acting.UpdateMember(update(person, VIEWER))
            elif way == "remove":
                await acting.RemoveMember(remove(person))
            else:
                await tenancy.internal().RemoveAccount(pb.RemoveAccountRequest(account_id=str(person.account_id)))
        except aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    codes = await asyncio.gather(*(go(person) for person in owners))

    assert sorted(code.name for code in codes) == ["FAILED_PRECONDITION", "OK", "OK", "OK"]
    assert list((await tenancy.roles(tenant_id)).values()).count("owner") == 1


async def test_one_of_owners_who_remove_each_other_stays(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    ann, ben = await tenancy.joined(tenant_id, "owner"), await tenancy.joined(tenant_id, "owner")

    await asyncio.gather(
        tenancy.calls(ann.caller(tenant_id, "owner")).RemoveMember(remove(ben)),
        tenancy.calls(ben.caller(tenant_id, "owner")).RemoveMember(remove(ann)),
        return_exceptions=True,
    )

    assert list((await tenancy.roles(tenant_id)).values()) == ["owner"]


async def test_a_tenant_without_an_owner_may_stay_so(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    admin, member = await tenancy.joined(tenant_id, "admin"), await tenancy.joined(tenant_id, "member")

    await tenancy.calls(member.caller(tenant_id, "member")).LeaveTenant(pb.LeaveTenantRequest(request_id="r"))
    await tenancy.calls(member.caller(tenant_id, "member")).LeaveTenant(pb.LeaveTenantRequest(request_id="r"))
    await tenancy.calls(admin.caller(tenant_id, "admin")).UpdateMember(update(admin, VIEWER))

    assert await tenancy.roles(tenant_id) == {admin.account_id: "viewer"}


async def test_a_stranger_cannot_leave_a_tenant(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "MEMBER_NOT_FOUND"):
        await tenancy.calls(Person.new().caller(tenant_id, "member")).LeaveTenant(pb.LeaveTenantRequest())


async def test_an_owner_passes_the_tenant_on_and_becomes_an_admin(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    owner, member = await tenancy.joined(tenant_id, "owner"), await tenancy.joined(tenant_id, "member")
    acting = tenancy.calls(owner.caller(tenant_id, "owner"))
    request = pb.TransferOwnershipRequest(account_id=str(member.account_id), request_id="r")

    response = await acting.TransferOwnership(request)
    again = await acting.TransferOwnership(request)

    assert response == again
    assert (response.member.account_id, response.member.role) == (str(member.account_id), OWNER)
    assert await tenancy.roles(tenant_id) == {owner.account_id: "admin", member.account_id: "owner"}


async def test_an_operator_names_the_owner_that_steps_down(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    owner, member, third = [await tenancy.joined(tenant_id, role) for role in ("owner", "member", "member")]
    operator = tenancy.calls(operator_in(tenant_id))

    await operator.TransferOwnership(pb.TransferOwnershipRequest(account_id=str(member.account_id)))
    await operator.TransferOwnership(
        pb.TransferOwnershipRequest(account_id=str(third.account_id), from_account_id=str(owner.account_id))
    )
    with refused(grpc.StatusCode.NOT_FOUND, "MEMBER_NOT_FOUND"):
        await operator.TransferOwnership(
            pb.TransferOwnershipRequest(account_id=str(third.account_id), from_account_id=str(owner.account_id))
        )

    assert await tenancy.roles(tenant_id) == {
        owner.account_id: "admin",
        member.account_id: "owner",
        third.account_id: "owner",
    }


async def test_an_admin_passes_nothing_on(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    admin, member = await tenancy.joined(tenant_id, "admin"), await tenancy.joined(tenant_id, "member")

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await tenancy.calls(admin.caller(tenant_id, "admin")).TransferOwnership(
            pb.TransferOwnershipRequest(account_id=str(member.account_id))
        )


# Accounts that go


async def test_an_account_that_goes_leaves_every_tenant(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = await tenancy.joined(tenant_id, "owner")
    heir = await tenancy.joined(tenant_id, "owner")
    elsewhere = await tenancy.new_tenant()
    await tenancy.joined(elsewhere, "member", person)
    request = pb.RemoveAccountRequest(account_id=str(person.account_id))

    removed = await tenancy.internal().RemoveAccount(request)
    again = await tenancy.internal().RemoveAccount(request)

    assert (removed.removed_count, again.removed_count) == (2, 0)
    assert await tenancy.roles(tenant_id) == {heir.account_id: "owner"}
    assert await tenancy.roles(elsewhere) == {}


async def test_the_account_of_a_last_owner_goes_from_nowhere(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    elsewhere = await tenancy.new_tenant()
    person = await tenancy.joined(elsewhere, "member")
    await tenancy.joined(tenant_id, "owner", person)

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_OWNER"):
        await tenancy.internal().RemoveAccount(pb.RemoveAccountRequest(account_id=str(person.account_id)))

    assert await tenancy.roles(elsewhere) == {person.account_id: "member"}


async def test_the_last_owner_of_a_deleted_tenant_may_go(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = await tenancy.joined(tenant_id, "owner")
    await tenancy.calls(OPERATOR).DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant_id)))

    removed = await tenancy.internal().RemoveAccount(pb.RemoveAccountRequest(account_id=str(person.account_id)))

    assert removed.removed_count == 1
