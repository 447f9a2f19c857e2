"""What an attacker tries against accounts and grants, and does not get."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import grpc
import pytest
from fix_accounts import PASSWORD, Account, new_account, new_email, sign_in
from fix_auth import AuthServer, Person, run_auth_server
from fix_cluster import Cluster, Tenant, refused
from fix_database import TestDatabase
from fix_issuer import Issuer, issuing
from fix_oauth import App
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import oauth_pb2
from skein_auth.accounts.model import TokenPurpose
from skein_auth.accounts.one_time_tokens import MAX_QUEUED_MAILS, OutgoingMail, TokenMailer
from skein_auth.settings import AuthSettings
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import new_id, now
from skein_kit.outbound.mail import Mailer

NEW_PASSWORD = "another horse battery"
INVALID = grpc.StatusCode.INVALID_ARGUMENT
TOO_OLD = (grpc.StatusCode.FAILED_PRECONDITION, "LOGIN_TOO_OLD")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture
async def auth_server(database: TestDatabase, issuer: Issuer) -> AsyncIterator[AuthServer]:
    async with run_auth_server(database, **issuer.settings) as auth_server:
        yield auth_server


def new_address(email: str) -> pb.UpdateMeRequest:
    return pb.UpdateMeRequest(account=pb.Account(email=email), update_mask=FieldMask(paths=["email"]))


async def made(cluster: Cluster, account: Account, purpose: pb.TokenPurpose) -> str:
    request = pb.CreateOneTimeTokenRequest(account_id=account.account_id, purpose=purpose)
    return (await cluster.operator.auth.CreateOneTimeToken(request)).token


async def through_issuer(auth_server: AuthServer, issuer: Issuer, subject: str = "ann") -> Person:
    signed_in = await auth_server.anonymous.SignInWithIdentity(
        pb.SignInWithIdentityRequest(provider="home", token=issuer.id_token(subject))
    )
    return await auth_server.person(signed_in.tokens, signed_in.account)


async def an_hour_later(auth_server: AuthServer, person: Person) -> None:
    await auth_server.rows(
        "UPDATE auth.auth_sessions SET auth_time = auth_time - interval '1 hour' WHERE account_id = $1",
        person.account_id,
    )


@pytest.mark.parametrize("how", ["reset", "change"])
async def test_a_new_password_forgets_an_address_that_a_thief_asked_for(cluster: Cluster, how: str) -> None:
    account = await new_account(cluster)
    await account.stubs.auth.UpdateMe(new_address(new_email()))
    thiefs = await made(cluster, account, pb.TOKEN_PURPOSE_EMAIL_VERIFICATION)

    if how == "reset":
        token = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)
        await cluster.anonymous.auth.ResetPassword(pb.ResetPasswordRequest(token=token, new_password=NEW_PASSWORD))
    else:
        await account.stubs.auth.ChangePassword(
            pb.ChangePasswordRequest(old_password=PASSWORD, new_password=NEW_PASSWORD)
        )

    with refused(INVALID, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.VerifyEmail(pb.VerifyEmailRequest(token=thiefs))
    assert (await sign_in(cluster, account.email, NEW_PASSWORD)).account_id == account.account_id


async def test_taking_over_an_unverified_address_closes_every_other_way_in(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    squatter = await auth_server.sign_up()
    await squatter.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=issuer.id_token("squatter")))
    await squatter.auth.StartTotp(pb.StartTotpRequest(password=PASSWORD))
    await auth_server.rows(
        "UPDATE auth.accounts SET totp_confirm_time = now() WHERE account_id = $1", squatter.account_id
    )
    token = BearerToken.generate("skein_once_", NO_TENANT, new_id(now()))
    await auth_server.rows(
        "INSERT INTO auth.one_time_tokens VALUES ($1, $2, 'password_reset', $3, $4, now(), now() + interval '1 hour')",
        token.token_id, squatter.account_id, token.secret_hash(), squatter.email,
    )  # fmt: skip

    await auth_server.anonymous.ResetPassword(pb.ResetPasswordRequest(token=token.encode(), new_password=NEW_PASSWORD))

    assert (await auth_server.sign_in(squatter.email, password=NEW_PASSWORD)).account.account_id == str(
        squatter.account_id
    )
    assert (await through_issuer(auth_server, issuer, "squatter")).account_id != squatter.account_id


async def test_an_address_in_another_script_is_not_taken_for_its_latin_lookalike(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    token = issuer.id_token("k", email="\N{KELVIN SIGN}im@example.com", email_verified=True)

    signed_in = await auth_server.anonymous.SignInWithIdentity(
        pb.SignInWithIdentityRequest(provider="home", token=token)
    )

    assert signed_in.account.email == ""


async def test_an_account_cannot_try_one_address_after_another(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    for _ in range(10):
        await ann.auth.UpdateMe(new_address(new_email()))

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await ann.auth.UpdateMe(new_address(new_email()))


async def test_a_crowd_of_mails_does_not_tell_who_has_an_account() -> None:
    unused = cast("Any", None)
    post = TokenMailer(unused, Mailer(None, None), unused, AuthSettings(), lambda: "")

    for _ in range(MAX_QUEUED_MAILS + 1):
        post.send(OutgoingMail(account_id=new_id(now()), purpose=TokenPurpose.PASSWORD_RESET, email=new_email()))


async def test_a_stolen_token_of_an_old_sign_in_takes_no_account_over(auth_server: AuthServer, issuer: Issuer) -> None:
    ann, bob = await through_issuer(auth_server, issuer), await auth_server.sign_up()
    for person in (ann, bob):
        await an_hour_later(auth_server, person)

    with refused(*TOO_OLD):
        await ann.auth.ChangePassword(pb.ChangePasswordRequest(new_password=NEW_PASSWORD))
    with refused(*TOO_OLD):
        await ann.auth.DeactivateMe(pb.DeactivateMeRequest())
    with refused(*TOO_OLD):
        await ann.auth.DeleteMe(pb.DeleteMeRequest())
    with refused(*TOO_OLD):
        await ann.auth.StartTotp(pb.StartTotpRequest())
    for person in (ann, bob):
        with refused(*TOO_OLD):
            await person.auth.UpdateMe(new_address(new_email()))
        with refused(*TOO_OLD):
            await person.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=issuer.id_token("thief")))
    await bob.auth.ChangePassword(pb.ChangePasswordRequest(old_password=PASSWORD, new_password=NEW_PASSWORD))
    again = await through_issuer(auth_server, issuer)
    await again.auth.ChangePassword(pb.ChangePasswordRequest(new_password=NEW_PASSWORD))


async def test_a_yes_to_an_application_that_is_gone_is_refused(app: App, account: Account, tenant: Tenant) -> None:
    created = await app.oauth.CreateAuthorization(app.asks())
    await app.oauth.DeleteClient(
        oauth_pb2.DeleteClientRequest(client_id=app.client.client_id, registration_access_token=app.registration)
    )

    with refused(INVALID, "OAUTH_INVALID_REQUEST"):
        await app.approve(account, tenant, handle=created.prompt.handle)
