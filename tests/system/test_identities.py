"""Signing in with what GitHub or an issuer of OpenID Connect says, both played by a small real server."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc
import pytest
from fix_auth import AuthServer, Person, run_auth_server
from fix_catalogue import over
from fix_cluster import refused
from fix_database import TestDatabase
from fix_issuer import CLIENT_ID, GITHUB_CLIENT_ID, Issuer, issuing, new_key
from joserfc.jwk import ECKey, OKPKey

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.federation.providers import Providers, ProviderSettings
from skein_kit.settings import SettingInvalid


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture
async def auth_server(database: TestDatabase, issuer: Issuer) -> AsyncIterator[AuthServer]:
    async with run_auth_server(database, **issuer.settings) as auth_server:
        yield auth_server


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def with_token(token: str, provider: str = "home", **fields: Any) -> pb.SignInWithIdentityRequest:
    return pb.SignInWithIdentityRequest(provider=provider, token=token, **fields)


@asynccontextmanager
async def settings(database: TestDatabase, issuer: Issuer, **changed: str) -> AsyncIterator[AuthServer]:
    async with run_auth_server(database, **{**issuer.settings, **changed}) as auth_server:
        yield auth_server


async def person(auth_server: AuthServer, issuer: Issuer, subject: str = "ann") -> Person:
    """Sign a person in through the issuer."""
    signed_in = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token(subject)))
    return await auth_server.person(signed_in.tokens, signed_in.account)


async def test_an_id_token_makes_an_account_once_and_signs_in_from_then_on(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    claims: dict[str, Any] = {
        "name": "Ann",
        "email": "Ann@Example.com",
        "email_verified": True,
        "preferred_username": "ann",
    }

    first = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("a-1", **claims)))
    again = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("a-1", name="Another")))

    assert (first.created, again.created) == (True, False)
    assert again.account == first.account
    assert (first.account.email, first.account.display_name) == ("ann@example.com", "Ann")
    assert first.account.HasField("email_verify_time")
    assert not first.account.has_password
    ann = await auth_server.person(again.tokens, again.account)
    (identity,) = (await ann.auth.ListIdentities(pb.ListIdentitiesRequest())).identities
    assert (identity.provider, identity.subject) == (issuer.oidc, "a-1")


async def test_one_of_many_first_sign_ins_at_once_makes_the_account(auth_server: AuthServer, issuer: Issuer) -> None:
    request = with_token(issuer.id_token("ann", email="ann@example.com", email_verified=True))

    answers = await asyncio.gather(*(auth_server.anonymous.SignInWithIdentity(request) for _ in range(8)))

    assert len({answer.account.account_id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert len(await auth_server.rows("SELECT FROM auth.accounts")) == 1


@pytest.mark.parametrize("is_verified", [True, False])
async def test_an_account_is_never_found_by_its_address(
    auth_server: AuthServer, issuer: Issuer, *, is_verified: bool
) -> None:
    ann = await auth_server.sign_up()
    token = issuer.id_token("eve", email=ann.email, email_verified=is_verified)

    answer = await auth_server.anonymous.SignInWithIdentity(with_token(token))

    assert answer.created
    assert answer.account.account_id != str(ann.account_id)
    assert answer.account.email == ""


@pytest.mark.parametrize("is_verified", [False, "true", None])
async def test_an_address_that_the_issuer_has_not_verified_is_not_taken(
    auth_server: AuthServer, issuer: Issuer, is_verified: object
) -> None:
    token = issuer.id_token("ann", email="ann@example.com", email_verified=is_verified)

    answer = await auth_server.anonymous.SignInWithIdentity(with_token(token))

    assert (answer.account.email, answer.account.HasField("email_verify_time")) == ("", False)


REFUSED_CLAIMS: list[dict[str, Any]] = [
    {"iss": "https://other.example"},
    {"iss": None},
    {"aud": "somebody-else"},
    {"aud": None},
    {"aud": []},
    {"aud": [CLIENT_ID, "somebody-else"]},
    {"aud": [CLIENT_ID, "somebody-else"], "azp": "somebody-else"},
    {"azp": "somebody-else"},
    {"azp": 7},
    {"exp": 1_000_000_000},
    {"exp": None},
    {"exp": "9999999999"},
    {"exp": float("nan")},
    {"exp": True},
    {"iat": None},
    {"iat": 9_999_999_999},
    {"nbf": 9_999_999_999},
    {"nonce": "not asked for"},
    {"sub": None},
    {"sub": ""},
    {"sub": 7},
    {"sub": "x" * 256},
    {"sub": "a\x00b"},
]


@over("claims", REFUSED_CLAIMS)
async def test_an_id_token_that_is_not_for_us_or_not_for_now_is_refused(
    auth_server: AuthServer, issuer: Issuer, claims: dict[str, Any]
) -> None:
    token = issuer.id_token(**{"subject": "ann", **claims})
    # From another place each: so many failures would be too many from one.
    metadata = (("skein-client-address", f"192.0.2.{1 + REFUSED_CLAIMS.index(claims)}"),)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await auth_server.anonymous.SignInWithIdentity(with_token(token), metadata=metadata)


@over(
    "claims",
    [
        {"aud": [CLIENT_ID]},
        {"aud": "skein-app", "azp": CLIENT_ID},
        {"aud": [CLIENT_ID, "somebody-else"], "azp": CLIENT_ID},
        {"nbf": 1},
    ],
)
async def test_an_id_token_for_one_of_our_clients_is_taken(
    auth_server: AuthServer, issuer: Issuer, claims: dict[str, Any]
) -> None:
    request = with_token(issuer.id_token(uuid4().hex, **claims))

    assert (await auth_server.anonymous.SignInWithIdentity(request)).created


async def test_the_nonce_must_be_the_one_that_was_asked_for(auth_server: AuthServer, issuer: Issuer) -> None:
    token = issuer.id_token("ann", nonce="n-1")

    for nonce in ("", "n-2"):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token(token, nonce=nonce))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann"), nonce="n-1"))

    assert (await auth_server.anonymous.SignInWithIdentity(with_token(token, nonce="n-1"))).created


async def test_only_the_issuer_s_own_keys_count(auth_server: AuthServer, issuer: Issuer) -> None:
    ours, theirs = issuer.keys[0], new_key("first")
    public = (json.dumps(ours.as_dict(private=False)).encode(), ours.as_pem(private=False), b"")
    head, body, _ = issuer.id_token("ann").split(".")
    unsigned = encoded(b'{"alg":"none","kid":"first"}')
    shared = encoded(b'{"alg":"HS256","kid":"first"}') + f".{body}"
    tokens = [
        issuer.id_token("ann", key=theirs),
        issuer.id_token("ann", key=theirs, header={"jwk": theirs.as_dict(private=False)}),
        issuer.id_token("ann", key=theirs, header={"jku": f"{issuer.url}/realm/keys"}),
        issuer.id_token("ann", key=theirs, header={"kid": None}),
        *(f"{shared}.{encoded(hmac.digest(secret, shared.encode(), 'sha256'))}" for secret in public),
        issuer.id_token("ann", header={"typ": "at+jwt"}),
        f"{unsigned}.{body}.",
        f"{head}.{body}.",
        f"{head}.{body}.AAAA",
        f"{head}.{body}",
        f"{head}.{body}.x.y.z",
        "not a token",
        "ä",
        "\r\nHost: x",
    ]

    for number, token in enumerate(tokens):
        # From another place each: so many failures would be too many from one.
        metadata = (("skein-client-address", f"192.0.2.{number + 1}"),)
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token(token), metadata=metadata)

    assert await auth_server.rows("SELECT FROM auth.accounts") == []


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_other_algorithms_with_public_keys_are_taken(auth_server: AuthServer, issuer: Issuer) -> None:
    issuer.keys = [
        ECKey.generate_key("P-256", {"kid": "ec"}, private=True),
        OKPKey.generate_key("Ed25519", {"kid": "ed"}, private=True),
    ]

    for key, algorithm in zip(issuer.keys, ("ES256", "EdDSA"), strict=True):
        token = issuer.id_token("ann", key=key, header={"alg": algorithm})
        assert (await auth_server.anonymous.SignInWithIdentity(with_token(token))).tokens.access_token


async def test_a_new_key_of_the_issuer_is_learned_and_unknown_ones_do_not_make_us_ask_each_time(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")))
    request_count = len(issuer.requests)
    await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")))
    assert len(issuer.requests) == request_count

    for _ in range(3):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann", key=new_key("unknown"))))

    assert len(issuer.requests) == request_count


async def test_a_key_that_the_issuer_added_signs_in(issuer: Issuer) -> None:
    at = [1_000_000.0]
    provider = Providers.of(ProviderSettings.read(issuer.settings), issuer.settings["SKEIN_OUTBOUND_ALLOW"])._providers[
        "home"
    ]
    provider._clock = provider._keys._clock = lambda: at[0]  # type: ignore[attr-defined]
    times: dict[str, Any] = {"iat": 1_000_000, "exp": 2_000_000}
    await provider.verify_token(issuer.id_token("ann", **times), "")
    issuer.keys.append(new_key("second"))

    at[0] += 31
    proof = await provider.verify_token(issuer.id_token("ann", **times), "")

    assert proof.subject == "ann"


async def test_an_issuer_that_does_not_answer_costs_only_its_own_people(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    issuer.broken.add("GET /realm/keys")

    with refused(grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"):
        await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")))

    assert (await auth_server.anonymous.SignInWithIdentity(with_token(issuer.github_token(7, "ann"), "github"))).created


async def test_an_issuer_that_claims_to_be_another_is_not_believed(auth_server: AuthServer, issuer: Issuer) -> None:
    issuer.claims_to_be = "https://accounts.google.com"

    with refused(grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"):
        await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")))


async def test_a_github_token_of_our_app_signs_in_by_the_number_of_the_account(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    first = await auth_server.anonymous.SignInWithIdentity(
        with_token(issuer.github_token(42, "ann", name="Ann"), "github")
    )
    again = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.github_token(42, "anna"), "github"))
    other = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.github_token(43, "ann"), "github"))

    assert (first.created, again.created, other.created) == (True, False, True)
    assert first.account.account_id == again.account.account_id != other.account.account_id
    assert (first.account.display_name, first.account.email) == ("Ann", "")
    ann = await auth_server.person(again.tokens, again.account)
    (identity,) = (await ann.auth.ListIdentities(pb.ListIdentitiesRequest())).identities
    assert (identity.subject, identity.login) == ("42", "anna")


# As GitHub's documentation shows them for version 2022-11-28 of its API, shortened where nothing is read.
CHECK = f"POST /github/applications/{GITHUB_CLIENT_ID}/token"
RECORDED_USER = {
    "login": "octocat", "id": 583231, "node_id": "MDQ6VXNlcjU4MzIzMQ==", "gravatar_id": "", "type": "User",
    "avatar_url": "https://avatars.githubusercontent.com/u/583231?v=4", "url": "https://api.github.com/users/octocat",
    "html_url": "https://github.com/octocat", "user_view_type": "public", "site_admin": False,
}  # fmt: skip
RECORDED_PROFILE = {
    **RECORDED_USER, "name": "The Octocat", "company": "@github", "blog": "https://github.blog", "email": None,
    "hireable": None, "bio": None, "twitter_username": None, "public_repos": 8, "followers": 9999, "following": 9,
    "created_at": "2011-01-25T18:44:36Z", "updated_at": "2024-02-22T12:23:35Z",
}  # fmt: skip
RECORDED_CHECK = {
    "id": 1, "url": "https://api.github.com/authorizations/1", "scopes": [], "token": "gho_recorded",
    "token_last_eight": "recorded", "hashed_token": "25f94a2a5c7fbaf499c665bc73d67c1c87e496da8985131633ee0a95819db2e8",
    "app": {"url": "http://my-github-app.com", "name": "my github app", "client_id": GITHUB_CLIENT_ID},
    "note": None, "note_url": None, "updated_at": "2011-09-06T20:39:23Z", "created_at": "2011-09-06T17:26:27Z",
    "fingerprint": None, "expires_at": None, "installation": None, "user": RECORDED_USER,
}  # fmt: skip
RECORDED_REFUSAL = {
    "message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404",
}  # fmt: skip


async def test_a_recorded_answer_of_github_signs_in(auth_server: AuthServer, issuer: Issuer) -> None:
    issuer.recorded[CHECK] = (200, RECORDED_CHECK)

    first = await auth_server.anonymous.SignInWithIdentity(with_token("gho_recorded", "github"))
    again = await auth_server.anonymous.SignInWithIdentity(with_token("gho_recorded", "github"))

    assert (first.created, again.created) == (True, False)
    # The check of a token tells no name, so the login stands for it.
    assert (first.account.display_name, first.account.email) == ("octocat", "")
    person = await auth_server.person(again.tokens, again.account)
    (identity,) = (await person.auth.ListIdentities(pb.ListIdentitiesRequest())).identities
    assert (identity.subject, identity.login) == ("583231", "octocat")
    assert issuer.requests == [CHECK, CHECK]


async def test_a_recorded_profile_of_github_signs_in_where_any_app_may(database: TestDatabase, issuer: Issuer) -> None:
    any_app = {"SKEIN_GITHUB_CLIENT_ID": "", "SKEIN_GITHUB_CLIENT_SECRET": "", "SKEIN_GITHUB_ANY_APP": "true"}
    issuer.recorded["GET /github/user"] = (200, RECORDED_PROFILE)
    async with settings(database, issuer, **any_app) as auth_server:
        signed_in = await auth_server.anonymous.SignInWithIdentity(with_token("gho_recorded", "github"))

    assert (signed_in.account.display_name, signed_in.account.email) == ("The Octocat", "")


@pytest.mark.parametrize(
    ("status", "document", "code", "reason"),
    [
        (404, RECORDED_REFUSAL, grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"),
        (422, {"message": "Validation Failed", "errors": []}, grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"),
        (403, {"message": "API rate limit exceeded"}, grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"),
        (200, {**RECORDED_CHECK, "user": None}, grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"),
    ],
)
async def test_a_recorded_refusal_of_github_makes_no_account(
    auth_server: AuthServer, issuer: Issuer, status: int, document: dict[str, Any], code: grpc.StatusCode, reason: str
) -> None:
    issuer.recorded[CHECK] = (status, document)

    with refused(code, reason):
        await auth_server.anonymous.SignInWithIdentity(with_token("gho_recorded", "github"))


async def test_a_github_token_of_another_app_is_refused(auth_server: AuthServer, issuer: Issuer) -> None:
    for token in (issuer.github_token(42, "ann", app="Iv1.other"), "gho_unknown"):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token(token, "github"))

    assert "GET /github/user" not in issuer.requests


async def test_a_wrong_secret_of_our_app_is_not_the_caller_s_fault(database: TestDatabase, issuer: Issuer) -> None:
    async with settings(database, issuer, SKEIN_GITHUB_CLIENT_SECRET="wrong") as auth_server:
        with refused(grpc.StatusCode.UNAVAILABLE, "PROVIDER_UNAVAILABLE"):
            await auth_server.anonymous.SignInWithIdentity(with_token(issuer.github_token(42, "ann"), "github"))


async def test_github_is_off_without_an_app(database: TestDatabase, issuer: Issuer) -> None:
    off = {"SKEIN_GITHUB_CLIENT_ID": "", "SKEIN_GITHUB_CLIENT_SECRET": ""}
    async with settings(database, issuer, **off) as auth_server:
        with refused(grpc.StatusCode.NOT_FOUND, "PROVIDER_NOT_FOUND"):
            await auth_server.anonymous.SignInWithIdentity(with_token(issuer.github_token(42, "ann"), "github"))


async def test_any_app_s_token_is_taken_only_where_the_operator_says_so(database: TestDatabase, issuer: Issuer) -> None:
    any_app = {"SKEIN_GITHUB_CLIENT_ID": "", "SKEIN_GITHUB_CLIENT_SECRET": "", "SKEIN_GITHUB_ANY_APP": "true"}
    async with settings(database, issuer, **any_app) as auth_server:
        token = issuer.github_token(42, "ann", app="Iv1.other")

        assert (await auth_server.anonymous.SignInWithIdentity(with_token(token, "github"))).created
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token("gho_unknown", "github"))


async def test_an_unconfigured_provider_is_not_found(auth_server: AuthServer, issuer: Issuer) -> None:
    for name in ("google", issuer.oidc, "HOME"):
        with refused(grpc.StatusCode.NOT_FOUND, "PROVIDER_NOT_FOUND"):
            await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann"), name))


@pytest.mark.parametrize("sign_up", ["invited", "closed"])
async def test_an_identity_makes_no_account_unless_sign_up_is_open(
    database: TestDatabase, issuer: Issuer, sign_up: str
) -> None:
    async with settings(database, issuer, SKEIN_SIGN_UP=sign_up) as auth_server:
        with refused(grpc.StatusCode.PERMISSION_DENIED, "SIGN_UP_CLOSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")))

    assert await auth_server.rows("SELECT FROM auth.accounts") == []


async def test_a_deactivated_account_is_not_signed_into(auth_server: AuthServer, issuer: Issuer) -> None:
    ann = await person(auth_server, issuer)
    await auth_server.rows("UPDATE auth.accounts SET status = 'deactivated' WHERE account_id = $1", ann.account_id)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")))


async def test_a_right_identity_passes_when_its_address_failed_too_often(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    address = (("skein-client-address", "192.0.2.9"),)
    for _ in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(with_token("wrong"), metadata=address)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await auth_server.anonymous.SignInWithIdentity(with_token("wrong"), metadata=address)
    signed_in = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("ann")), metadata=address)
    assert signed_in.tokens.access_token


async def test_a_source_of_wrong_github_tokens_calls_github_no_more_but_from_a_known_device(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    address = (("skein-client-address", "192.0.2.9"),)
    right = with_token(issuer.github_token(7, "ann"), "github")
    known = await auth_server.anonymous.SignInWithIdentity(right, metadata=address)
    for number in range(10):
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(
                with_token(f"gho_wrong_{number}", "github"), metadata=address
            )

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await auth_server.anonymous.SignInWithIdentity(right, metadata=address)
    right.device_token = known.device_token
    again = await auth_server.anonymous.SignInWithIdentity(right, metadata=address)
    assert again.account.account_id == known.account.account_id

    # A device has a count of its own.
    for number in range(10):
        wrong = with_token(f"gho_device_{number}", "github", device_token=known.device_token)
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
            await auth_server.anonymous.SignInWithIdentity(wrong)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_ATTEMPTS"):
        await auth_server.anonymous.SignInWithIdentity(right)


async def test_a_linked_identity_signs_into_the_account(auth_server: AuthServer, issuer: Issuer) -> None:
    ann = await auth_server.sign_up()
    token = issuer.id_token("a-1", preferred_username="ann")

    linked = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=token))
    again = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=token))
    signed_in = await auth_server.anonymous.SignInWithIdentity(with_token(token))

    assert again == linked
    assert (linked.identity.provider, linked.identity.login) == (issuer.oidc, "ann")
    assert (signed_in.account.account_id, signed_in.created) == (str(ann.account_id), False)
    assert signed_in.account.has_password


async def test_a_repeated_link_is_answered_although_its_token_has_expired(
    auth_server: AuthServer, issuer: Issuer
) -> None:
    ann = await auth_server.sign_up()
    token = issuer.id_token("a-1")
    first = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=token, request_id="r"))
    expired = issuer.id_token("a-1", exp=int(time.time()) - 3600)

    again = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=expired, request_id="r"))

    assert again == first
    with refused(grpc.StatusCode.PERMISSION_DENIED, "IDENTITY_REFUSED"):
        await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=expired, request_id="s"))


async def test_an_identity_signs_into_one_account(auth_server: AuthServer, issuer: Issuer) -> None:
    await person(auth_server, issuer, "ann")
    ben, cid = await auth_server.sign_up(), await auth_server.sign_up()

    with refused(grpc.StatusCode.ALREADY_EXISTS, "IDENTITY_TAKEN"):
        await ben.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=issuer.id_token("ann")))
    request = pb.LinkIdentityRequest(provider="home", token=issuer.id_token("new"))
    outcomes = await asyncio.gather(
        ben.auth.LinkIdentity(request), cid.auth.LinkIdentity(request), return_exceptions=True
    )

    assert sum(isinstance(outcome, pb.LinkIdentityResponse) for outcome in outcomes) == 1


async def test_the_last_way_into_an_account_stays(auth_server: AuthServer, issuer: Issuer) -> None:
    ann = await person(auth_server, issuer, "one")
    second = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=issuer.id_token("two")))
    (first,) = [
        each for each in (await ann.auth.ListIdentities(pb.ListIdentitiesRequest())).identities if each.subject == "one"
    ]
    requests = [pb.UnlinkIdentityRequest(identity_id=each.identity_id) for each in (first, second.identity)]

    outcomes = await asyncio.gather(*(ann.auth.UnlinkIdentity(each) for each in requests), return_exceptions=True)

    assert sum(isinstance(outcome, pb.UnlinkIdentityResponse) for outcome in outcomes) == 1
    (identity,) = (await ann.auth.ListIdentities(pb.ListIdentitiesRequest())).identities
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LAST_LOGIN_METHOD"):
        await ann.auth.UnlinkIdentity(pb.UnlinkIdentityRequest(identity_id=identity.identity_id))


async def test_an_unlinked_identity_signs_in_no_more(auth_server: AuthServer, issuer: Issuer) -> None:
    ann = await auth_server.sign_up()
    linked = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=issuer.id_token("a-1")))
    request = pb.UnlinkIdentityRequest(identity_id=linked.identity.identity_id, request_id="r")

    await ann.auth.UnlinkIdentity(request)
    await ann.auth.UnlinkIdentity(request)

    answer = await auth_server.anonymous.SignInWithIdentity(with_token(issuer.id_token("a-1")))
    assert answer.account.account_id != str(ann.account_id)


async def test_identities_of_others_are_not_there(auth_server: AuthServer, issuer: Issuer) -> None:
    ann, ben = await person(auth_server, issuer, "ann"), await auth_server.sign_up()
    (hers,) = (await ann.auth.ListIdentities(pb.ListIdentitiesRequest())).identities

    assert not (await ben.auth.ListIdentities(pb.ListIdentitiesRequest())).identities
    for identity_id in (hers.identity_id, str(uuid4())):
        with refused(grpc.StatusCode.NOT_FOUND, "IDENTITY_NOT_FOUND"):
            await ben.auth.UnlinkIdentity(pb.UnlinkIdentityRequest(identity_id=identity_id))


async def test_identity_events_are_recorded_without_tokens(auth_server: AuthServer, issuer: Issuer) -> None:
    ann = await person(auth_server, issuer)
    linked = await ann.auth.LinkIdentity(pb.LinkIdentityRequest(provider="home", token=issuer.id_token("two")))
    await ann.auth.UnlinkIdentity(pb.UnlinkIdentityRequest(identity_id=linked.identity.identity_id))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await auth_server.anonymous.SignInWithIdentity(with_token("wr.on.g"))

    rows = await auth_server.rows(
        "SELECT event, outcome, reason, account_id FROM auth.audit_events ORDER BY create_time"
    )

    events = [(row["event"], row["outcome"], row["reason"], row["account_id"]) for row in rows]
    assert events == [
        ("identity_linked", "success", "", ann.account_id),
        ("sign_up", "success", "", ann.account_id),
        ("sign_in", "success", "", ann.account_id),
        ("identity_linked", "success", "", ann.account_id),
        ("identity_unlinked", "success", "", ann.account_id),
        ("sign_in", "refused", "SIGN_IN_REFUSED", None),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKEIN_OIDC_PROVIDERS", "https://accounts.google.com"),
        ("SKEIN_OIDC_PROVIDERS", "google=https://accounts.google.com"),
        ("SKEIN_OIDC_PROVIDERS", "github=https://accounts.google.com;x"),
        ("SKEIN_OIDC_PROVIDERS", "google=accounts.google.com;x"),
        ("SKEIN_OIDC_PROVIDERS", "google=https://accounts.google.com;"),
        ("SKEIN_GITHUB_CLIENT_ID", GITHUB_CLIENT_ID),
        ("SKEIN_GITHUB_CLIENT_SECRET", "s3cret"),
    ],
)
def test_providers_that_cannot_be_are_refused_by_name_of_the_setting(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match=name) as caught:
        Providers.of(ProviderSettings.read({name: value}))

    assert "s3cret" not in str(caught.value)
