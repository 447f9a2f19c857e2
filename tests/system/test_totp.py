"""The second factor of an account."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import grpc
import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from fix_auth import PASSWORD, AuthServer, Person, run_auth_server
from fix_cluster import SYSTEM_KEY, refused
from fix_database import TestDatabase
from fix_issuer import issuing
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.encryption import SecretCipher
from skein_auth.second_factor.model import Secret, generate_recovery_codes, hash_recovery_code
from skein_auth.settings import SystemKeys
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.identity.identity_token import Caller


@pytest.fixture
async def auth_server(database: TestDatabase) -> AsyncIterator[AuthServer]:
    async with run_auth_server(database) as auth_server:
        yield auth_server


class Authenticator:
    """What a person has on their telephone; it never shows a code that it showed before."""

    def __init__(self, secret: str) -> None:
        self._codes = TOTP(base64.b32decode(secret + "=" * (-len(secret) % 8)), 6, SHA1(), 30)  # noqa: S303 - the standard's.
        self._now = int(time.time())
        self._shown = 0

    def code(self) -> str:
        """Show a code that was not shown before: two can be asked for without waiting, whenever the step ends."""
        self._shown += 1
        return self.of(self._shown - 1)

    def of(self, step: int) -> str:
        """Show the code of this step; that of 0 began before the authenticator was set up."""
        return self._codes.generate(self._now + 30 * step).decode()


async def started(person: Person) -> Authenticator:
    answer = await person.auth.StartTotp(pb.StartTotpRequest(password=PASSWORD))
    return Authenticator(answer.secret)


async def confirmed(person: Person) -> tuple[Authenticator, list[str]]:
    """Give a person a second factor; the first code is spent."""
    authenticator = await started(person)
    answer = await person.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=authenticator.code()))
    return authenticator, list(answer.recovery_codes)


async def wrong_code(auth_server: AuthServer, person: Person, code: str = "not a code") -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await auth_server.sign_in(person.email, code)


@pytest.mark.parametrize(
    ("at", "code"), [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")]
)
def test_codes_are_those_of_the_standard(at: int, code: str) -> None:
    secret, moment = Secret(b"12345678901234567890"), datetime.fromtimestamp(at, UTC)

    assert secret.find_step(code, moment, after=0) == at // 30
    assert secret.find_step(code, moment, after=at // 30) is None
    assert secret.find_step("000000", moment, after=0) is None


@pytest.mark.parametrize(("late", "is_good"), [(-61, False), (-30, True), (0, True), (30, True), (61, False)])
def test_a_code_is_good_for_a_step_more_on_either_side(late: int, *, is_good: bool) -> None:
    secret, at = Secret(b"12345678901234567890"), 1_700_000_010
    code = TOTP(secret.raw, 6, SHA1(), 30).generate(at).decode()  # noqa: S303 - the standard's.

    step = secret.find_step(code, datetime.fromtimestamp(at + late, UTC), after=0)

    assert (step is not None) == is_good


def test_recovery_codes_are_recognised_however_they_are_typed() -> None:
    codes = generate_recovery_codes()

    assert len(set(codes)) == 10
    assert all(len(code.replace("-", "")) == 16 for code in codes)
    assert hash_recovery_code(codes[0]) == hash_recovery_code(f" {codes[0].replace('-', ' ').upper()} ")
    assert hash_recovery_code(codes[0]) != hash_recovery_code(codes[1])


def test_a_secret_is_shown_nowhere() -> None:
    secret = Secret.generate()

    assert str(secret.raw) not in f"{secret!r} {secret}"


def test_a_stored_request_holds_no_hash_of_a_password() -> None:
    who = Caller(principal="account:1", tenant_id=None, permissions=frozenset())
    requests = [pb.StartTotpRequest(password=password, request_id="r") for password in ("one", "another", "")]

    assert len({IdempotencyKey.of(who, request).fingerprint for request in requests}) == 1


async def test_the_second_factor_is_obligatory_once_it_is_confirmed(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator = await started(ann)
    assert (await auth_server.sign_in(ann.email)).tokens.access_token

    answer = await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=authenticator.code()))

    assert len(answer.recovery_codes) == 10
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SECOND_FACTOR_REQUIRED"):
        await auth_server.sign_in(ann.email)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await auth_server.sign_in(ann.email, password="a wrong password")
    signed_in = await auth_server.sign_in(ann.email, authenticator.code())
    assert signed_in.account.has_totp


async def test_the_secret_can_be_scanned_and_lies_sealed(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()

    answer = await ann.auth.StartTotp(pb.StartTotpRequest(password=PASSWORD))

    uri = urlsplit(answer.uri)
    query = parse_qs(uri.query)
    assert (uri.scheme, uri.netloc) == ("otpauth", "totp")
    assert (query["secret"], query["issuer"], query["digits"]) == ([answer.secret], ["Skein"], ["6"])
    (row,) = await auth_server.rows("SELECT encrypted_totp_secret AS sealed FROM auth.accounts")
    assert base64.b32decode(answer.secret) not in row["sealed"]


async def test_no_code_works_twice(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator, _ = await confirmed(ann)
    code = authenticator.code()

    outcomes = await asyncio.gather(*(auth_server.sign_in(ann.email, code) for _ in range(5)), return_exceptions=True)

    assert sum(isinstance(outcome, pb.SignInResponse) for outcome in outcomes) == 1
    await wrong_code(auth_server, ann, code)


async def test_a_code_from_before_one_that_was_used_is_no_good(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator = await started(ann)
    await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=authenticator.of(1)))

    await wrong_code(auth_server, ann, authenticator.of(0))
    await wrong_code(auth_server, ann, authenticator.of(1))


async def test_a_recovery_code_works_once(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    _, codes = await confirmed(ann)

    outcomes = await asyncio.gather(
        *(auth_server.sign_in(ann.email, codes[3]) for _ in range(5)), return_exceptions=True
    )

    assert sum(isinstance(outcome, pb.SignInResponse) for outcome in outcomes) == 1
    assert (await auth_server.sign_in(ann.email, codes[4].upper().replace("-", " "))).tokens.access_token


async def test_codes_of_another_account_are_no_good(auth_server: AuthServer) -> None:
    ann, ben = await auth_server.sign_up(), await auth_server.sign_up()
    await confirmed(ann)
    authenticator, codes = await confirmed(ben)

    await wrong_code(auth_server, ann, authenticator.code())
    await wrong_code(auth_server, ann, codes[0])


async def test_guesses_are_limited(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator, _ = await confirmed(ann)
    for _ in range(10):
        await wrong_code(auth_server, ann, "nnnn-nnnn-nnnn-nnnn")

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await auth_server.sign_in(ann.email, authenticator.code())


async def test_strangers_without_the_password_do_not_lock_the_second_factor(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator, _ = await confirmed(ann)
    for number in range(30):
        with pytest.raises(aio.AioRpcError):
            await auth_server.sign_in(ann.email, f"{number:06}", password="a wrong password")

    assert (await auth_server.sign_in(ann.email, authenticator.code())).tokens.access_token


async def test_the_right_password_with_the_right_code_passes_the_wrong_passwords_of_its_source(
    auth_server: AuthServer,
) -> None:
    ann = await auth_server.sign_up()
    authenticator, codes = await confirmed(ann)
    for _ in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.sign_in(ann.email, password="a wrong password")

    for password, code in ((PASSWORD, ""), (PASSWORD, "000000"), ("a wrong password", codes[0])):
        # Neither factor is told to be right without the other.
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
            await auth_server.sign_in(ann.email, code, password=password)
    assert (await auth_server.sign_in(ann.email, authenticator.code())).tokens.access_token
    assert (await auth_server.sign_in(ann.email, codes[1])).tokens.access_token


async def test_a_code_does_not_help_an_account_that_has_no_second_factor(auth_server: AuthServer) -> None:
    ben = await auth_server.sign_up()
    for _ in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.sign_in(ben.email, password="a wrong password")

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await auth_server.sign_in(ben.email, "123456")


async def test_codes_beside_the_right_password_are_limited_whatever_sources_they_come_from(
    auth_server: AuthServer,
) -> None:
    ann = await auth_server.sign_up()
    authenticator, _ = await confirmed(ann)
    for number in range(10):
        request = pb.SignInRequest(email=ann.email, password=PASSWORD, second_factor="nnnn-nnnn-nnnn-nnnn")
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignIn(request, metadata=(("skein-client-address", f"192.0.2.{number}"),))

    right = pb.SignInRequest(email=ann.email, password=PASSWORD, second_factor=authenticator.code())
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await auth_server.anonymous.SignIn(right, metadata=(("skein-client-address", "198.51.100.1"),))


async def test_the_password_is_asked_for_again_and_guesses_at_it_are_limited(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    for _ in range(10):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PASSWORD_WRONG"):
            await ann.auth.StartTotp(pb.StartTotpRequest(password="a wrong password"))

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await ann.auth.StartTotp(pb.StartTotpRequest(password=PASSWORD))


async def test_an_account_without_a_password_has_none_to_show(database: TestDatabase) -> None:
    with issuing() as issuer:
        async with run_auth_server(database, **issuer.settings) as auth_server:
            request = pb.SignInWithIdentityRequest(provider="home", token=issuer.id_token("ann"))
            signed_in = await auth_server.anonymous.SignInWithIdentity(request)
            ann = await auth_server.person(signed_in.tokens, signed_in.account)
            with refused(grpc.StatusCode.PERMISSION_DENIED, "PASSWORD_WRONG"):
                await ann.auth.StartTotp(pb.StartTotpRequest(password="any"))
            authenticator = Authenticator((await ann.auth.StartTotp(pb.StartTotpRequest())).secret)
            await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=authenticator.code()))

            with refused(grpc.StatusCode.UNAUTHENTICATED, "SECOND_FACTOR_REQUIRED"):
                await auth_server.anonymous.SignInWithIdentity(request)
            request.second_factor = authenticator.code()
            assert (await auth_server.anonymous.SignInWithIdentity(request)).account.has_totp
            with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
                await auth_server.anonymous.SignInWithIdentity(request)


async def test_a_wrong_code_confirms_nothing(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "TOTP_STATE_INVALID"):
        await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code="123456"))
    authenticator = await started(ann)

    with refused(grpc.StatusCode.PERMISSION_DENIED, "CODE_WRONG"):
        await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=authenticator.of(-40)))

    assert (await auth_server.sign_in(ann.email)).tokens.access_token


async def test_a_second_factor_that_counts_cannot_be_replaced(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator, _ = await confirmed(ann)

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "TOTP_STATE_INVALID"):
        await ann.auth.StartTotp(pb.StartTotpRequest(password=PASSWORD))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "TOTP_STATE_INVALID"):
        await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=authenticator.code()))


async def test_starting_again_makes_the_first_secret_worthless(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    first, second = await started(ann), await started(ann)

    with refused(grpc.StatusCode.PERMISSION_DENIED, "CODE_WRONG"):
        await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=first.code()))
    assert (await ann.auth.ConfirmTotp(pb.ConfirmTotpRequest(code=second.code()))).recovery_codes


async def test_repeated_requests_get_no_secret_and_change_nothing(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    start = pb.StartTotpRequest(password=PASSWORD, request_id="r")
    authenticator = Authenticator((await ann.auth.StartTotp(start)).secret)
    assert await ann.auth.StartTotp(start) == pb.StartTotpResponse()
    confirm = pb.ConfirmTotpRequest(code=authenticator.code(), request_id="r")
    assert len((await ann.auth.ConfirmTotp(confirm)).recovery_codes) == 10
    assert await ann.auth.ConfirmTotp(confirm) == pb.ConfirmTotpResponse()
    assert await ann.auth.StartTotp(start) == pb.StartTotpResponse()
    disable = pb.DisableTotpRequest(password=PASSWORD, second_factor=authenticator.code(), request_id="r")

    await ann.auth.DisableTotp(disable)
    await started(ann)
    await ann.auth.DisableTotp(disable)

    (row,) = await auth_server.rows("SELECT encrypted_totp_secret IS NOT NULL AS started FROM auth.accounts")
    assert row["started"]


@pytest.mark.parametrize("by", ["code", "recovery code"])
async def test_a_person_with_both_factors_removes_the_second(auth_server: AuthServer, by: str) -> None:
    ann = await auth_server.sign_up()
    authenticator, codes = await confirmed(ann)
    good = authenticator.code() if by == "code" else codes[0]

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PASSWORD_WRONG"):
        await ann.auth.DisableTotp(pb.DisableTotpRequest(password="a wrong password", second_factor=good))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "CODE_WRONG"):
        await ann.auth.DisableTotp(pb.DisableTotpRequest(password=PASSWORD, second_factor="nnnn"))
    await ann.auth.DisableTotp(pb.DisableTotpRequest(password=PASSWORD, second_factor=good))

    assert not (await auth_server.sign_in(ann.email)).account.has_totp
    assert await auth_server.rows("SELECT FROM auth.recovery_codes") == []
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "TOTP_STATE_INVALID"):
        await ann.auth.DisableTotp(pb.DisableTotpRequest(password=PASSWORD, second_factor=codes[1]))


async def test_a_refused_code_removes_nothing_and_spends_nothing(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    _, codes = await confirmed(ann)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PASSWORD_WRONG"):
        await ann.auth.DisableTotp(pb.DisableTotpRequest(password="a wrong password", second_factor=codes[0]))

    assert (await auth_server.sign_in(ann.email, codes[0])).account.has_totp


async def test_a_secret_is_sealed_anew_after_a_change_of_the_system_key(database: TestDatabase) -> None:
    newer = f"{SYSTEM_KEY}, changed"
    async with run_auth_server(database) as auth_server:
        ann = await auth_server.sign_up()
        authenticator, _ = await confirmed(ann)

    async with run_auth_server(database, system_key=newer, SKEIN_SYSTEM_KEY_PREVIOUS=SYSTEM_KEY) as auth_server:
        assert (await auth_server.sign_in(ann.email, authenticator.code())).account.has_totp

    (row,) = await auth_server.rows("SELECT encrypted_totp_secret AS sealed FROM auth.accounts")
    assert SecretCipher(SystemKeys.of(newer)).decrypt(row["sealed"], name=f"totp:{ann.account_id}")


async def test_second_factor_events_are_recorded(auth_server: AuthServer) -> None:
    ann = await auth_server.sign_up()
    authenticator, _ = await confirmed(ann)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "CODE_WRONG"):
        await ann.auth.DisableTotp(pb.DisableTotpRequest(password=PASSWORD, second_factor="000-000-000"))
    await ann.auth.DisableTotp(pb.DisableTotpRequest(password=PASSWORD, second_factor=authenticator.code()))

    rows = await auth_server.rows(
        "SELECT event, outcome, reason FROM auth.audit_events WHERE event LIKE 'totp%' AND account_id = $1 "
        "ORDER BY create_time",
        ann.account_id,
    )

    assert [tuple(row) for row in rows] == [
        ("totp_started", "success", ""),
        ("totp_confirmed", "success", ""),
        ("totp_disabled", "refused", "CODE_WRONG"),
        ("totp_disabled", "success", ""),
    ]
