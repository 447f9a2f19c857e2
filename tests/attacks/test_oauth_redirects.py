"""Attack: redirect addresses that look like the registered one, and answers that a client takes for another server's.
May be seen: an error page of our own; in a redirect that is the client's, the error and the name of this server.
May be spent: one read of the client per request; nothing is stored before a person agrees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant, refused
from fix_oauth import App
from fix_web import PASSWORD, Pkce, Web, authorize_url, new_person, query_of
from grpc import aio

from skein.auth.v1 import oauth_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
HTTPS = "https://app.example/back"
LOOPBACK = "http://127.0.0.1:9/callback"
PRIVATE = "com.example.app:/back"
REGISTERED = [HTTPS, LOOPBACK, PRIVATE]
CONFUSABLES = [
    # Another host behind a user, a port or a name that begins or ends alike.
    "https://app.example@evil.example/back",
    "https://app.example:443@evil.example/back",
    "https://evil.example\\@app.example/back",
    "https://evil.example#@app.example/back",
    "https://evil.example?@app.example/back",
    "https://app.example.evil.example/back",
    "https://evil-app.example/back",
    "https://user@app.example/back",
    "https://:@app.example/back",
    # The same host in another spelling.
    "https://app.example./back",
    "https://APP.example/back",
    "https://app.example:443/back",
    "https://xn--app-.example/back",
    "https://\u0430pp.example/back",
    "https://app\u3002example/back",
    "https://app%2eexample/back",
    "HTTPS://app.example/back",
    "http://app.example/back",
    "//app.example/back",
    "https:/app.example/back",
    "https:app.example/back",
    "https:///app.example/back",
    # Another place on it.
    "https://app.example/back/",
    "https://app.example//back",
    "https://app.example/./back",
    "https://app.example/x/../back",
    "https://app.example/back/../open",
    "https://app.example/back/..%2fopen",
    "https://app.example/back%2f..%2f..%2fopen",
    "https://app.example/%62ack",
    "https://app.example/Back",
    "https://app.example/back;x",
    "https://app.example/back?next=//evil.example",
    "https://app.example/back#code",
    "https://app.example/back%23",
    "https://app.example/back%00",
    "https://app.example/back\t",
    " https://app.example/back",
    "https://app.example/back\r\nlocation: https://evil.example",
    # The port of a loopback address may differ; nothing else of it.
    "http://127.0.0.1:9@evil.example/callback",
    "http://127.0.0.1:9:9/callback",
    "http://127.0.0.1:99999/callback",
    "http://127.0.0.1:0/callback",
    "http://127.0.0.1:-1/callback",
    "http://127.0.0.1:/callback",
    "http://127.1:9/callback",
    "http://2130706433:9/callback",
    "http://0x7f000001:9/callback",
    "http://127.0.0.1.:9/callback",
    "http://[::ffff:127.0.0.1]:9/callback",
    "http://[::1]:9/callback",
    "http://localhost:9/callback",
    "http://127.0.0.2:9/callback",
    "http://127.0.0.1.evil.example:9/callback",
    "https://127.0.0.1:9/callback",
    "http://127.0.0.1:9/callback/../other",
    "http://127.0.0.1:9//callback",
    "http://127.0.0.1:9\\/callback",
    # Private schemes.
    "com.example.app://back",
    "COM.example.app:/back",
    "com.example.app:/back/../x",
    "com.example.apps:/back",
    "javascript:alert(1)//com.example.app:/back",
    "data:text/html,x",
]
NEVER_REGISTERED = [
    "http://app.example/back",
    "https://user@app.example/back",
    "https://app.example\\@evil.example/",
    "https://app.example/back#fragment",
    "https:///back",
    "https://:443/back",
    "https://app.example:99999/back",
    "https://\u0430pp.example/back",
    "http://127.0.0.2/back",
    "http://127.0.0.1.evil.example/back",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "app:/back",
    "/back",
    "",
    # What the answer itself says, said before it.
    "https://app.example/back?iss=https%3A%2F%2Fevil.example",
    "https://app.example/back?x=1&code=theirs",
    "https://app.example/back?%73tate=theirs",
    "com.example.app:/back?error=",
]


@pytest.fixture
async def web(cluster: Cluster) -> AsyncIterator[Web]:
    async with Web.of(cluster.addresses["http"]) as browser:
        yield browser


@pytest.mark.system
async def test_nothing_but_a_registered_address_is_redirected_to(direct: aio.Channel) -> None:
    app = await App.registered(direct, redirect_uris=REGISTERED)

    for uri in CONFUSABLES:
        for error in ({}, {"code_challenge": ""}, {"scope": "nonsense"}):
            with refused(INVALID, "OAUTH_INVALID_REQUEST"):
                await app.oauth.CreateAuthorization(app.asks(redirect_uri=uri, **error))
    for registered in (*REGISTERED, "http://127.0.0.1:8080/callback", "http://127.0.0.1/callback"):
        assert (await app.oauth.CreateAuthorization(app.asks(redirect_uri=registered))).prompt.handle


async def test_a_browser_is_led_nowhere_by_a_confusable(web: Web) -> None:
    client_id = (await web.register(redirect_uris=REGISTERED))["client_id"]

    for uri in CONFUSABLES[:: attack_size(4, 1)]:
        page = await web.get(authorize_url(client_id, Pkce(), redirect_uri=uri))
        assert (page.status_code, page.headers.get("location")) == (400, None), uri


async def test_a_browser_without_a_login_is_led_nowhere_by_an_error(web: Web) -> None:
    client_id = (await web.register())["client_id"]
    url = authorize_url(client_id, Pkce())
    login = await web.get(url)

    answers = {
        "no interaction": await web.get(authorize_url(client_id, Pkce(), prompt="none")),
        "a scope": await web.get(authorize_url(client_id, Pkce(), scope="nonsense")),
        "no PKCE": await web.get(authorize_url(client_id, Pkce(), code_challenge="")),
        "a request object": await web.get(f"{url}&request=x"),
        "a request uri": await web.get(f"{url}&request_uri=x"),
        "a wrong password": await web.submit(login, "sign_in", email="nobody@example.org", password="wrong"),
    }

    assert {how: (answer.status_code, answer.headers.get("location")) for how, answer in answers.items()} == {
        how: (403 if how == "a wrong password" else 400, None) for how in answers
    }


async def test_an_address_that_no_answer_should_go_to_is_not_registered(app: App) -> None:
    for uri in NEVER_REGISTERED:
        client = oauth_pb2.Client(client_name="An app", redirect_uris=[HTTPS, uri])
        with refused(INVALID, "OAUTH_INVALID_REDIRECT_URI"):
            await app.oauth.RegisterClient(oauth_pb2.RegisterClientRequest(client=client))
        client.client_id = app.client.client_id
        with refused(INVALID, "OAUTH_INVALID_REDIRECT_URI"):
            await app.oauth.UpdateClient(
                oauth_pb2.UpdateClientRequest(client=client, registration_access_token=app.registration)
            )


async def test_every_answer_names_this_server_once(cluster: Cluster, web: Web, tenant: Tenant) -> None:
    person = await new_person(cluster, tenant)
    client_id = (await web.register())["client_id"]
    payload = (await web.get("/.well-known/oauth-authorization-server")).json()
    page = await web.consent(authorize_url(client_id, Pkce()), person)
    form = {"tenant_id": str(tenant.tenant_id)}
    state = "s&iss=https://evil.example&code=theirs"

    answers = {
        "yes": await web.submit(page, "answer", decision="allow", **form),
        "no": await web.submit(page, "answer", decision="deny", **form),
        "no PKCE": await web.get(authorize_url(client_id, Pkce(), code_challenge="")),
        "a scope": await web.get(authorize_url(client_id, Pkce(), scope="nonsense")),
        "a response type": await web.get(authorize_url(client_id, Pkce(), response_type="token")),
        "no interaction": await web.get(authorize_url(client_id, Pkce(), prompt="none")),
        "a request object": await web.get(authorize_url(client_id, Pkce()) + "&request=x"),
        "a request uri": await web.get(authorize_url(client_id, Pkce()) + "&request_uri=x"),
        "a state with parameters": await web.get(authorize_url(client_id, Pkce(), state=state, scope="nonsense")),
        "an issuer of the attacker's": await web.get(
            authorize_url(client_id, Pkce(), scope="nonsense") + "&iss=https://evil.example"
        ),
    }

    assert payload["authorization_response_iss_parameter_supported"] is True
    for how, answer in answers.items():
        parameters = query_of(answer.headers["location"])
        assert parameters["iss"] == [payload["issuer"]], how
        assert all(len(values) == 1 for values in parameters.values()), how
        assert "code" not in parameters or how == "yes", how
    assert query_of(answers["a state with parameters"].headers["location"])["state"] == [state]
    assert PASSWORD not in "".join(answer.headers["location"] for answer in answers.values())
