"""Attack: a stolen code or refresh token is used beside its client, PKCE is left out, and codes are injected.
May be seen: OAUTH_INVALID_GRANT, the same words for whatever is wrong.
May be spent: one grant, which ends with everything that it gave as soon as a second use shows the theft.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_accounts import Account, member
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant, refused
from fix_oauth import VERIFIER, App, answer
from grpc import aio

from skein.auth.v1 import auth_pb2, oauth_pb2
from skein_auth.auth_sessions.model import challenge_of

INVALID = grpc.StatusCode.INVALID_ARGUMENT
OTHER_VERIFIER = "the-attacker-s-own-verifier-of-enough-characters"


@pytest.fixture
async def public(direct: aio.Channel) -> App:
    """An application without a secret, whose tokens a thief can use as well."""
    return await App.registered(direct, token_endpoint_auth_method="none")


async def attempt(calling: Any) -> Any:
    """Return what a call returns; None when the grant is refused."""
    try:
        return await calling
    except aio.AioRpcError as error:
        assert error.code() is INVALID  # noqa: PT017 - an answer that is allowed.
        return None


async def is_live(tenant: Tenant, token: str) -> bool:
    return (await tenant.auth.Introspect(auth_pb2.IntrospectRequest(credential=token))).active


@pytest.mark.parametrize(
    "changed",
    [
        {"code_challenge": "", "code_challenge_method": ""},
        {"code_challenge": ""},
        {"code_challenge_method": ""},
        {"code_challenge_method": "plain"},
        {"code_challenge": VERIFIER, "code_challenge_method": "plain"},
        {"code_challenge_method": "s256"},
        {"code_challenge": challenge_of(VERIFIER) + "="},
        {"code_challenge": challenge_of(VERIFIER)[:-1]},
        {"code_challenge": challenge_of(VERIFIER).replace("-", "+").replace("_", "/")[:-1] + "/"},
    ],
    ids=str,
)
async def test_no_question_is_asked_without_a_challenge(app: App, changed: dict[str, str]) -> None:
    created = await app.oauth.CreateAuthorization(app.asks(**changed))

    assert answer(created.redirect_url)["error"] == "invalid_request"
    assert not created.prompt.handle


async def test_a_challenge_cannot_be_met_by_anything_but_its_verifier(
    app: App, account: Account, tenant: Tenant
) -> None:
    code = await app.code(account, tenant)

    for verifier in (
        "",
        challenge_of(VERIFIER),
        VERIFIER[:-1],
        VERIFIER + "x",
        VERIFIER.upper(),
        OTHER_VERIFIER,
        "ü" * 50,
    ):
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await app.redeem(code, code_verifier=verifier)

    assert (await app.redeem(code)).access_token


async def test_a_code_is_of_no_use_in_another_session_client_or_place(
    direct: aio.Channel, app: App, account: Account, tenant: Tenant
) -> None:
    other = await App.registered(direct)
    stolen = await app.code(account, tenant)
    # The thief has a session of their own at the same client: their verifier is not the one of the stolen code.
    own = await app.code(account, tenant, code_challenge=challenge_of(OTHER_VERIFIER))

    attempts = (
        app.redeem(stolen, code_verifier=OTHER_VERIFIER),
        app.redeem(own, code_verifier=VERIFIER),
        other.redeem(stolen),
        app.redeem(stolen, redirect_uri="https://app.example/other"),
        app.redeem(stolen, redirect_uri=""),
        app.redeem(stolen[:-1] + ("a" if stolen[-1] != "a" else "b")),
    )
    for calling in attempts:
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await calling

    assert (await app.redeem(stolen)).access_token
    assert (await app.redeem(own, code_verifier=OTHER_VERIFIER)).access_token


async def test_one_of_a_burst_with_one_code_wins_and_the_others_revoke_its_tokens(
    app: App, account: Account, tenant: Tenant
) -> None:
    code = await app.code(account, tenant)

    outcomes = await asyncio.gather(*(attempt(app.redeem(code)) for _ in range(attack_size(8, 64))))

    winners = [one for one in outcomes if one is not None]
    assert len(winners) == 1
    assert not await is_live(tenant, winners[0].access_token)
    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.refresh(winners[0].refresh_token)


async def test_a_thief_and_a_client_who_race_never_hold_two_different_tokens(
    public: App, account: Account, tenant: Tenant
) -> None:
    token = (await public.tokens(account, tenant)).refresh_token

    for _ in range(attack_size(3, 30)):
        sides = await asyncio.gather(*(attempt(public.refresh(token)) for _ in range(attack_size(6, 24))))
        successors = {one.refresh_token for one in sides if one is not None}
        assert len(successors) == 1
        token = successors.pop()

    assert (await public.refresh(token)).access_token


async def test_a_thief_who_is_one_step_behind_ends_the_grant_for_both(
    public: App, account: Account, tenant: Tenant
) -> None:
    stolen = await public.tokens(account, tenant)
    second = await public.refresh(stolen.refresh_token)

    # The client goes on and the thief goes back, at the same time. One order ends the grant, the other gives the thief
    # what the client has.
    third, theirs = await asyncio.gather(
        attempt(public.refresh(second.refresh_token)), attempt(public.refresh(stolen.refresh_token))
    )
    assert theirs is None or theirs.refresh_token == second.refresh_token
    if third is not None:
        # The next use of the old token shows the theft.
        assert await attempt(public.refresh(stolen.refresh_token)) is None

    tokens = [stolen, second, *(one for one in (third, theirs) if one is not None)]
    for one in tokens:
        assert not await is_live(tenant, one.access_token)
        assert await attempt(public.refresh(one.refresh_token)) is None


async def test_a_stolen_refresh_token_is_of_no_use_to_another_client_and_widens_nothing(
    direct: aio.Channel, app: App, account: Account, tenant: Tenant
) -> None:
    tokens = await app.tokens(account, tenant, "memory.read")
    public = App(direct, oauth_pb2.Client(client_id=app.client.client_id, token_endpoint_auth_method="none"), "", "")
    others = [await App.registered(direct), await App.registered(direct, token_endpoint_auth_method="none")]

    for other in others:
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await other.refresh(tokens.refresh_token)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await public.refresh(tokens.refresh_token)
    with refused(INVALID, "OAUTH_INVALID_SCOPE"):
        await app.refresh(tokens.refresh_token, scope="memory.read memory.write")
    with refused(INVALID, "OAUTH_INVALID_TARGET"):
        await app.refresh(tokens.refresh_token, resources=["https://evil.example"])

    assert (await app.refresh(tokens.refresh_token)).access_token


async def test_a_handle_of_one_person_s_question_gives_nothing_of_another_person(
    cluster: Cluster, app: App, tenant: Tenant, other_tenant: Tenant
) -> None:
    attacker = await member(cluster, other_tenant, "owner")
    handle = (await app.oauth.CreateAuthorization(app.asks())).prompt.handle

    # An attacker who answers a victim's question lets the application into the attacker's tenant, not the victim's.
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await app.approve(attacker, tenant, handle=handle)
    code = answer(await app.approve(attacker, other_tenant, handle=handle))["code"]
    tokens = await app.redeem(code)

    assert not await is_live(tenant, tokens.access_token)
    assert await is_live(other_tenant, tokens.access_token)
