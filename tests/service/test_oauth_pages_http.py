"""The pages of the gateway as HTTP: what they refuse, what their headers say, who may send their forms."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from fix_cluster import Cluster, Tenant
from fix_web import (
    PASSWORD,
    Person,
    Pkce,
    Web,
    authorize_url,
    form_of,
    new_person,
    step_of,
)

from skein.auth.v1 import accounts_pb2
from skein.tenancy.v1 import members_pb2


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.fixture
async def person(cluster: Cluster, tenant: Tenant) -> Person:
    return await new_person(cluster, tenant)


@pytest.fixture
async def client_id(web: Web) -> str:
    return str((await web.register(client_name="<b>Tester</b>"))["client_id"])


def totp(secret: str) -> str:
    """Return what an authenticator shows now."""
    raw = base64.b32decode(secret + "=" * (-len(secret) % 8))
    return TOTP(raw, 6, SHA1(), 30, enforce_key_length=False).generate(int(time.time())).decode()  # noqa: S303 - RFC 6238.


async def test_a_page_lets_nothing_else_happen(web: Web, client_id: str) -> None:
    page = await web.get(authorize_url(client_id, Pkce()))

    assert page.headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; form-action 'self' http://127.0.0.1:9; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in page.headers
    assert "<script" not in page.text
    assert "style=" not in page.text


async def test_the_consent_page_says_who_wants_what(web: Web, client_id: str, person: Person, tenant: Tenant) -> None:
    page = await web.consent(authorize_url(client_id, Pkce()), person)

    assert "&lt;b&gt;Tester&lt;/b&gt;" in page.text
    assert "127.0.0.1:9" in page.text
    assert "Remember, change and forget" in page.text
    assert "memory.write" in page.text
    assert form_of(page, "answer").choices["tenant_id"] == [str(tenant.tenant_id)]


async def test_a_person_is_not_shown_a_tenant_of_others(
    cluster: Cluster, web: Web, client_id: str, person: Person, other_tenant: Tenant
) -> None:
    await new_person(cluster, other_tenant)
    page = await web.consent(authorize_url(client_id, Pkce()), person)

    answer = await web.submit(page, "answer", decision="allow", tenant_id=str(other_tenant.tenant_id))

    assert str(other_tenant.tenant_id) not in page.text
    assert answer.status_code == 404


async def test_the_port_of_a_loopback_redirect_may_differ(web: Web, client_id: str) -> None:
    answer = await web.get(authorize_url(client_id, Pkce(), redirect_uri="http://127.0.0.1:4711/callback"))

    assert (answer.status_code, "127.0.0.1:4711" in answer.headers["content-security-policy"]) == (200, True)


async def test_an_unknown_client_is_an_error_page(web: Web) -> None:
    answer = await web.get(authorize_url("nobody", Pkce()))

    assert (answer.status_code, "location" in answer.headers) == (400, False)


@pytest.mark.parametrize(
    "more", ["client_id=other", "redirect_uri=https%3A%2F%2Fevil.example", "state=2", "scope=memory.read"]
)
async def test_a_repeated_parameter_is_an_error_page(web: Web, client_id: str, more: str) -> None:
    answer = await web.get(f"{authorize_url(client_id, Pkce())}&{more}")

    assert (answer.status_code, "location" in answer.headers) == (400, False)


@pytest.mark.parametrize("changed", [{"state": "x" * 3000}, {"scope": "x" * 3000}, {"state": "x" * 33_000}])
async def test_too_much_is_an_error_page(web: Web, client_id: str, changed: dict[str, str]) -> None:
    answer = await web.get(authorize_url(client_id, Pkce(), **changed))

    assert (answer.status_code, "location" in answer.headers) == (400, False)


async def test_a_client_may_want_a_fresh_sign_in(web: Web, client_id: str, person: Person) -> None:
    await web.consent(authorize_url(client_id, Pkce()), person)

    page = await web.get(authorize_url(client_id, Pkce(), prompt="login"))
    after = await web.signed_in(page, person)

    assert (step_of(page), step_of(after)) == ("sign_in", "answer")


async def test_the_cookies_are_out_of_reach(web: Web, client_id: str, person: Person) -> None:
    page = await web.get(authorize_url(client_id, Pkce()))
    answer = await web.submit(page, "sign_in", email=person.email, password=PASSWORD)

    for response in (page, answer):
        cookie = response.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert "path=/" in cookie


@pytest.mark.parametrize("step", ["sign_in", "answer"])
@pytest.mark.parametrize(
    "broken",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"token": ""},
        {"token": "0" * 64},
        {"cookie": ""},
    ],
    ids=["another site", "a sister site", "another origin", "no token", "a wrong token", "no cookie"],
)
async def test_a_form_from_elsewhere_does_nothing(
    web: Web, client_id: str, person: Person, tenant: Tenant, step: str, broken: dict[str, str]
) -> None:
    url = authorize_url(client_id, Pkce())
    page = await (web.get(url) if step == "sign_in" else web.consent(url, person))
    form = form_of(page, step)
    fields = {**form.fields, "email": person.email, "password": PASSWORD, "decision": "allow",
              "tenant_id": str(tenant.tenant_id)}  # fmt: skip
    headers = dict(broken)
    if "token" in headers:
        fields["form_token"] = headers.pop("token")
    if "cookie" in headers:
        web.client.cookies.clear()
        del headers["cookie"]

    answer = await web.client.post(url, data=fields, headers=headers)

    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "set-cookie" not in answer.headers


async def test_the_form_of_one_request_does_not_answer_another(
    web: Web, client_id: str, person: Person, tenant: Tenant
) -> None:
    first = await web.consent(authorize_url(client_id, Pkce()), person)
    second = await web.consent(authorize_url(client_id, Pkce(), scope="memory.read"), person)
    swapped = {**form_of(first, "answer").fields, "handle": form_of(second, "answer").fields["handle"]}

    answer = await web.client.post(
        str(first.url), data={**swapped, "decision": "allow", "tenant_id": str(tenant.tenant_id)}
    )

    assert answer.status_code == 400


async def test_a_key_in_the_cookie_is_no_auth_session(web: Web, client_id: str, tenant: Tenant) -> None:
    web.client.cookies.set("skein", tenant.api_key)

    page = await web.get(authorize_url(client_id, Pkce()))

    assert step_of(page) == "sign_in"


async def test_signing_out_ends_the_sign_in(web: Web, client_id: str, person: Person) -> None:
    page = await web.consent(authorize_url(client_id, Pkce()), person)
    kept = web.client.cookies["skein"]

    answer = await web.submit(page, "sign_out")

    assert answer.status_code == 303
    assert "skein" not in web.client.cookies
    assert kept not in answer.text


async def test_a_wrong_password_and_an_unknown_address_look_the_same(web: Web, client_id: str, person: Person) -> None:
    page = await web.get(authorize_url(client_id, Pkce()))

    wrong = await web.submit(page, "sign_in", email=person.email, password="not this one")
    unknown = await web.submit(page, "sign_in", email="n" + person.email[1:], password="not this one")

    assert wrong.status_code == unknown.status_code == 403
    assert wrong.text.replace(person.email, "") == unknown.text.replace("n" + person.email[1:], "")


@pytest.mark.system
async def test_a_second_factor_is_asked_for(cluster: Cluster, web: Web, client_id: str, person: Person) -> None:
    signed_in = await cluster.anonymous.auth.SignIn(accounts_pb2.SignInRequest(email=person.email, password=PASSWORD))
    own = cluster.with_key(signed_in.tokens.access_token)
    started = await own.auth.StartTotp(accounts_pb2.StartTotpRequest(password=PASSWORD))
    confirmed = await own.auth.ConfirmTotp(accounts_pb2.ConfirmTotpRequest(code=totp(started.secret)))
    page = await web.get(authorize_url(client_id, Pkce()))

    prompt = await web.submit(page, "sign_in", email=person.email, password=PASSWORD)
    answer = await web.submit(
        prompt, "sign_in", email=person.email, password=PASSWORD, second_factor=confirmed.recovery_codes[0]
    )

    assert "has a second factor" in prompt.text
    assert "<details open>" in prompt.text
    assert PASSWORD not in prompt.text
    assert answer.status_code == 303


async def test_an_account_without_tenants_has_nothing_to_give(cluster: Cluster, web: Web, client_id: str) -> None:
    page = await web.consent(authorize_url(client_id, Pkce()), await new_person(cluster))

    assert "not a member of any tenant" in page.text
    assert 'value="allow"' not in page.text


async def test_an_address_is_verified_by_a_form_alone(cluster: Cluster, web: Web) -> None:
    made = await cluster.operator.auth.CreateAccount(
        accounts_pb2.CreateAccountRequest(email=(await new_person(cluster)).email.replace("@", ".x@"))
    )
    account_id = made.account.account_id
    token = await cluster.operator.auth.CreateOneTimeToken(
        accounts_pb2.CreateOneTimeTokenRequest(
            account_id=account_id, purpose=accounts_pb2.TOKEN_PURPOSE_EMAIL_VERIFICATION
        )
    )

    page = await web.get("/account/verify", token=token.token)
    before = await cluster.operator.auth.GetAccount(accounts_pb2.GetAccountRequest(account_id=account_id))
    answer = await web.submit(page, "verify")
    after = await cluster.operator.auth.GetAccount(accounts_pb2.GetAccountRequest(account_id=account_id))
    again = await web.submit(page, "verify")

    assert not before.account.HasField("email_verify_time")
    assert (answer.status_code, after.account.HasField("email_verify_time")) == (200, True)
    assert (again.status_code, "already used" in again.text) == (400, True)


async def test_a_forgotten_password_is_replaced(cluster: Cluster, web: Web, client_id: str, person: Person) -> None:
    token = await cluster.operator.auth.CreateOneTimeToken(
        accounts_pb2.CreateOneTimeTokenRequest(
            account_id=person.account_id, purpose=accounts_pb2.TOKEN_PURPOSE_PASSWORD_RESET
        )
    )
    page = await web.get("/account/reset", token=token.token)

    short = await web.submit(page, "reset", new_password="short")
    done = await web.submit(short, "reset", new_password="another password")
    page = await web.get(authorize_url(client_id, Pkce()))
    signed_in = await web.submit(page, "sign_in", email=person.email, password="another password")

    assert (short.status_code, done.status_code, signed_in.status_code) == (400, 200, 303)


async def test_a_reset_link_cannot_be_sent_without_mail(web: Web, person: Person) -> None:
    page = await web.get("/account/reset")

    answer = await web.submit(page, "request", email=person.email)

    assert "sends no mail" in answer.text


async def test_an_invitation_is_taken_with_an_account(cluster: Cluster, web: Web, tenant: Tenant) -> None:
    person = await new_person(cluster)
    invited = await tenant.tenancy.CreateInvitation(
        members_pb2.CreateInvitationRequest(email=person.email, role=members_pb2.ROLE_MEMBER)
    )
    page = await web.get("/account/invitation", token=invited.token)

    answer = await web.submit(page, "sign_in", email=person.email, password=PASSWORD)

    assert answer.status_code == 200
    assert "You are now a member of" in answer.text


async def test_an_invitation_is_taken_with_a_new_account(cluster: Cluster, web: Web, tenant: Tenant) -> None:
    email = (await new_person(cluster)).email.replace("@", ".new@")
    invited = await tenant.tenancy.CreateInvitation(
        members_pb2.CreateInvitationRequest(email=email, role=members_pb2.ROLE_MEMBER)
    )
    page = await web.get("/account/invitation", token=invited.token)

    short = await web.submit(page, "sign_up", email=email, password="short", display_name="Ada")
    answer = await web.submit(short, "sign_up", email=email, password=PASSWORD, display_name="Ada")

    assert "too short" in short.text
    assert "You are now a member of" in answer.text, answer.text


async def test_a_form_is_a_form(web: Web, client_id: str) -> None:
    answer = await web.client.post(authorize_url(client_id, Pkce()), json={"step": "sign_in"})

    assert answer.status_code == 400


async def test_a_redirect_of_ones_own_scheme_is_followed(web: Web, person: Person, tenant: Tenant) -> None:
    client = await web.register(redirect_uris=["com.example.app:/cb"], application_type="native")
    url = authorize_url(client["client_id"], Pkce(), redirect_uri="com.example.app:/cb")
    page = await web.consent(url, person)

    answer = await web.submit(page, "answer", decision="allow", tenant_id=str(tenant.tenant_id))

    assert "form-action 'self' com.example.app:" in page.headers["content-security-policy"]
    assert answer.headers["location"].startswith("com.example.app:/cb?code=")


async def test_the_style_is_served(web: Web) -> None:
    answer = await web.get("/oauth/style.css")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
