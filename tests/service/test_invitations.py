from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

import grpc
import pytest
from fix_cluster import refused
from fix_database import TestDatabase
from fix_tenancy import OPERATOR, ROLES, Person, Tenancy, key_of, operator_in, serving
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from skein.tenancy.v1 import members_pb2 as pb
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.identity import permissions
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.identity_token import Caller
from skein_tenancy import service
from skein_tenancy.invitations.model import PREFIX

OWNER, ADMIN, MEMBER, VIEWER = (ROLES[name] for name in ("owner", "admin", "member", "viewer"))


def accept(token: str, request_id: str = "") -> pb.AcceptInvitationRequest:
    return pb.AcceptInvitationRequest(token=token, request_id=request_id)


@pytest.fixture
def tenancy(shared_tenancy: Tenancy) -> Tenancy:
    return shared_tenancy


@pytest.fixture
async def tenant_id(tenancy: Tenancy) -> uuid.UUID:
    return await tenancy.new_tenant()


async def open_ones(tenancy: Tenancy, tenant_id: uuid.UUID) -> list[pb.Invitation]:
    return list((await tenancy.calls(key_of(tenant_id)).ListInvitations(pb.ListInvitationsRequest())).invitations)


async def test_an_invitation_is_for_a_week_and_an_address_in_lower_case(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    request = pb.CreateInvitationRequest(email="Ann@Example.COM", role=MEMBER)

    made = await tenancy.calls(key_of(tenant_id)).CreateInvitation(request)

    invitation = made.invitation
    assert (invitation.email, invitation.role, invitation.created_by) == ("ann@example.com", MEMBER, "api_key:1")
    assert invitation.expire_time.ToDatetime() - invitation.create_time.ToDatetime() == timedelta(days=7)
    assert BearerToken.decode(PREFIX, made.token)
    assert await open_ones(tenancy, tenant_id) == [invitation]


async def test_an_invitation_has_the_lifetime_that_was_asked(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    hour = Duration(seconds=3600)

    made = await tenancy.calls(key_of(tenant_id)).CreateInvitation(
        pb.CreateInvitationRequest(email="ann@example.com", role=MEMBER, lifetime=hour)
    )
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenancy.calls(key_of(tenant_id)).CreateInvitation(
            pb.CreateInvitationRequest(email="ann@example.com", role=MEMBER, lifetime=Duration(seconds=31 * 86400))
        )

    assert made.invitation.expire_time.seconds - made.invitation.create_time.seconds == hour.seconds


async def test_a_member_cannot_invite_to_a_role_above_their_own(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    admin = (await tenancy.joined(tenant_id, "admin")).caller(tenant_id, "admin")

    for who in (admin, key_of(tenant_id, *permissions.ROLE_PERMISSIONS["admin"])):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "ROLE_TOO_LOW"):
            await tenancy.calls(who).CreateInvitation(pb.CreateInvitationRequest(email="a@example.com", role=OWNER))
        await tenancy.calls(who).CreateInvitation(pb.CreateInvitationRequest(email="a@example.com", role=ADMIN))


async def test_a_caller_without_a_permission_of_a_role_cannot_invite_to_it(
    tenancy: Tenancy, tenant_id: uuid.UUID
) -> None:
    only_invites = tenancy.calls(key_of(tenant_id, "members.write"))

    for role in (VIEWER, MEMBER, ADMIN):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_ESCALATION"):
            await only_invites.CreateInvitation(pb.CreateInvitationRequest(email="m@x.invalid", role=role))

    assert await open_ones(tenancy, tenant_id) == []


async def test_invitations_end_with_the_role_that_they_were_made_by(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    owner, successor = await tenancy.joined(tenant_id, "owner"), Person.new()
    acting = tenancy.calls(owner.caller(tenant_id, "owner"))
    above = await acting.CreateInvitation(pb.CreateInvitationRequest(email=successor.email, role=OWNER))
    within = await acting.CreateInvitation(pb.CreateInvitationRequest(email="ann@example.com", role=MEMBER))
    lower = pb.UpdateMemberRequest(account_id=str(owner.account_id), role=ADMIN)
    await tenancy.joined(tenant_id, "owner")

    await tenancy.calls(key_of(tenant_id)).UpdateMember(lower)

    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(successor.caller()).AcceptInvitation(accept(above.token))
    assert await open_ones(tenancy, tenant_id) == [within.invitation]
    await tenancy.calls(key_of(tenant_id)).RemoveMember(pb.RemoveMemberRequest(account_id=str(owner.account_id)))
    assert await open_ones(tenancy, tenant_id) == []


@pytest.mark.parametrize("role", [MEMBER, VIEWER])
async def test_no_invitation_outlives_the_right_to_invite(
    tenancy: Tenancy, tenant_id: uuid.UUID, role: pb.Role
) -> None:
    admin, guest = await tenancy.joined(tenant_id, "admin"), Person.new()
    acting = tenancy.calls(admin.caller(tenant_id, "admin"))
    made = [
        await acting.CreateInvitation(pb.CreateInvitationRequest(email=email, role=invited))
        for email, invited in ((guest.email, VIEWER), ("ann@example.com", MEMBER))
    ]
    lower = pb.UpdateMemberRequest(account_id=str(admin.account_id), role=role)

    await tenancy.calls(key_of(tenant_id)).UpdateMember(lower)

    assert await open_ones(tenancy, tenant_id) == []
    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(guest.caller()).AcceptInvitation(accept(made[0].token))


async def test_a_member_is_not_invited(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = await tenancy.joined(tenant_id, "viewer")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "MEMBER_EXISTS"):
        await tenancy.invited(tenant_id, person.email.upper(), "member")


async def test_an_invitation_makes_its_addressee_a_member_once(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "admin")

    accepted = await tenancy.calls(person.caller()).AcceptInvitation(accept(token))
    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(person.caller()).AcceptInvitation(accept(token))

    assert accepted.tenant_id == str(tenant_id)
    assert (accepted.member.account_id, accepted.member.role) == (str(person.account_id), ADMIN)
    assert await tenancy.roles(tenant_id) == {person.account_id: "admin"}
    assert await open_ones(tenancy, tenant_id) == []


async def test_a_repeated_acceptance_returns_the_first_answer(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "member")

    first, again = [await tenancy.calls(person.caller()).AcceptInvitation(accept(token, "r")) for _ in range(2)]

    assert first == again


async def test_one_of_simultaneous_acceptances_wins(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    # Two accounts never have one address; even so an invitation would let in only one.
    twins = [person, *(Person(uuid.uuid4(), person.email) for _ in range(3))]
    token = await tenancy.invited(tenant_id, person.email, "member")

    answers = await asyncio.gather(
        *(tenancy.calls(twin.caller()).AcceptInvitation(accept(token)) for twin in twins), return_exceptions=True
    )

    refusals = [answer for answer in answers if isinstance(answer, aio.AioRpcError)]
    assert {refusal.code() for refusal in refusals} == {grpc.StatusCode.NOT_FOUND}
    assert len(refusals) == 3
    assert len(await tenancy.roles(tenant_id)) == 1


async def test_an_invitation_is_refused_to_other_people(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "member")

    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(Person.new().caller()).AcceptInvitation(accept(token))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "ACCOUNT_REQUIRED"):
        await tenancy.calls(key_of(tenant_id)).AcceptInvitation(accept(token))

    assert await tenancy.roles(tenant_id) == {}
    await tenancy.calls(person.caller()).AcceptInvitation(accept(token))


async def test_an_invitation_leads_into_its_own_tenant_wherever_the_caller_acts(
    tenancy: Tenancy, tenant_id: uuid.UUID
) -> None:
    elsewhere = await tenancy.new_tenant()
    person = await tenancy.joined(elsewhere, "owner")
    token = await tenancy.invited(tenant_id, person.email, "viewer")

    await tenancy.calls(person.caller(elsewhere, "owner")).AcceptInvitation(accept(token))

    assert await tenancy.roles(tenant_id) == {person.account_id: "viewer"}
    assert await tenancy.roles(elsewhere) == {person.account_id: "owner"}


async def test_the_secret_of_another_tenant_s_invitation_proves_nothing_here(
    tenancy: Tenancy, tenant_id: uuid.UUID
) -> None:
    person = Person.new()
    real = BearerToken.decode(PREFIX, await tenancy.invited(tenant_id, person.email, "member"))
    assert real is not None
    elsewhere = await tenancy.new_tenant()

    for forged in (
        BearerToken(PREFIX, elsewhere, real.token_id, real.secret),
        BearerToken.generate(PREFIX, tenant_id, real.token_id),
        BearerToken.generate(PREFIX, uuid.uuid4(), uuid.uuid4()),
    ):
        with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
            await tenancy.calls(person.caller()).AcceptInvitation(accept(forged.encode()))


async def test_a_member_who_accepts_an_invitation_keeps_their_role_and_spends_it(
    tenancy: Tenancy, tenant_id: uuid.UUID
) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "owner")
    await tenancy.joined(tenant_id, "viewer", person)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "MEMBER_EXISTS"):
        await tenancy.calls(person.caller()).AcceptInvitation(accept(token, "r"))
    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(person.caller()).AcceptInvitation(accept(token, "r"))

    assert await tenancy.roles(tenant_id) == {person.account_id: "viewer"}


async def test_a_revoked_invitation_is_over(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "member")
    (invitation,) = await open_ones(tenancy, tenant_id)
    acting = tenancy.calls(key_of(tenant_id))
    request = pb.RevokeInvitationRequest(invitation_id=invitation.invitation_id, request_id="r")

    await acting.RevokeInvitation(request)
    await acting.RevokeInvitation(request)

    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await acting.RevokeInvitation(pb.RevokeInvitationRequest(invitation_id=invitation.invitation_id))
    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(person.caller()).AcceptInvitation(accept(token))
    assert await open_ones(tenancy, tenant_id) == []


async def test_an_expired_invitation_is_over(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "member")
    async with tenancy.database.superuser() as connection:
        await connection.execute("UPDATE tenancy.invitations SET expire_time = now()")

    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(person.caller()).AcceptInvitation(accept(token))
    assert await open_ones(tenancy, tenant_id) == []


async def test_an_invitation_into_a_deleted_tenant_is_over(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "member")
    await tenancy.calls(OPERATOR).DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(tenant_id)))

    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.calls(person.caller()).AcceptInvitation(accept(token))


async def test_invitations_are_paged_newest_first(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    addresses = [f"p{number}@example.com" for number in range(5)]
    for address in addresses:
        await tenancy.invited(tenant_id, address, "viewer")

    seen: list[str] = []
    request = pb.ListInvitationsRequest(page_size=2)
    while True:
        page = await tenancy.calls(operator_in(tenant_id)).ListInvitations(request)
        seen += [invitation.email for invitation in page.invitations]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert seen == addresses[::-1]


async def test_a_sign_up_learns_whether_it_is_invited(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    person = Person.new()
    token = await tenancy.invited(tenant_id, person.email, "member")
    (invitation,) = await open_ones(tenancy, tenant_id)

    checked = await tenancy.internal().CheckInvitation(
        pb.CheckInvitationRequest(token=token, email=person.email.upper())
    )

    assert checked.invitation_id == invitation.invitation_id
    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.internal().CheckInvitation(pb.CheckInvitationRequest(token=token, email="b@example.com"))
    with refused(grpc.StatusCode.NOT_FOUND, "INVITATION_NOT_FOUND"):
        await tenancy.internal().CheckInvitation(pb.CheckInvitationRequest(token="x", email=person.email))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await tenancy.internal(key_of(tenant_id)).CheckInvitation(
            pb.CheckInvitationRequest(token=token, email=person.email)
        )
    # Asking spends nothing.
    await tenancy.calls(person.caller()).AcceptInvitation(accept(token))


async def test_no_secret_of_an_invitation_is_stored(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    request = pb.CreateInvitationRequest(email="ann@example.com", role=MEMBER, request_id="r")
    made = await tenancy.calls(key_of(tenant_id)).CreateInvitation(request)
    token = BearerToken.decode(PREFIX, made.token)
    assert token is not None

    async with tenancy.database.superuser() as connection:
        rows = await connection.fetch("SELECT secret_hash FROM tenancy.invitations WHERE tenant_id = $1", tenant_id)
        answers = await connection.fetch("SELECT response FROM tenancy.requests")

    assert [row["secret_hash"] for row in rows] == [token.secret_hash()]
    assert answers
    assert not any(made.token.encode() in row["response"] for row in answers)


async def test_expired_rows_are_deleted_for_one_tenant(tenancy: Tenancy, tenant_id: uuid.UUID) -> None:
    elsewhere = await tenancy.new_tenant()
    for place in (tenant_id, elsewhere):
        for number in range(2):
            await tenancy.invited(place, f"p{number}@example.com", "viewer")
    async with tenancy.database.superuser() as connection:
        await connection.execute("UPDATE tenancy.invitations SET expire_time = now() WHERE email = 'p0@example.com'")
    worker = Caller(principal="system:worker", tenant_id=tenant_id, permissions=permissions.SYSTEM_PERMISSIONS)

    first = await tenancy.internal(worker).DeleteExpired(pb.DeleteExpiredRequest())
    again = await tenancy.internal(worker).DeleteExpired(pb.DeleteExpiredRequest())

    async with tenancy.database.superuser() as connection:
        rows = await connection.fetch(
            "SELECT tenant_id, email FROM tenancy.invitations WHERE tenant_id = ANY ($1)", [tenant_id, elsewhere]
        )
    assert (first.deleted_count, again.deleted_count) == (1, 0)
    assert {tuple(row) for row in rows} == {
        (tenant_id, "p1@example.com"),
        (elsewhere, "p0@example.com"),
        (elsewhere, "p1@example.com"),
    }


@pytest.mark.system
async def test_a_tenant_invites_so_many_people_an_hour_and_no_more(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_INVITATIONS_PER_HOUR", 3)
    async with serving(database) as tenancy:
        await tenancy.calls(OPERATOR).CreateOrganization(
            tenancy_pb2.CreateOrganizationRequest(organization=tenancy_pb2.Organization(slug="default"))
        )
        tenant_id, other_id = await tenancy.new_tenant(), await tenancy.new_tenant()

        answers = await asyncio.gather(
            *(tenancy.invited(tenant_id, Person.new().email, "member") for _ in range(8)), return_exceptions=True
        )

        assert len([answer for answer in answers if isinstance(answer, str)]) == 3
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED"):
            await tenancy.invited(tenant_id, Person.new().email, "member")
        await tenancy.invited(other_id, Person.new().email, "member")
