from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest
from argon2 import PasswordHasher, extract_parameters
from fix_accounts import PASSWORD, Account, new_account, new_email, sign_in
from fix_auth import run_auth_server
from fix_cluster import Cluster, refused
from fix_database import TestDatabase
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2


@pytest.fixture
async def account(cluster: Cluster) -> Account:
    return await new_account(cluster)


def wrong(email: str) -> pb.SignInRequest:
    return pb.SignInRequest(email=email, password="not the password")


async def exhausted(cluster: Cluster, email: str) -> None:
    """Let strangers of this source try more passwords of the account than it lets them."""
    for _ in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await cluster.anonymous.auth.SignIn(wrong(email))


async def until_refused(account: Account) -> None:
    """Call until the access token is refused."""
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.05)
            try:
                await account.stubs.auth.GetMe(auth_pb2.GetMeRequest())
            except aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED  # noqa: PT017 - the loop ends with it.
                return


async def test_a_sign_in_returns_the_account(cluster: Cluster, account: Account) -> None:
    me = await account.stubs.auth.GetMe(auth_pb2.GetMeRequest())

    assert me.principal == f"account:{account.account_id}"
    assert (me.account.account_id, me.account.email) == (account.account_id, account.email)
    assert (me.tenant_id, me.role, me.client_id) == ("", "", "")
    assert "account" in me.permissions
    assert not (await cluster.operator.auth.GetMe(auth_pb2.GetMeRequest())).HasField("account")


async def test_an_address_is_the_same_however_it_is_typed(cluster: Cluster, account: Account) -> None:
    again = await sign_in(cluster, f"  {account.email.upper()} ")

    assert again.account_id == account.account_id


async def test_an_unknown_address_and_a_wrong_password_get_the_same_answer(cluster: Cluster, account: Account) -> None:
    answers = []
    for email in (account.email, new_email()):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED") as caught:
            await cluster.anonymous.auth.SignIn(wrong(email))
        answers.append(caught.value.details())

    assert answers[0] == answers[1]


async def test_a_deactivated_account_is_refused_like_a_wrong_password(cluster: Cluster, account: Account) -> None:
    await account.stubs.auth.DeactivateMe(pb.DeactivateMeRequest(password=PASSWORD))

    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await sign_in(cluster, account.email)


@pytest.mark.system
async def test_a_known_device_does_not_wait_for_the_wrong_passwords_of_its_source(
    cluster: Cluster, account: Account
) -> None:
    known = await cluster.anonymous.auth.SignIn(pb.SignInRequest(email=account.email, password=PASSWORD))
    await exhausted(cluster, account.email)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await sign_in(cluster, account.email)
    request = pb.SignInRequest(email=account.email, password=PASSWORD, device_token=known.device_token)
    for _ in range(12):
        request.device_token = (await cluster.anonymous.auth.SignIn(request)).device_token


async def test_wrong_passwords_of_a_known_device_are_limited_as_well(cluster: Cluster, account: Account) -> None:
    known = await cluster.anonymous.auth.SignIn(pb.SignInRequest(email=account.email, password=PASSWORD))
    wrong_one = pb.SignInRequest(email=account.email, password="not the password", device_token=known.device_token)
    # Ten as a known device, and ten as any other.
    for _ in range(20):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await cluster.anonymous.auth.SignIn(wrong_one)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await cluster.anonymous.auth.SignIn(wrong_one)


async def test_a_device_that_another_account_knows_is_unknown(cluster: Cluster, account: Account) -> None:
    stranger = await new_account(cluster)
    known = await cluster.anonymous.auth.SignIn(pb.SignInRequest(email=stranger.email, password=PASSWORD))
    await exhausted(cluster, account.email)

    last = known.device_token[-1]
    for token in (known.device_token, f"{known.device_token[:-1]}{'A' if last != 'A' else 'B'}", "skein_device_", "ä"):
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
            await cluster.anonymous.auth.SignIn(
                pb.SignInRequest(email=account.email, password=PASSWORD, device_token=token)
            )


async def change_password(_cluster: Cluster, account: Account) -> str:
    new = "another password than before"
    await account.stubs.auth.ChangePassword(pb.ChangePasswordRequest(old_password=PASSWORD, new_password=new))
    return new


async def revoke_all_others(_cluster: Cluster, account: Account) -> str:
    await account.stubs.auth.RevokeAuthSession(pb.RevokeAuthSessionRequest(all_others=True))
    return PASSWORD


async def revoke_as_the_operator(cluster: Cluster, account: Account) -> str:
    await cluster.operator.auth.RevokeCredentials(pb.RevokeCredentialsRequest(account_id=account.account_id))
    return PASSWORD


@pytest.mark.parametrize("end", [change_password, revoke_all_others, revoke_as_the_operator])
async def test_known_devices_end_with_the_sign_ins(
    cluster: Cluster, account: Account, end: Callable[[Cluster, Account], Awaitable[str]]
) -> None:
    known = await cluster.anonymous.auth.SignIn(pb.SignInRequest(email=account.email, password=PASSWORD))

    password = await end(cluster, account)

    await exhausted(cluster, account.email)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await cluster.anonymous.auth.SignIn(
            pb.SignInRequest(email=account.email, password=password, device_token=known.device_token)
        )


async def test_successful_sign_ins_do_not_count(cluster: Cluster, account: Account) -> None:
    for _ in range(11):
        await sign_in(cluster, account.email)


async def test_an_unknown_address_is_locked_as_well(cluster: Cluster) -> None:
    email = new_email()
    for _ in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await cluster.anonymous.auth.SignIn(wrong(email))

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await cluster.anonymous.auth.SignIn(wrong(email))


async def test_a_refresh_token_is_replaced(cluster: Cluster, account: Account) -> None:
    answer = await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))

    assert answer.tokens.refresh_token not in ("", account.refresh_token)
    me = await cluster.with_key(answer.tokens.access_token).auth.GetMe(auth_pb2.GetMeRequest())
    assert me.account.account_id == account.account_id


async def test_a_refresh_token_that_is_none_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token="skein_rt_nonsense"))


@pytest.mark.system
async def test_a_signed_out_token_is_refused_soon(cluster: Cluster, account: Account) -> None:
    await account.stubs.auth.SignOut(pb.SignOutRequest())

    await until_refused(account)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))


@pytest.mark.system
async def test_a_deactivated_account_is_refused_soon(cluster: Cluster, account: Account) -> None:
    await account.stubs.auth.GetMe(auth_pb2.GetMeRequest())
    change = pb.Account(account_id=account.account_id, status=pb.ACCOUNT_STATUS_DEACTIVATED)
    request = pb.UpdateAccountRequest(account=change)
    request.update_mask.paths.append("status")
    await cluster.operator.auth.UpdateAccount(request)

    await until_refused(account)


async def test_sign_ins_are_listed_newest_first_and_in_pages(cluster: Cluster, account: Account) -> None:
    second, third = await sign_in(cluster, account.email), await sign_in(cluster, account.email)

    seen: list[pb.AuthSession] = []
    request = pb.ListAuthSessionsRequest(page_size=2)
    while True:
        page = await second.stubs.auth.ListAuthSessions(request)
        seen += page.auth_sessions
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert [session.current for session in seen] == [False, True, False]
    assert all(session.address for session in seen)
    assert third.account_id == account.account_id


async def test_another_sign_in_can_be_ended_once(cluster: Cluster, account: Account) -> None:
    other = await sign_in(cluster, account.email)
    listed = await other.stubs.auth.ListAuthSessions(pb.ListAuthSessionsRequest())
    (first,) = (each for each in listed.auth_sessions if not each.current)
    request = pb.RevokeAuthSessionRequest(auth_session_id=first.auth_session_id, request_id="r")

    answers = [await other.stubs.auth.RevokeAuthSession(request) for _ in range(2)]

    assert [answer.revoked_count for answer in answers] == [1, 1]
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))
    request.request_id = "s"
    with refused(grpc.StatusCode.NOT_FOUND, "AUTH_SESSION_NOT_FOUND"):
        await other.stubs.auth.RevokeAuthSession(request)


async def test_an_account_cannot_revoke_an_auth_session_of_another(cluster: Cluster, account: Account) -> None:
    stranger = await new_account(cluster)
    listed = await account.stubs.auth.ListAuthSessions(pb.ListAuthSessionsRequest())

    with refused(grpc.StatusCode.NOT_FOUND, "AUTH_SESSION_NOT_FOUND"):
        await stranger.stubs.auth.RevokeAuthSession(
            pb.RevokeAuthSessionRequest(auth_session_id=listed.auth_sessions[0].auth_session_id)
        )


async def test_all_others_are_ended_and_this_one_is_not(cluster: Cluster, account: Account) -> None:
    await sign_in(cluster, account.email)
    here = await sign_in(cluster, account.email)

    answer = await here.stubs.auth.RevokeAuthSession(pb.RevokeAuthSessionRequest(all_others=True))

    assert answer.revoked_count == 2
    (auth_session,) = (await here.stubs.auth.ListAuthSessions(pb.ListAuthSessionsRequest())).auth_sessions
    assert auth_session.current


@pytest.mark.parametrize("both", [True, False])
async def test_one_sign_in_or_all_others_are_named(account: Account, both: bool) -> None:  # noqa: FBT001 - a parameter.
    auth_session_id = "00000000-0000-7000-8000-000000000000" if both else ""

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await account.stubs.auth.RevokeAuthSession(
            pb.RevokeAuthSessionRequest(auth_session_id=auth_session_id, all_others=both)
        )


async def test_sign_ins_and_failed_ones_are_recorded(cluster: Cluster, account: Account) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await cluster.anonymous.auth.SignIn(wrong(account.email))

    listed = await account.stubs.auth.ListMyAuditEvents(pb.ListMyAuditEventsRequest())

    newest, before, first = listed.audit_events[:3]
    assert (newest.event, newest.outcome, newest.reason) == ("sign_in", pb.AUDIT_OUTCOME_REFUSED, "SIGN_IN_REFUSED")
    assert (before.event, before.outcome) == ("sign_in", pb.AUDIT_OUTCOME_SUCCESS)
    assert first.event == "sign_up"
    assert newest.address


async def test_an_unknown_address_is_as_much_work_as_a_wrong_password(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = PasswordHasher.verify
    costs: list[tuple[int, int, int]] = []

    def weighed(hasher: PasswordHasher, stored: str, text: str) -> bool:
        result = extract_parameters(stored)
        costs.append((result.memory_cost, result.time_cost, result.parallelism))
        return verify(hasher, stored, text)

    monkeypatch.setattr(PasswordHasher, "verify", weighed)
    async with run_auth_server(database, SKEIN_ADVANCED_PASSWORD_HASH_MEMORY_KIB="128") as auth_server:
        known = (await auth_server.sign_up()).email
        costs.clear()
        for email in (known, new_email()):
            with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
                await auth_server.anonymous.SignIn(wrong(email))

    of_known, of_unknown = costs
    # Without the hash an unknown address would take a small part of the time.
    assert of_unknown == of_known
    assert of_known[:2] == (128, 2)
