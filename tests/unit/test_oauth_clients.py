from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from fix_catalogue import over

from skein_auth.errors import (
    InvalidClient,
    InvalidClientMetadata,
    InvalidRedirectUri,
    InvalidScope,
    InvalidToken,
    UnauthorizedClient,
)
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import Client, matches, redirect_uri_error
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken

AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
BACK = "https://app.example/back?for=skein"
LOOPBACK = "http://127.0.0.1/back"
CLIENT_ID = UUID(int=5)


def client(**fields: Any) -> Client:
    metadata = {"redirect_uris": [BACK], "token_endpoint_auth_method": "none", **fields}
    return clients.from_metadata(metadata, frozenset({"cursor"}), AT, client_id=str(CLIENT_ID))


@over("uri", [LOOPBACK, "http://127.0.0.1:1/back", "http://127.0.0.1:65535/back"])
def test_a_loopback_redirect_may_have_any_port(uri: str) -> None:
    assert client(redirect_uris=[LOOPBACK]).redirect(uri) == uri
    assert matches("http://127.0.0.1:8000/back", uri)


def test_an_https_redirect_to_this_device_keeps_its_port() -> None:
    assert not matches("https://127.0.0.1/back", "https://127.0.0.1:9/back")


@over(
    "uri",
    [
        "https://app.example/back",
        "https://app.example",
        "https://app.example:8443/back?x=1",
        "https://[2001:db8::1]/back",
        "http://127.0.0.1/back",
        "http://127.0.0.1:9/",
        "http://[::1]:9/back",
        "http://localhost:9/back",
        "com.example.app:/back",
        "com.example.app://back",
        "cursor://anysphere.cursor-retrieval/oauth",
    ],
)
def test_these_redirects_can_be_registered(uri: str) -> None:
    assert redirect_uri_error(uri, frozenset({"cursor"})) is None


def test_never_a_redirect_to_a_script_whatever_the_operator_allows() -> None:
    assert redirect_uri_error("javascript:alert(1)", frozenset({"javascript"})) is not None


def test_a_redirect_may_be_left_out_when_there_is_one() -> None:
    assert client().redirect("") == BACK
    assert client(redirect_uris=[BACK, LOOPBACK]).redirect("") is None


def test_the_target_of_a_redirect_is_shown_to_people_and_browsers() -> None:
    assert clients.redirect_target(BACK) == ("app.example", "https://app.example")
    assert clients.redirect_target("http://127.0.0.1:9/x") == ("127.0.0.1:9", "http://127.0.0.1:9")
    assert clients.redirect_target("com.example.app:/x") == ("com.example.app:", "com.example.app:")


def test_a_client_that_says_little_gets_the_defaults_of_rfc_7591() -> None:
    result = clients.from_metadata({"redirect_uris": [BACK]}, frozenset(), AT, client_id="c")

    assert result.grant_types == ("authorization_code",)
    assert result.response_types == ("code",)
    assert result.token_endpoint_auth_method == "client_secret_basic"


@over(
    "fields",
    [
        {"grant_types": ["implicit"]},
        {"grant_types": ["refresh_token"]},
        {"grant_types": ["password", "client_credentials"]},
        {"response_types": ["token"]},
        {"response_types": ["code", "id_token"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "None"},
        {"client_uri": "javascript:alert(1)"},
        {"logo_uri": "data:image/png,x"},
        {"client_name": "x" * 256},
        {"client_name": ["x"]},
        {"client_name": "Good\u202eknaB"},
        {"client_name": "Two\nlines"},
        {"contacts": "me"},
        {"grant_types": "authorization_code"},
        {"redirect_uris": [BACK, 1]},
        {"software_id": "a\x00b"},
    ],
)
def test_a_client_s_registration_must_make_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidClientMetadata):
        client(**fields)


def test_a_client_with_codes_needs_a_redirect_and_a_device_none() -> None:
    with pytest.raises(InvalidRedirectUri):
        client(redirect_uris=[])

    assert client(redirect_uris=[], grant_types=[clients.DEVICE_CODE]).response_types == ()


def test_a_client_asks_for_what_it_registered_and_no_more() -> None:
    result = client(scope="memory.read openid unheard.of")

    assert result.scope == "memory.read openid"
    assert result.scopes("") == {"memory.read", "openid"}
    assert result.scopes("memory.read offline_access") == {"memory.read"}
    for scope in ("memory.write", "unheard.of", "account", "operator"):
        with pytest.raises(InvalidScope):
            result.scopes(scope)


@over("scope", ["account", "operator", "system", "tenant.create"])
def test_no_application_can_ask_for_what_only_people_and_operators_have(scope: str) -> None:
    assert scope not in client(scope=scope).scope
    with pytest.raises(InvalidScope):
        client().scopes(scope)


def test_a_grant_that_was_not_registered_is_refused() -> None:
    client().require_grant_type("authorization_code")
    with pytest.raises(UnauthorizedClient):
        client().require_grant_type("refresh_token")


def test_a_client_proves_itself_in_the_way_that_it_registered() -> None:
    result, secret, _ = clients.with_credentials(client(token_endpoint_auth_method="client_secret_post"), CLIENT_ID)
    assert secret is not None

    result.authenticate(secret.encode(), "client_secret_post", AT)
    other = BearerToken.generate(clients.SECRET_PREFIX, NO_TENANT, CLIENT_ID)
    for text, method in (
        (secret.encode(), "client_secret_basic"),
        (secret.encode(), "none"),
        ("", "client_secret_post"),
        ("", "none"),
        (other.encode(), "client_secret_post"),
        (secret.encode() + "x", "client_secret_post"),
    ):
        with pytest.raises(InvalidClient):
            result.authenticate(text, method, AT)


def test_a_public_client_shows_no_secret() -> None:
    client().authenticate("", "none", AT)
    for text, method in (("x", "none"), ("", "client_secret_post"), ("", "client_secret_basic")):
        with pytest.raises(InvalidClient):
            client().authenticate(text, method, AT)


def test_the_secret_of_another_client_proves_nothing() -> None:
    result, _, _ = clients.with_credentials(client(token_endpoint_auth_method="client_secret_post"), CLIENT_ID)
    _, theirs, _ = clients.with_credentials(client(token_endpoint_auth_method="client_secret_post"), UUID(int=6))
    assert theirs is not None

    with pytest.raises(InvalidClient):
        result.authenticate(theirs.encode(), "client_secret_post", AT)


def test_a_registration_token_manages_its_own_client_alone() -> None:
    result, _, verify_registration_token = clients.with_credentials(client(), CLIENT_ID)
    _, _, theirs = clients.with_credentials(client(), UUID(int=6))

    result.verify_registration_token(verify_registration_token.encode())
    for text in (
        theirs.encode(),
        "",
        "x",
        BearerToken.generate(clients.REGISTRATION_PREFIX, NO_TENANT, CLIENT_ID).encode(),
    ):
        with pytest.raises(InvalidToken):
            result.verify_registration_token(text)
    with pytest.raises(InvalidToken):
        client().verify_registration_token(verify_registration_token.encode())


@over("client_id", ["https://app.example/client.json", "https://app.example:8443/oauth/client"])
def test_an_https_address_with_a_path_names_a_document(client_id: str) -> None:
    assert clients.is_document(client_id)


@over(
    "client_id",
    [
        "https://app.example",
        "https://app.example/",
        "http://app.example/client.json",
        "https://user@app.example/client.json",
        "https://app.example/client.json#f",
        "https://app.example/a/../client.json",
        "https://app.example/./client.json",
        "ftp://app.example/client.json",
        str(CLIENT_ID),
        "skein",
        "",
    ],
)
def test_any_other_text_names_none(client_id: str) -> None:
    assert not clients.is_document(client_id)


def test_a_document_must_be_about_its_own_address_and_holds_no_secret() -> None:
    url = "https://app.example/client.json"
    fields = {"client_id": url, "redirect_uris": [BACK], "client_name": "App"}

    result = clients.from_document(url, fields, frozenset(), AT)

    assert (result.client_id, result.source, result.token_endpoint_auth_method) == (url, "document", "none")
    for wrong in (
        {"client_id": "https://app.example/other.json"},
        {"token_endpoint_auth_method": "client_secret_post"},
    ):
        with pytest.raises(InvalidClientMetadata):
            clients.from_document(url, {**fields, **wrong}, frozenset(), AT)
    with pytest.raises(InvalidRedirectUri):
        clients.from_document(url, {**fields, "redirect_uris": ["http://app.example/back"]}, frozenset(), AT)


def test_hashes_are_not_shown() -> None:
    result, secret, verify_registration_token = clients.with_credentials(
        client(token_endpoint_auth_method="client_secret_post"), CLIENT_ID
    )

    assert result.secret_hash is not None
    assert repr(result.secret_hash) not in repr((result, secret, verify_registration_token))
