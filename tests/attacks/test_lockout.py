"""Lock-out: strangers fail on purpose, so that a person, an application or a service account cannot sign in any more.

Attack: wrong passwords, codes and secrets for a name that is public; floods of sign-ins; from one source and from many.
May be seen: SIGN_IN_REFUSED, then TOO_MANY_ATTEMPTS or OVERLOADED, for the stranger; the right secret works beside it.
May be spent: ten guesses in 15 minutes for each source, 40 in an hour; N sources have 40 N in an hour, and all together
    no more than the threads that hash passwords do. Ten audit events for each source and window.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable

import grpc
import pytest
from fix_accounts import PASSWORD, Account, new_account
from fix_attacks import attack_size
from fix_auth import AuthServer, run_auth_server
from fix_cluster import Cluster, Tenant, fault_of, reason_in
from fix_database import TestDatabase
from fix_oauth import App
from fix_web import PASSWORD as PERSONS_PASSWORD
from fix_web import Web, new_person
from grpc import aio

from skein.auth.v1 import accounts_pb2 as pb
from skein.auth.v1 import auth_pb2, auth_pb2_grpc, oauth_pb2
from skein_auth.accounts import passwords

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
# What a source has for one account in a window, as settings have it.
GUESSES = 10
# More wrong tries than any count lets through.
MANY = attack_size(12, 200)


def sources(prefix: str, count: int) -> list[str]:
    return [f"{prefix}.{number // 250}.{number % 250 + 1}" for number in range(count)]


def came_from(source: str) -> tuple[tuple[str, str], ...]:
    """Return what the gateway tells auth of a call from there."""
    return (("skein-client-address", source),)


async def outcome(call: Awaitable[object]) -> str:
    try:
        await call
    except aio.AioRpcError as error:
        return reason_in(error)
    return "passed"


async def guesses(auth: auth_pb2_grpc.AuthServiceAsyncStub, email: str, source: str, count: int) -> Counter[str]:
    """Try so many passwords of an account from one source, and count the answers."""
    counts: Counter[str] = Counter()
    for number in range(count):
        request = pb.SignInRequest(email=email, password=f"a guess at a password {number}", second_factor="123456")
        counts[await outcome(auth.SignIn(request, metadata=came_from(source)))] += 1
    return counts


@pytest.fixture
async def direct_auth(cluster: Cluster) -> AsyncIterator[auth_pb2_grpc.AuthServiceAsyncStub]:
    """Auth as the gateway calls it, so that a test can say where a call comes from."""
    async with cluster.direct("auth") as channel:
        yield auth_pb2_grpc.AuthServiceStub(channel)


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def account(cluster: Cluster) -> Account:
    return await new_account(cluster)


@pytest.mark.system
async def test_public_client_ids_do_not_lock_their_client_out(web: Web) -> None:
    client = await web.register(token_endpoint_auth_method="client_secret_post")
    public = {"client_id": client["client_id"], "token": "x", "grant_type": "refresh_token", "refresh_token": "x"}
    for secret in ({}, {"client_secret": "wrong"}):
        for path in ("/token", "/revoke", "/introspect"):
            statuses = [(await web.post(path, {**public, **secret})).status_code for _ in range(MANY)]
            assert set(statuses) <= {401, 429}

    right = {**public, "client_secret": client["client_secret"]}
    answers = {path: await web.post(path, right) for path in ("/token", "/revoke", "/introspect")}

    assert (answers["/token"].status_code, answers["/token"].json()["error"]) == (400, "invalid_grant")
    assert (answers["/revoke"].status_code, answers["/introspect"].status_code) == (200, 200)
    assert answers["/introspect"].json() == {"active": False}


@pytest.mark.system
async def test_public_service_account_ids_do_not_lock_their_service_account_out(web: Web, tenant: Tenant) -> None:
    made = await tenant.auth.CreateServiceAccount(
        pb.CreateServiceAccountRequest(
            service_account=pb.ServiceAccount(display_name="nightly", permissions=["memory.read"])
        )
    )
    client_id = made.service_account.service_account_id
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="k", service_account_id=client_id))
    fields = {"grant_type": "client_credentials", "client_id": client_id, "token": "x"}
    for secret in ({}, {"client_secret": "wrong"}, {"client_secret": key.secret[:-1]}):
        for path in ("/token", "/revoke", "/introspect"):
            statuses = [(await web.post(path, {**fields, **secret})).status_code for _ in range(MANY)]
            assert set(statuses) <= {401, 429}

    answer = await web.post("/token", {**fields, "client_secret": key.secret})

    assert (answer.status_code, answer.json()["token_type"]) == (200, "Bearer")


@pytest.mark.system
async def test_a_source_has_ten_guesses_and_the_owner_has_all_others(
    direct_auth: auth_pb2_grpc.AuthServiceAsyncStub, account: Account
) -> None:
    strangers = sources("10.1", attack_size(4, 100))

    answers = [await guesses(direct_auth, account.email, source, MANY) for source in strangers]

    assert answers == [Counter(SIGN_IN_REFUSED=GUESSES, TOO_MANY_ATTEMPTS=MANY - GUESSES)] * len(strangers)
    right = pb.SignInRequest(email=account.email, password=PASSWORD)
    assert await outcome(direct_auth.SignIn(right, metadata=came_from("198.51.100.7"))) == "passed"
    # Nothing is learnt where the guesses are used up: the right one is answered as the wrong ones are.
    assert await outcome(direct_auth.SignIn(right, metadata=came_from(strangers[0]))) == "TOO_MANY_ATTEMPTS"


async def test_an_address_block_of_ipv6_is_one_source(
    direct_auth: auth_pb2_grpc.AuthServiceAsyncStub, account: Account
) -> None:
    answers: Counter[str] = Counter()
    for number in range(MANY):
        answers += await guesses(direct_auth, account.email, f"2001:db8::{number + 1:x}", 1)

    assert answers == Counter(SIGN_IN_REFUSED=GUESSES, TOO_MANY_ATTEMPTS=MANY - GUESSES)


async def test_a_browser_that_signed_in_before_is_not_locked_out_by_its_own_address(
    cluster: Cluster, web: Web, tenant: Tenant
) -> None:
    person = await new_person(cluster, tenant)
    signed_in = await web.submit(await web.get("/console"), "sign_in", email=person.email, password=PERSONS_PASSWORD)
    (cookie,) = [text for text in signed_in.headers.get_list("set-cookie") if text.startswith("skein-device=")]
    async with Web.of(cluster.addresses["http"]) as stranger:
        page = await stranger.get("/console")
        statuses = [
            (await stranger.submit(page, "sign_in", email=person.email, password=f"a guess {number}")).status_code
            for number in range(GUESSES + 1)
        ]
        assert statuses[-1] == 429
        right = await stranger.submit(page, "sign_in", email=person.email, password=PERSONS_PASSWORD)
        assert right.status_code == 429

    web.client.cookies.delete("skein")
    again = await web.submit(await web.get("/console"), "sign_in", email=person.email, password=PERSONS_PASSWORD)

    assert again.status_code == 303
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}


@pytest.mark.system
async def test_right_credentials_pass_an_address_whose_failures_are_used_up(database: TestDatabase) -> None:
    """As behind a proxy that SKEIN_TRUSTED_PROXIES does not name: all callers have one address."""
    address = came_from("192.0.2.1")
    async with run_auth_server(database) as auth_server:
        owner = await auth_server.sign_up()
        app = await App.registered(auth_server.channel)
        for number in range(MANY):
            answers = await guesses(auth_server.anonymous, f"stranger{number}@example.org", "192.0.2.1", 1)
            assert set(answers) <= {"SIGN_IN_REFUSED", "TOO_MANY_ATTEMPTS"}
        assert await guesses(auth_server.anonymous, "one-more@example.org", "192.0.2.1", 1) == Counter(
            TOO_MANY_ATTEMPTS=1
        )
        for _ in range(MANY):
            wrong = oauth_pb2.ClientAuthentication(client_id="any", client_secret="wrong", method="client_secret_post")
            revoke = oauth_pb2.RevokeTokenRequest(client=wrong, token="x")
            await fault_of(app.oauth.RevokeToken(revoke, metadata=address))

        right = pb.SignInRequest(email=owner.email, password=PASSWORD)
        assert await outcome(auth_server.anonymous.SignIn(right, metadata=address)) == "passed"
        revoked = app.oauth.RevokeToken(oauth_pb2.RevokeTokenRequest(client=app.proof, token="x"), metadata=address)
        assert await outcome(revoked) == "passed"
        # A stranger does not fill the audit either: ten events of sign-ins, ten of clients.
        (refusals,) = await auth_server.rows("SELECT count(*) FROM auth.audit_events WHERE outcome = 'refused'")
        assert refusals[0] == 2 * GUESSES


@pytest.mark.system
async def test_a_flood_of_sign_ins_from_one_source_leaves_turns_for_others(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "MAX_WAITING", 4)
    slow = {"SKEIN_ADVANCED_PASSWORD_HASH_MEMORY_KIB": "16384", "SKEIN_PASSWORD_HASH_THREADS": "1"}
    async with run_auth_server(database, **slow) as auth_server:
        owner = await auth_server.sign_up()
        flood = [
            asyncio.create_task(guesses(auth_server.anonymous, f"s{number}@example.org", "10.9.9.9", 2))
            for number in range(attack_size(24, 200))
        ]
        right = pb.SignInRequest(email=owner.email, password=PASSWORD)

        others = [
            await outcome(auth_server.anonymous.SignIn(right, metadata=came_from(source)))
            for source in sources("10.2", attack_size(4, 40))
        ]

        answers = sum(await asyncio.gather(*flood), Counter())
        assert set(others) == {"passed"}
        assert answers["OVERLOADED"] > 0
        fault = await overloaded(auth_server)
        assert (fault.code(), reason_in(fault)) == (EXHAUSTED, "OVERLOADED")


async def overloaded(auth_server: AuthServer) -> aio.AioRpcError:
    """Return how a sign-in is refused when more come at once than can wait."""
    calls = [
        auth_server.anonymous.SignIn(pb.SignInRequest(email=f"t{number}@example.org", password=PASSWORD))
        for number in range(16)
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return next(one for one in answers if isinstance(one, aio.AioRpcError) and reason_in(one) == "OVERLOADED")
