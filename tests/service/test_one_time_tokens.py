from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email import message_from_bytes, policy
from typing import Any

import grpc
import pytest
from aiosmtpd.smtp import SMTP
from fix_accounts import PASSWORD, Account, new_account, new_email, sign_in
from fix_auth import run_auth_server
from fix_cluster import Cluster, refused
from fix_database import TestDatabase
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import one_time_tokens
from skein_auth.attempts import limiter

NEW_PASSWORD = "another horse battery"
ISSUER = "https://skein.example.com"


class Inbox:
    """A real SMTP server that keeps what it takes."""

    def __init__(self) -> None:
        self._mails: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        text = message_from_bytes(envelope.content, policy=policy.default).get_content()
        self._mails.put_nowait((envelope.rcpt_tos[0], text))
        return "250 OK"

    async def token(self, page: str) -> tuple[str, str]:
        """Wait for a mail; return whom it is for and the token in its link to this page."""
        to, text = await asyncio.wait_for(self._mails.get(), 60)
        items = re.search(rf"^{re.escape(ISSUER)}/account/{page}\?token=(\S+)$", text.replace("\r", ""), re.MULTILINE)
        assert items, text
        return to, items.group(1)

    def is_empty(self) -> bool:
        return self._mails.empty()


@asynccontextmanager
async def relay() -> AsyncIterator[tuple[Inbox, dict[str, str]]]:
    """Run a server, and return the settings that lead to it."""
    inbox = Inbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(inbox), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield (
            inbox,
            {
                "SKEIN_SMTP_URL": f"smtp://127.0.0.1:{port}?starttls=off",
                "SKEIN_MAIL_FROM": "skein@example.com",
                "SKEIN_ISSUER": ISSUER,
            },
        )


@pytest.fixture
async def account(cluster: Cluster) -> Account:
    return await new_account(cluster)


async def made(cluster: Cluster, account: Account, purpose: pb.TokenPurpose) -> str:
    request = pb.CreateOneTimeTokenRequest(account_id=account.account_id, purpose=purpose)
    return (await cluster.operator.auth.CreateOneTimeToken(request)).token


def verification(token: str) -> pb.VerifyEmailRequest:
    return pb.VerifyEmailRequest(token=token)


def reset(token: str) -> pb.ResetPasswordRequest:
    return pb.ResetPasswordRequest(token=token, new_password=NEW_PASSWORD)


async def test_a_token_verifies_the_address_once(cluster: Cluster, account: Account) -> None:
    token = await made(cluster, account, pb.TOKEN_PURPOSE_EMAIL_VERIFICATION)

    answer = await cluster.anonymous.auth.VerifyEmail(verification(token))

    assert answer.account.HasField("email_verify_time")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.VerifyEmail(verification(token))


async def test_a_new_address_takes_the_old_one_s_place_when_it_is_verified(cluster: Cluster, account: Account) -> None:
    old_token = await made(cluster, account, pb.TOKEN_PURPOSE_EMAIL_VERIFICATION)
    email = new_email()
    change = pb.UpdateMeRequest(account=pb.Account(email=email), update_mask=FieldMask(paths=["email"]))
    waiting = await account.stubs.auth.UpdateMe(change)
    token = await made(cluster, account, pb.TOKEN_PURPOSE_EMAIL_VERIFICATION)

    answer = await cluster.anonymous.auth.VerifyEmail(verification(token))

    assert waiting.account.email == account.email
    assert answer.account.email == email
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.VerifyEmail(verification(old_token))


async def test_an_address_that_another_account_took_meanwhile_is_not_verified(
    cluster: Cluster, account: Account
) -> None:
    email = new_email()
    change = pb.UpdateMeRequest(account=pb.Account(email=email), update_mask=FieldMask(paths=["email"]))
    await account.stubs.auth.UpdateMe(change)
    token = await made(cluster, account, pb.TOKEN_PURPOSE_EMAIL_VERIFICATION)
    await cluster.anonymous.auth.SignUp(pb.SignUpRequest(email=email, password=PASSWORD))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.VerifyEmail(verification(token))


async def test_a_token_sets_a_password_and_ends_every_sign_in(cluster: Cluster, account: Account) -> None:
    token = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)

    await cluster.anonymous.auth.ResetPassword(reset(token))

    assert await sign_in(cluster, account.email, NEW_PASSWORD)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await sign_in(cluster, account.email)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.anonymous.auth.RefreshSession(pb.RefreshSessionRequest(refresh_token=account.refresh_token))


async def test_one_of_simultaneous_resets_wins(cluster: Cluster, account: Account) -> None:
    token = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)

    outcomes = await asyncio.gather(
        *(cluster.anonymous.auth.ResetPassword(reset(token)) for _ in range(4)), return_exceptions=True
    )

    assert sum(isinstance(outcome, aio.AioRpcError) for outcome in outcomes) == 3


async def test_a_token_is_good_for_its_purpose_alone(cluster: Cluster, account: Account) -> None:
    verifies = await made(cluster, account, pb.TOKEN_PURPOSE_EMAIL_VERIFICATION)
    resets = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.ResetPassword(reset(verifies))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.VerifyEmail(verification(resets))


async def test_a_changed_password_makes_tokens_worth_nothing(cluster: Cluster, account: Account) -> None:
    token = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)
    request = pb.ChangePasswordRequest(old_password=PASSWORD, new_password=NEW_PASSWORD)
    await account.stubs.auth.ChangePassword(request)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.ResetPassword(reset(token))


async def test_a_token_does_not_let_a_deactivated_account_in(cluster: Cluster, account: Account) -> None:
    token = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)
    await account.stubs.auth.DeactivateMe(pb.DeactivateMeRequest(password=PASSWORD))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
        await cluster.anonymous.auth.ResetPassword(reset(token))


async def test_a_short_password_does_not_spend_a_token(cluster: Cluster, account: Account) -> None:
    token = await made(cluster, account, pb.TOKEN_PURPOSE_PASSWORD_RESET)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PASSWORD_TOO_SHORT"):
        await cluster.anonymous.auth.ResetPassword(pb.ResetPasswordRequest(token=token, new_password="short"))

    await cluster.anonymous.auth.ResetPassword(reset(token))


async def test_a_repeated_request_gets_no_token(cluster: Cluster, account: Account) -> None:
    request = pb.CreateOneTimeTokenRequest(
        account_id=account.account_id, purpose=pb.TOKEN_PURPOSE_PASSWORD_RESET, request_id=str(uuid.uuid4())
    )

    first = await cluster.operator.auth.CreateOneTimeToken(request)
    again = await cluster.operator.auth.CreateOneTimeToken(request)

    assert first.token.startswith("skein_once_")
    assert (again.token, again.expire_time) == ("", first.expire_time)


async def test_a_token_for_an_unknown_account_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"):
        await cluster.operator.auth.CreateOneTimeToken(
            pb.CreateOneTimeTokenRequest(account_id=str(uuid.uuid4()), purpose=pb.TOKEN_PURPOSE_PASSWORD_RESET)
        )


async def test_without_mail_nothing_is_promised(cluster: Cluster, account: Account) -> None:
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MAIL_NOT_CONFIGURED"):
        await cluster.anonymous.auth.RequestPasswordReset(pb.RequestPasswordResetRequest(email=account.email))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MAIL_NOT_CONFIGURED"):
        await account.stubs.auth.RequestEmailVerification(pb.RequestEmailVerificationRequest())


@pytest.mark.system
async def test_a_token_whose_time_is_over_is_refused(database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_time_tokens, "VERIFICATION_LIFETIME", timedelta())
    async with (
        relay() as (inbox, settings),
        run_auth_server(database, **settings) as auth_server,
    ):
        await auth_server.sign_up()
        _, token = await inbox.token("verify")

        with refused(grpc.StatusCode.INVALID_ARGUMENT, "ONE_TIME_TOKEN_INVALID"):
            await auth_server.anonymous.VerifyEmail(verification(token))


@pytest.mark.system
async def test_mails_bring_tokens_that_work(database: TestDatabase) -> None:
    async with relay() as (inbox, settings), run_auth_server(database, **settings) as auth_server:
        person = await auth_server.sign_up()

        to, token = await inbox.token("verify")
        answer = await auth_server.anonymous.VerifyEmail(verification(token))
        await auth_server.anonymous.RequestPasswordReset(pb.RequestPasswordResetRequest(email=person.email.upper()))
        reset_to, reset_token = await inbox.token("reset")
        await auth_server.anonymous.ResetPassword(reset(reset_token))

        assert to == reset_to == person.email
        assert answer.account.HasField("email_verify_time")
        assert await auth_server.sign_in(person.email, password=NEW_PASSWORD)


@pytest.mark.system
async def test_another_mail_is_sent_once_for_a_request_and_never_for_a_verified_address(database: TestDatabase) -> None:
    async with relay() as (inbox, settings), run_auth_server(database, **settings) as auth_server:
        person = await auth_server.sign_up()
        await inbox.token("verify")
        request = pb.RequestEmailVerificationRequest(request_id="r")

        await person.auth.RequestEmailVerification(request)
        await person.auth.RequestEmailVerification(request)
        _, token = await inbox.token("verify")
        await auth_server.anonymous.VerifyEmail(verification(token))
        await person.auth.RequestEmailVerification(pb.RequestEmailVerificationRequest())
        # The one after it: mails are sent in order.
        await auth_server.anonymous.RequestPasswordReset(pb.RequestPasswordResetRequest(email=person.email))

        await inbox.token("reset")
        assert inbox.is_empty()


@pytest.mark.system
async def test_a_reset_does_not_reveal_whether_an_address_has_an_account(database: TestDatabase) -> None:
    async with relay() as (inbox, settings), run_auth_server(database, **settings) as auth_server:
        person = await auth_server.sign_up()
        await inbox.token("verify")

        answers = [
            await auth_server.anonymous.RequestPasswordReset(pb.RequestPasswordResetRequest(email=email))
            for email in (new_email(), "no address at all", person.email)
        ]

        assert answers[0] == answers[1] == answers[2]
        assert (await inbox.token("reset"))[0] == person.email
        assert inbox.is_empty()


@pytest.mark.system
async def test_a_mailbox_is_not_flooded(database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter, "MAX_MAILS_TO", 1)
    async with relay() as (inbox, settings), run_auth_server(database, **settings) as auth_server:
        flooded, other = await auth_server.sign_up(), await auth_server.sign_up()
        for _ in range(2):
            await inbox.token("verify")

        for email in (flooded.email, flooded.email, flooded.email, other.email):
            await auth_server.anonymous.RequestPasswordReset(pb.RequestPasswordResetRequest(email=email))

        assert {(await inbox.token("reset"))[0] for _ in range(2)} == {flooded.email, other.email}
        assert inbox.is_empty()


@pytest.mark.system
async def test_mail_of_another_kind_uses_up_nothing_of_the_links_that_set_a_password(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "MAX_MAILS_TO", 1)
    async with relay() as (inbox, mail), run_auth_server(database, **mail) as auth_server:
        owner, stranger = await auth_server.sign_up(), await auth_server.sign_up()
        for _ in range(2):
            await inbox.token("verify")
        email = new_email()
        await stranger.auth.UpdateMe(
            pb.UpdateMeRequest(account=pb.Account(email=email), update_mask=FieldMask(paths=["email"]))
        )
        assert (await inbox.token("verify"))[0] == email
        await auth_server.anonymous.SignUp(pb.SignUpRequest(email=email, password=PASSWORD))

        await auth_server.anonymous.RequestPasswordReset(pb.RequestPasswordResetRequest(email=email))
        await auth_server.anonymous.RequestPasswordReset(pb.RequestPasswordResetRequest(email=owner.email))

        results = dict([await inbox.token("reset"), await inbox.token("reset")])
        assert set(results) == {email, owner.email}
        await auth_server.anonymous.ResetPassword(reset(results[owner.email]))


@pytest.mark.system
async def test_a_known_device_asks_for_a_new_password_when_its_address_has_asked_too_often(
    database: TestDatabase,
) -> None:
    address = (("skein-client-address", "192.0.2.1"),)
    async with relay() as (inbox, mail), run_auth_server(database, **mail) as auth_server:
        owner = await auth_server.sign_up()
        await inbox.token("verify")
        known = (await auth_server.sign_in(owner.email)).device_token
        for _ in range(10):
            request = pb.RequestPasswordResetRequest(email=new_email())
            await auth_server.anonymous.RequestPasswordReset(request, metadata=address)

        request = pb.RequestPasswordResetRequest(email=owner.email)
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
            await auth_server.anonymous.RequestPasswordReset(request, metadata=address)
        request.device_token = known
        await auth_server.anonymous.RequestPasswordReset(request, metadata=address)

        assert (await inbox.token("reset"))[0] == owner.email
