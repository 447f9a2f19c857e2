from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest
from fix_accounts import Account, member, new_account
from fix_cluster import Cluster, Tenant, refused
from fix_oauth import REDIRECT, VERIFIER, App, answer
from grpc import aio
from joserfc import jwt
from joserfc.jwk import RSAKey

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc
from skein.tenancy.v1 import members_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
EARLY = grpc.StatusCode.FAILED_PRECONDITION


async def test_an_application_acts_for_a_person_who_agreed(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    created = await app.oauth.CreateAuthorization(app.asks())
    prompt = created.prompt
    url = await app.approve(account, tenant, handle=prompt.handle)
    tokens = await app.redeem(answer(url)["code"])

    me = await cluster.with_key(tokens.access_token).auth.GetMe(auth_pb2.GetMeRequest())

    assert (prompt.client_name, prompt.redirect_host, prompt.redirect_origin) == (
        "An app",
        "app.example",
        "https://app.example",
    )
    assert list(prompt.scopes) == ["memory.read", "memory.write"]
    assert answer(url)["state"] == "the state"
    assert answer(url)["iss"] == (await app.oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())).issuer
    assert (tokens.token_type, tokens.scope, tokens.expires_in.seconds) == ("Bearer", "memory.read memory.write", 3599)
    assert (me.tenant_id, me.client_id, me.role) == (str(tenant.tenant_id), app.client.client_id, "member")
    assert list(me.permissions) == ["memory.read", "memory.write"]


async def test_a_person_may_grant_less_than_is_asked(app: App, account: Account, tenant: Tenant) -> None:
    handle = (await app.oauth.CreateAuthorization(app.asks())).prompt.handle

    url = await app.approve(account, tenant, handle=handle, scopes=["memory.read", "session.read"])
    nothing = await app.approve(account, tenant, handle=handle, scopes=["session.read"])

    assert (await app.redeem(answer(url)["code"])).scope == "memory.read"
    assert answer(nothing)["error"] == "access_denied"


async def test_a_denial_is_reported_to_the_application(app: App, account: Account, tenant: Tenant) -> None:
    handle = (await app.oauth.CreateAuthorization(app.asks())).prompt.handle

    parameters = answer(await app.approve(account, tenant, handle=handle, approved=False))

    assert parameters["error"] == "access_denied"
    assert parameters["state"] == "the state"
    assert "code" not in parameters


async def test_a_person_cannot_let_an_application_into_a_tenant_of_others(
    app: App, account: Account, other_tenant: Tenant
) -> None:
    handle = (await app.oauth.CreateAuthorization(app.asks())).prompt.handle

    with refused(NOT_FOUND, "TENANT_NOT_FOUND"):
        await app.approve(account, other_tenant, handle=handle)


async def test_a_handle_cannot_be_forged(app: App, account: Account, tenant: Tenant) -> None:
    handle = (await app.oauth.CreateAuthorization(app.asks())).prompt.handle

    other = "B" if handle.startswith("A") else "A"
    for wrong in ("x", handle[:-8] + "AAAAAAA=", other + handle[1:], handle + "AAAA", "é"):
        with refused(INVALID, "OAUTH_INVALID_REQUEST"):
            await app.approve(account, tenant, handle=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "01900000-0000-7000-8000-000000000000"},
        {"client_id": ""},
        {"client_id": "skein"},
        {"redirect_uri": REDIRECT + "/"},
        {"redirect_uri": "https://evil.example/back"},
    ],
)
async def test_an_untrusted_request_is_never_redirected(app: App, wrong: dict[str, str]) -> None:
    with pytest.raises(aio.AioRpcError) as caught:
        await app.oauth.CreateAuthorization(app.asks(**wrong))

    assert caught.value.code() is INVALID


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "unsupported_response_type"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"code_challenge": VERIFIER}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"scope": "memory.read account"}, "invalid_scope"),
        ({"scope": "operator"}, "invalid_scope"),
        ({"resources": ["https://else.example"]}, "invalid_target"),
        ({"prompt": "none"}, "interaction_required"),
    ],
)
async def test_any_other_error_is_reported_to_the_application(app: App, wrong: dict[str, Any], error: str) -> None:
    created = await app.oauth.CreateAuthorization(app.asks(**wrong))

    parameters = answer(created.redirect_url)
    assert (parameters["error"], parameters["state"]) == (error, "the state")
    assert parameters["iss"]


async def test_a_replayed_code_revokes_what_it_gave(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    code = await app.code(account, tenant)
    tokens = await app.redeem(code)

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.redeem(code)

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.refresh(tokens.refresh_token)
    assert not (await app.introspect(tokens.access_token)).active
    with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.with_key(tokens.access_token).auth.GetMe(auth_pb2.GetMeRequest())


async def test_one_of_many_who_redeem_a_code_at_once_wins(app: App, account: Account, tenant: Tenant) -> None:
    code = await app.code(account, tenant)

    answers = await asyncio.gather(*(app.redeem(code) for _ in range(6)), return_exceptions=True)

    assert len([each for each in answers if not isinstance(each, BaseException)]) == 1


@pytest.mark.system
async def test_a_client_must_prove_itself(app: App, account: Account, tenant: Tenant) -> None:
    code = await app.code(account, tenant)

    for proof in (
        oauth_pb2.ClientAuthentication(client_id=app.client.client_id, method="none"),
        oauth_pb2.ClientAuthentication(client_id=app.client.client_id, client_secret="x", method="client_secret_basic"),
        oauth_pb2.ClientAuthentication(
            client_id=app.client.client_id, client_secret=app.secret, method="client_secret_post"
        ),
        oauth_pb2.ClientAuthentication(client_id="nobody", client_secret=app.secret, method="client_secret_basic"),
        oauth_pb2.ClientAuthentication(),
    ):
        with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
            await app.oauth.ExchangeToken(
                oauth_pb2.ExchangeTokenRequest(
                    client=proof,
                    authorization_code=oauth_pb2.AuthorizationCodeGrant(
                        code=code, redirect_uri=REDIRECT, code_verifier=VERIFIER
                    ),
                )
            )

    assert (await app.redeem(code)).access_token


async def test_refresh_tokens_rotate_and_a_lost_answer_can_be_asked_for_again(
    app: App, account: Account, tenant: Tenant
) -> None:
    first = (await app.tokens(account, tenant)).refresh_token

    answers = await asyncio.gather(*(app.refresh(first) for _ in range(5)))

    second = answers[0].refresh_token
    assert {each.refresh_token for each in answers} == {second}
    assert second != first
    assert (await app.refresh(second)).refresh_token not in {first, second}


async def test_an_old_refresh_token_ends_the_grant(app: App, account: Account, tenant: Tenant) -> None:
    first = (await app.tokens(account, tenant)).refresh_token
    second = (await app.refresh(first)).refresh_token
    third = (await app.refresh(second)).refresh_token

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.refresh(first)

    for token in (second, third):
        with refused(INVALID, "OAUTH_INVALID_GRANT"):
            await app.refresh(token)


async def test_a_refresh_narrows_a_scope_and_never_widens_it(app: App, account: Account, tenant: Tenant) -> None:
    token = (await app.tokens(account, tenant)).refresh_token

    with refused(INVALID, "OAUTH_INVALID_SCOPE"):
        await app.refresh(token, "memory.read session.read")
    narrow = await app.refresh(token, "memory.read")
    whole = await app.refresh(narrow.refresh_token)

    assert narrow.scope == "memory.read"
    assert whole.scope == "memory.read memory.write"


async def test_a_token_is_made_for_the_resources_that_were_granted(app: App, account: Account, tenant: Tenant) -> None:
    known = (await app.oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())).resources
    api, mcp = known[0], known[1]
    tokens = await app.tokens(account, tenant, resources=[mcp])

    with refused(INVALID, "OAUTH_INVALID_TARGET"):
        await app.refresh(tokens.refresh_token, resources=[api])
    with refused(INVALID, "OAUTH_INVALID_TARGET"):
        await app.refresh(tokens.refresh_token, resources=["https://else.example"])

    assert list((await app.introspect(tokens.access_token)).audiences) == [mcp]
    with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await auth_pb2_grpc.AuthInternalServiceStub(app.channel).Exchange(
            auth_pb2.ExchangeRequest(bearer=tokens.access_token)
        )
    assert (
        await auth_pb2_grpc.AuthInternalServiceStub(app.channel).Exchange(
            auth_pb2.ExchangeRequest(bearer=tokens.access_token, audience=mcp)
        )
    ).token


async def test_an_application_that_only_asks_who_it_is_needs_no_tenant(app: App, account: Account) -> None:
    tokens = await app.tokens(account, None, "openid email profile", nonce="n-1")
    issuer = (await app.oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())).issuer

    claims = await claims_of(app, tokens.id_token)
    known = await app.oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=tokens.access_token))

    assert (claims["iss"], claims["aud"], claims["nonce"]) == (issuer, app.client.client_id, "n-1")
    assert claims["sub"] == known.subject == account.account_id
    assert claims["at_hash"]
    assert claims["auth_time"]


@pytest.mark.parametrize("verified", [True, False])
async def test_the_scope_email_tells_the_address_and_whether_it_is_verified(
    cluster: Cluster, app: App, account: Account, *, verified: bool
) -> None:
    if verified:
        made = await cluster.operator.auth.CreateOneTimeToken(
            accounts_pb2.CreateOneTimeTokenRequest(
                account_id=account.account_id, purpose=accounts_pb2.TOKEN_PURPOSE_EMAIL_VERIFICATION
            )
        )
        await cluster.anonymous.auth.VerifyEmail(accounts_pb2.VerifyEmailRequest(token=made.token))

    tokens = await app.tokens(account, None, "openid email")
    claims = await claims_of(app, tokens.id_token)
    known = await app.oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=tokens.access_token))

    assert (claims["email"], claims["email_verified"]) == (account.email, verified)
    assert (known.email, known.email_verified) == (account.email, verified)


async def test_userinfo_has_no_address_without_the_scope_email(app: App, account: Account) -> None:
    tokens = await app.tokens(account, None, "openid profile")

    claims = await claims_of(app, tokens.id_token)
    known = await app.oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=tokens.access_token))

    assert not {"email", "email_verified"} & claims.keys()
    assert (known.email, known.email_verified) == ("", False)


async def claims_of(app: App, id_token: str) -> dict[str, Any]:
    listed = await auth_pb2_grpc.AuthServiceStub(app.channel).ListSigningKeys(
        auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_ACCESS)
    )
    key = RSAKey.import_key(json.loads(listed.signing_keys[0].jwk))
    return jwt.decode(id_token, key, algorithms=["RS256"]).claims


async def test_user_information_needs_the_scope_openid_and_a_live_grant(
    app: App, account: Account, tenant: Tenant
) -> None:
    without = await app.tokens(account, tenant)
    tokens = await app.tokens(account, None, "openid")
    await app.oauth.RevokeToken(oauth_pb2.RevokeTokenRequest(client=app.proof, token=tokens.access_token))

    with refused(DENIED, "OAUTH_INSUFFICIENT_SCOPE"):
        await app.oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=without.access_token))
    for wrong in (tokens.access_token, tenant.api_key, "x", ""):
        with refused(UNAUTHENTICATED, "OAUTH_INVALID_TOKEN"):
            await app.oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=wrong))


async def test_a_revoked_refresh_token_ends_its_grant(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    tokens = await app.tokens(account, tenant)

    await app.oauth.RevokeToken(oauth_pb2.RevokeTokenRequest(client=app.proof, token=tokens.refresh_token))

    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.refresh(tokens.refresh_token)
    with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.with_key(tokens.access_token).auth.GetMe(auth_pb2.GetMeRequest())


async def test_a_client_cannot_revoke_the_tokens_of_another(
    direct: aio.Channel, app: App, account: Account, tenant: Tenant
) -> None:
    other = await App.registered(direct)
    tokens = await app.tokens(account, tenant)

    for token in (tokens.refresh_token, tokens.access_token, "nobody's"):
        await oauth_pb2_grpc.OAuthServiceStub(direct).RevokeToken(
            oauth_pb2.RevokeTokenRequest(client=other.proof, token=token)
        )

    assert (await app.introspect(tokens.access_token)).active
    assert (await app.refresh(tokens.refresh_token)).access_token


async def test_introspection_tells_a_client_of_its_own_tokens_and_a_tenant_of_its_own(
    direct: aio.Channel, app: App, account: Account, tenant: Tenant, other_tenant: Tenant
) -> None:
    other = await App.registered(direct)
    tokens = await app.tokens(account, tenant)

    own = await app.introspect(tokens.access_token)
    refresh = await app.introspect(tokens.refresh_token)
    theirs = await other.introspect(tokens.access_token)
    of_tenant = await oauth_pb2_grpc.OAuthServiceStub(direct).IntrospectToken(
        oauth_pb2.IntrospectTokenRequest(bearer=tenant.api_key, token=tokens.access_token)
    )
    of_other_tenant = await oauth_pb2_grpc.OAuthServiceStub(direct).IntrospectToken(
        oauth_pb2.IntrospectTokenRequest(bearer=other_tenant.api_key, token=tokens.access_token)
    )

    assert own.active
    assert own == of_tenant
    assert (own.scope, own.client_id, own.token_type) == (
        "memory.read memory.write",
        app.client.client_id,
        "access_token",
    )
    assert (own.subject, own.tenant_id) == (account.account_id, str(tenant.tenant_id))
    assert (refresh.active, refresh.token_type) == (True, "refresh_token")
    assert theirs == of_other_tenant == oauth_pb2.IntrospectTokenResponse()


async def test_a_public_client_introspects_nothing(direct: aio.Channel, account: Account, tenant: Tenant) -> None:
    app = await App.registered(direct, token_endpoint_auth_method="none")
    tokens = await app.tokens(account, tenant)

    with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await app.introspect(tokens.access_token)


async def test_a_service_account_trades_a_key_for_a_token(
    cluster: Cluster, direct: aio.Channel, tenant: Tenant
) -> None:
    made = await tenant.auth.CreateServiceAccount(
        accounts_pb2.CreateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(display_name="ci", permissions=["memory.read", "memory.write"])
        )
    )
    service_account_id = made.service_account.service_account_id
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="ci", service_account_id=service_account_id)
    )

    async def trade(scope: str, client_id: str = service_account_id, secret: str = key.secret) -> Any:
        return await oauth_pb2_grpc.OAuthServiceStub(direct).ExchangeToken(
            oauth_pb2.ExchangeTokenRequest(
                client=oauth_pb2.ClientAuthentication(
                    client_id=client_id, client_secret=secret, method="client_secret_basic"
                ),
                client_credentials=oauth_pb2.ClientCredentialsGrant(scope=scope),
            )
        )

    tokens = await trade("memory.read")
    me = await cluster.with_key(tokens.access_token).auth.GetMe(auth_pb2.GetMeRequest())

    assert (tokens.scope, tokens.refresh_token) == ("memory.read", "")
    assert (me.principal, list(me.permissions)) == (f"service_account:{service_account_id}", ["memory.read"])
    with refused(INVALID, "OAUTH_INVALID_SCOPE"):
        await trade("keys.write")
    for wrong in ({"secret": tenant.api_key}, {"secret": "x"}, {"client_id": str(tenant.tenant_id)}):
        with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
            await trade("memory.read", **wrong)
    await tenant.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=key.api_key.api_key_id))
    with refused(UNAUTHENTICATED, "OAUTH_INVALID_CLIENT"):
        await trade("memory.read")


async def test_an_own_sign_in_keeps_refresh_session_s_promise(cluster: Cluster) -> None:
    account = await new_account(cluster)

    async def refresh(token: str) -> accounts_pb2.SignInTokens:
        request = accounts_pb2.RefreshSessionRequest(refresh_token=token)
        return (await cluster.anonymous.auth.RefreshSession(request)).tokens

    first = (await sign_in_again(cluster, account)).refresh_token
    answers = await asyncio.gather(*(refresh(first) for _ in range(4)))
    second = answers[0].refresh_token
    third = (await refresh(second)).refresh_token

    assert {each.refresh_token for each in answers} == {second}
    with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await refresh(first)
    with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await refresh(third)


@pytest.mark.system
async def test_an_application_s_refresh_token_is_no_sign_in(
    cluster: Cluster, app: App, account: Account, tenant: Tenant
) -> None:
    in_tenant = await app.tokens(account, tenant)
    in_none = await app.tokens(account, None, "openid")

    for token in (in_tenant.refresh_token, in_none.refresh_token):
        with refused(UNAUTHENTICATED, "CREDENTIAL_INVALID"):
            await cluster.anonymous.auth.RefreshSession(accounts_pb2.RefreshSessionRequest(refresh_token=token))


async def sign_in_again(cluster: Cluster, account: Account) -> accounts_pb2.SignInTokens:
    request = accounts_pb2.SignInRequest(email=account.email, password=account.password)
    return (await cluster.anonymous.auth.SignIn(request)).tokens


async def test_a_refresh_gives_no_more_than_the_role_allows_now(
    cluster: Cluster, direct: aio.Channel, tenant: Tenant
) -> None:
    app, ann = await App.registered(direct), await member(cluster, tenant, "member")
    tokens = await app.tokens(ann, tenant, "openid memory.read memory.write")
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    await operator.tenancy.UpdateMember(
        members_pb2.UpdateMemberRequest(account_id=ann.account_id, role=members_pb2.ROLE_VIEWER)
    )
    await forgotten(app, tokens.access_token, "memory.read openid")

    narrow = await app.refresh(tokens.refresh_token)

    assert narrow.scope == "memory.read openid"
    await operator.tenancy.RemoveMember(members_pb2.RemoveMemberRequest(account_id=ann.account_id))
    await forgotten(app, narrow.access_token, "")
    with refused(INVALID, "OAUTH_INVALID_GRANT"):
        await app.refresh(narrow.refresh_token)


async def forgotten(app: App, token: str, scope: str) -> None:
    """Wait until auth has noticed what a token is worth now."""
    async with asyncio.timeout(30):
        while (await app.introspect(token)).scope != scope:
            await asyncio.sleep(0.05)
