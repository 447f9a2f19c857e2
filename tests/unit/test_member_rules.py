from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from fix_catalogue import over

from skein_kit.errors import PermissionEscalation
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import OPERATOR_PERMISSIONS, ROLE_PERMISSIONS
from skein_tenancy.errors import InvitationNotFound, LastOwner, RoleTooLow
from skein_tenancy.invitations import model as invitations
from skein_tenancy.members import model as members

TENANT, ANN, BEN = uuid4(), uuid4(), uuid4()
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def account(role: str, *permissions: str) -> Caller:
    granted = frozenset(permissions) or ROLE_PERMISSIONS[role]
    return Caller(principal=f"account:{ANN}", tenant_id=TENANT, permissions=granted, account_id=ANN, role=role)


def key(*permissions: str) -> Caller:
    return Caller(principal="api_key:1", tenant_id=TENANT, permissions=frozenset(permissions))


def reaches(caller: Caller) -> list[str]:
    reached = []
    for role in ROLE_PERMISSIONS:
        try:
            members.Authority.of(caller).require_rank(role)
        except RoleTooLow:
            continue
        reached.append(role)
    return reached


@over("role", ROLE_PERMISSIONS)
def test_an_account_reaches_its_own_role_and_those_below(role: str) -> None:
    names = list(ROLE_PERMISSIONS)

    assert reaches(account(role)) == names[: names.index(role) + 1]


def test_a_key_counts_as_what_it_may_do() -> None:
    assert reaches(key("tenant.own")) == ["viewer", "member", "admin", "owner"]
    assert reaches(key("members.write")) == ["viewer", "member", "admin"]
    assert reaches(key("memory.read")) == []


def test_an_application_counts_as_no_more_than_its_permissions_or_its_account() -> None:
    assert reaches(account("owner", "members.write")) == ["viewer", "member", "admin"]
    assert reaches(account("admin", "tenant.own", "members.write")) == ["viewer", "member", "admin"]


def test_an_operator_reaches_every_role() -> None:
    operator = Caller(principal="operator:1", tenant_id=TENANT, permissions=frozenset(OPERATOR_PERMISSIONS))

    assert reaches(operator) == list(ROLE_PERMISSIONS)


def covers(caller: Caller, *, former_role: str = "") -> list[str]:
    covered = []
    for role in ROLE_PERMISSIONS:
        try:
            members.Authority.of(caller).require_permissions_for(role, former_role=former_role)
        except (RoleTooLow, PermissionEscalation):
            continue
        covered.append(role)
    return covered


def test_a_role_is_given_by_who_has_all_of_its_permissions() -> None:
    assert covers(key("members.write")) == []
    assert covers(key("members.write", *ROLE_PERMISSIONS["viewer"])) == ["viewer"]
    assert covers(key(*ROLE_PERMISSIONS["admin"])) == ["viewer", "member", "admin"]
    assert covers(key(*ROLE_PERMISSIONS["owner"])) == ["viewer", "member", "admin", "owner"]
    assert covers(account("owner", "members.write", *ROLE_PERMISSIONS["viewer"])) == ["viewer"]
    assert covers(account("admin")) == ["viewer", "member", "admin"]


def test_a_role_without_what_the_member_has_already_is_given_by_who_has_the_rest() -> None:
    assert covers(key("members.write"), former_role="member") == ["viewer", "member"]
    assert covers(
        key("members.write", "members.read", "memory.write", "session.write", "subject.write"), former_role="viewer"
    ) == ["viewer", "member"]


def test_a_caller_bound_to_an_agent_gives_no_permission_to_a_person() -> None:
    bound = Caller(principal="api_key:1", tenant_id=TENANT, permissions=ROLE_PERMISSIONS["owner"], agent_id="butler")

    assert covers(bound) == []
    assert covers(bound, former_role="member") == ["viewer", "member"]


def test_an_operator_gives_every_role() -> None:
    operator = Caller(principal="operator:1", tenant_id=TENANT, permissions=frozenset(OPERATOR_PERMISSIONS))

    assert covers(operator) == list(ROLE_PERMISSIONS)


def test_the_check_of_several_roles_is_that_of_the_highest() -> None:
    with pytest.raises(RoleTooLow):
        members.Authority.of(account("admin")).require_rank("viewer", "owner")


@over("owners", [{ANN}, set()])
def test_the_last_owner_stays(owners: set[UUID]) -> None:
    with pytest.raises(LastOwner) as refused:
        members.require_remaining_owner(TENANT, owners, leaving_account_id=ANN)

    assert refused.value.metadata == {"tenant_id": str(TENANT)}


def test_one_of_two_owners_may_go() -> None:
    members.require_remaining_owner(TENANT, {ANN, BEN}, leaving_account_id=ANN)


def invitation_of(
    token: BearerToken,
    *,
    expire_time: datetime = NOW + timedelta(days=1),
    use_time: datetime | None = None,
    revoke_time: datetime | None = None,
) -> invitations.RedeemableInvitation:
    return invitations.RedeemableInvitation(
        email="ann@example.com",
        role="member",
        is_mailed=False,
        secret_hash=token.secret_hash(),
        expire_time=expire_time,
        use_time=use_time,
        revoke_time=revoke_time,
    )


def test_an_invitation_holds_for_its_address_until_its_time_is_over() -> None:
    token = BearerToken.generate(invitations.PREFIX, TENANT, uuid4())

    invitation_of(token).verify(token, "ann@example.com", NOW)
    invitation_of(token).verify(token, "ann@example.com", NOW + timedelta(days=1, microseconds=-1))


@over("text", ["", "skein_inv_", "skein_inv_aaaa", "nonsense"])
def test_a_malformed_token_is_no_invitation(text: str) -> None:
    with pytest.raises(InvitationNotFound):
        invitations.parse_token(text)


@over(("mailed", "verified", "accepted"), [(True, True, True), (True, False, False), (False, False, True)])
def test_an_address_is_to_be_verified_where_the_invitation_was_mailed(
    *, mailed: bool, verified: bool, accepted: bool
) -> None:
    invitation = invitations.RedeemableInvitation(
        email="ann@example.org",
        role="member",
        secret_hash=b"",
        is_mailed=mailed,
        expire_time=NOW,
        use_time=None,
        revoke_time=None,
    )
    address = members.AccountAddress(email=invitation.email, is_verified=verified)

    with nullcontext() if accepted else pytest.raises(InvitationNotFound):
        invitation.require_verified(address)
