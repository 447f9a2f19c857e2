from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import grpc
import pytest
from fix_accounts import PASSWORD, Account, member, new_account, new_email, sign_in
from fix_auth import run_auth_server
from fix_cluster import Cluster, Tenant, refused
from fix_database import TestDatabase
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.tenancy.v1 import members_pb2
from skein_kit.database.connection_settings import connect_arguments
from skein_kit.settings import SettingInvalid

NEW_PASSWORD = "another horse battery"
GONE = (
    "accounts WHERE account_id", "auth_sessions WHERE account_id", "identities WHERE account_id",
    "recovery_codes WHERE account_id", "one_time_tokens WHERE account_id",
)  # fmt: skip


@pytest.fixture
async def account(cluster: Cluster) -> Account:
    return await new_account(cluster)


def of_memory_vault(password: str) -> str:
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt of 16 bytes", 1000)
    return "$".join(
        ("pbkdf2_sha256", "1000", *(base64.b64encode(part).decode() for part in (b"salt of 16 bytes", digest)))
    )


@asynccontextmanager
async def superuser(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    url = cluster.postgres.url(user="postgres", database="skein")
    connection = await asyncpg.connect(**connect_arguments(url, "postgres"))
    try:
        yield connection
    finally:
        await connection.close()


async def stored_hash(cluster: Cluster, account_id: str) -> str:
    async with superuser(cluster) as connection:
        query = "SELECT password_hash FROM auth.accounts WHERE account_id = $1"
        return str(await connection.fetchval(query, account_id))


async def test_an_address_belongs_to_one_account(cluster: Cluster, account: Account) -> None:
    with refused(grpc.StatusCode.ALREADY_EXISTS, "ACCOUNT_EXISTS"):
        await cluster.anonymous.auth.SignUp(pb.SignUpRequest(email=account.email.upper(), password=PASSWORD))


async def test_a_short_password_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PASSWORD_TOO_SHORT"):
        await cluster.anonymous.auth.SignUp(pb.SignUpRequest(email=new_email(), password="nine char"))


async def test_closed_sign_up_refuses_new_accounts(database: TestDatabase) -> None:
    async with run_auth_server(database, SKEIN_SIGN_UP="closed") as auth_server:
        with refused(grpc.StatusCode.PERMISSION_DENIED, "SIGN_UP_CLOSED"):
            await auth_server.anonymous.SignUp(pb.SignUpRequest(email=new_email(), password=PASSWORD))


@pytest.mark.system
async def test_invited_sign_up_needs_an_invitation(database: TestDatabase) -> None:
    async with run_auth_server(database, SKEIN_SIGN_UP="invited") as auth_server:
        with refused(grpc.StatusCode.PERMISSION_DENIED, "SIGN_UP_CLOSED"):
            await auth_server.anonymous.SignUp(pb.SignUpRequest(email=new_email(), password=PASSWORD))


async def test_a_setting_of_sign_up_that_is_none_is_noticed_at_the_start(database: TestDatabase) -> None:
    with pytest.raises(SettingInvalid):
        async with run_auth_server(database, SKEIN_SIGN_UP="perhaps"):
            pass


async def test_an_invitation_that_the_inviter_hands_over_verifies_no_address(cluster: Cluster, tenant: Tenant) -> None:
    """An inviter could otherwise sign up with another person's address and have it verified."""
    email, other = new_email(), new_email()
    made = await tenant.tenancy.CreateInvitation(
        members_pb2.CreateInvitationRequest(email=email, role=members_pb2.ROLE_MEMBER)
    )

    answers = [
        await cluster.anonymous.auth.SignUp(
            pb.SignUpRequest(email=address, password=PASSWORD, invitation_token=made.token)
        )
        for address in (email, other)
    ]

    assert [answer.account.HasField("email_verify_time") for answer in answers] == [False, False]


async def test_a_name_is_changed_once(account: Account) -> None:
    request = pb.UpdateMeRequest(account=pb.Account(display_name="Ann", revision=1), request_id="r")

    first = await account.stubs.auth.UpdateMe(request)
    again = await account.stubs.auth.UpdateMe(request)

    assert again == first
    assert (first.account.display_name, first.account.revision, first.account.email) == ("Ann", 2, account.email)


async def test_a_stale_account_is_refused(account: Account) -> None:
    request = pb.UpdateMeRequest(account=pb.Account(display_name="Ann", revision=1))
    await account.stubs.auth.UpdateMe(request)

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await account.stubs.auth.UpdateMe(request)


async def test_an_account_cannot_reactivate_itself(account: Account) -> None:
    change = pb.Account(status=pb.ACCOUNT_STATUS_ACTIVE)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await account.stubs.auth.UpdateMe(pb.UpdateMeRequest(account=change, update_mask=FieldMask(paths=["status"])))


@pytest.mark.parametrize("email", ["", "nobody", "a b@example.org", "ä@example.org", "a@" + "x" * 250 + ".org"])
async def test_an_address_that_is_none_is_refused(account: Account, email: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await account.stubs.auth.UpdateMe(
            pb.UpdateMeRequest(account=pb.Account(email=email), update_mask=FieldMask(paths=["email"]))
        )


async def test_an_account_cannot_take_the_address_of_another(cluster: Cluster, account: Account) -> None:
    other = await new_account(cluster)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "ACCOUNT_EXISTS"):
        await account.stubs.auth.UpdateMe(
            pb.UpdateMeRequest(account=pb.Account(email=other.email), update_mask=FieldMask(paths=["email"]))
        )


async def test_a_changed_password_ends_every_other_sign_in(cluster: Cluster, account: Account) -> None:
    here = await sign_in(cluster, account.email)
    request = pb.ChangePasswordRequest(old_password=PASSWORD, new_password=NEW_PASSWORD, request_id="r")

    await here.stubs.auth.ChangePassword(request)
    await here.stubs.auth.ChangePassword(request)

    (auth_session,) = (await here.stubs.auth.ListAuthSessions(pb.ListAuthSessionsRequest())).auth_sessions
    assert auth_session.current
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await sign_in(cluster, account.email)
    assert await sign_in(cluster, account.email, NEW_PASSWORD)


async def test_the_old_password_is_needed_for_a_new_one(account: Account) -> None:
    request = pb.ChangePasswordRequest(old_password="not the password", new_password=NEW_PASSWORD)
    for _ in range(10):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PASSWORD_WRONG"):
            await account.stubs.auth.ChangePassword(request)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await account.stubs.auth.ChangePassword(request)


@pytest.mark.parametrize("method", ["DeactivateMe", "DeleteMe"])
async def test_an_account_cannot_be_closed_without_its_password(account: Account, method: str) -> None:
    request = getattr(pb, f"{method}Request")(password="not the password")

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PASSWORD_WRONG"):
        await getattr(account.stubs.auth, method)(request)


async def test_nothing_of_a_deleted_account_is_left(cluster: Cluster, tenant: Tenant) -> None:
    account = await member(cluster, tenant, "member")
    await cluster.operator.auth.CreateOneTimeToken(
        pb.CreateOneTimeTokenRequest(account_id=account.account_id, purpose=pb.TOKEN_PURPOSE_PASSWORD_RESET)
    )

    await account.stubs.auth.DeleteMe(pb.DeleteMeRequest(password=PASSWORD))

    with refused(grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"):
        await cluster.operator.auth.GetAccount(pb.GetAccountRequest(account_id=account.account_id))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))
    async with superuser(cluster) as connection:
        for rows in GONE:
            count = await connection.fetchval(f"SELECT count(*) FROM auth.{rows} = $1", account.account_id)  # noqa: S608 - of ours.
            assert count == 0, rows
        query = "SELECT count(*) FROM tenancy.memberships WHERE account_id = $1"
        assert await connection.fetchval(query, account.account_id) == 0


async def test_the_last_owner_of_a_tenant_cannot_leave(cluster: Cluster, tenant: Tenant) -> None:
    owner = await member(cluster, tenant, "owner")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_OWNER"):
        await owner.stubs.auth.DeleteMe(pb.DeleteMeRequest(password=PASSWORD))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_OWNER"):
        await cluster.operator.auth.DeleteAccount(pb.DeleteAccountRequest(account_id=owner.account_id))
    assert await sign_in(cluster, owner.email)


async def test_an_operator_deletes_an_account_once(cluster: Cluster, account: Account) -> None:
    request = pb.DeleteAccountRequest(account_id=account.account_id, request_id=str(uuid.uuid4()))

    await cluster.operator.auth.DeleteAccount(request)
    await cluster.operator.auth.DeleteAccount(request)

    request.request_id = ""
    with refused(grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"):
        await cluster.operator.auth.DeleteAccount(request)


async def test_a_password_hash_of_memory_vault_is_replaced_at_sign_in(cluster: Cluster) -> None:
    email = new_email()
    made = await cluster.operator.auth.CreateAccount(
        pb.CreateAccountRequest(email=email, password_hash=of_memory_vault("short"), email_verified=True)
    )

    signed_in = await sign_in(cluster, email, "short")

    assert signed_in.account_id == made.account.account_id
    assert made.account.HasField("email_verify_time")
    assert (await stored_hash(cluster, signed_in.account_id)).startswith("$argon2id$")
    assert (await sign_in(cluster, email, "short")).account_id == made.account.account_id


async def test_an_unknown_password_hash_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PASSWORD_HASH_UNKNOWN"):
        await cluster.operator.auth.CreateAccount(pb.CreateAccountRequest(email=new_email(), password_hash="md5$x"))


async def test_an_account_without_a_password_gets_one_from_its_owner_alone(cluster: Cluster) -> None:
    email = new_email()
    await cluster.operator.auth.CreateAccount(pb.CreateAccountRequest(email=email))

    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await sign_in(cluster, email, PASSWORD)


async def test_an_account_is_found_by_its_id_and_by_its_address(cluster: Cluster, account: Account) -> None:
    requests = (pb.GetAccountRequest(account_id=account.account_id), pb.GetAccountRequest(email=account.email.upper()))

    account_ids = [(await cluster.operator.auth.GetAccount(request)).account.account_id for request in requests]

    assert account_ids == [account.account_id] * 2
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await cluster.operator.auth.GetAccount(pb.GetAccountRequest())


async def test_accounts_are_listed_newest_first(cluster: Cluster) -> None:
    made = [(await new_account(cluster)).account_id for _ in range(3)]

    first = await cluster.operator.auth.ListAccounts(pb.ListAccountsRequest(page_size=2))
    second = await cluster.operator.auth.ListAccounts(
        pb.ListAccountsRequest(page_size=2, page_token=first.next_page_token)
    )

    listed = [account.account_id for account in (*first.accounts, *second.accounts)]
    assert listed[:3] == made[::-1]


async def test_an_operator_s_new_address_is_not_verified(cluster: Cluster) -> None:
    made = await cluster.operator.auth.CreateAccount(pb.CreateAccountRequest(email=new_email(), email_verified=True))
    change = pb.Account(account_id=made.account.account_id, email=new_email())

    answer = await cluster.operator.auth.UpdateAccount(
        pb.UpdateAccountRequest(account=change, update_mask=FieldMask(paths=["email"]))
    )

    assert answer.account.email == change.email
    assert not answer.account.HasField("email_verify_time")


async def test_a_deactivated_account_comes_back_without_its_sign_ins(cluster: Cluster, account: Account) -> None:
    request = pb.UpdateAccountRequest(update_mask=FieldMask(paths=["status"]))
    for status in (pb.ACCOUNT_STATUS_DEACTIVATED, pb.ACCOUNT_STATUS_ACTIVE):
        request.account.CopyFrom(pb.Account(account_id=account.account_id, status=status))
        await cluster.operator.auth.UpdateAccount(request)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))
    assert await sign_in(cluster, account.email)


async def test_services_learn_what_they_may_know_of_an_account(cluster: Cluster, account: Account) -> None:
    exchange = auth_pb2.ExchangeRequest(
        system=auth_pb2.SystemCredential(key=cluster.environment["SKEIN_SYSTEM_KEY"], service="worker")
    )
    async with cluster.direct("auth") as channel:
        identity = auth_pb2_grpc.AuthInternalServiceStub(channel)
        metadata = (("authorization", f"Bearer {(await identity.Exchange(exchange)).token}"),)

        response = await identity.GetAccountState(
            auth_pb2.GetAccountStateRequest(email=account.email), metadata=metadata
        )

    assert (response.account_id, response.email, response.email_verified) == (account.account_id, account.email, False)
    assert response.active
