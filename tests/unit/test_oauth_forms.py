from __future__ import annotations

import base64

import pytest
from fix_catalogue import over

from skein_gateway.oauth.forms import ClientInvalid, FormInvalid, Parameters, client_of, is_form
from skein_gateway.oauth.pages import page_policy, with_parameters
from skein_gateway.oauth.registration import client_of as registered


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_parameters_are_decoded() -> None:
    form = Parameters.of("scope=memory.read+memory.write&state=%C3%BC%26")

    assert (form.get("scope"), form.get("state"), form.get("nonce")) == ("memory.read memory.write", "ü&", "")


def test_a_parameter_without_a_value_is_not_there() -> None:
    form = Parameters.of("scope=&state=1")

    assert "scope" not in form
    assert "state" in form


@over("text", ["a=1&a=2", "a=1&a=", "a=&a=", "client_id=x&%63lient_id=y"])
def test_a_repeated_parameter_is_refused(text: str) -> None:
    with pytest.raises(FormInvalid, match="repeated"):
        Parameters.of(text)


def test_resources_may_be_several() -> None:
    assert Parameters.of("resource=https://a&resource=https://b").resources == ["https://a", "https://b"]


@over("text", ["a=%zz", "a=%", "a=%C3", "a=%00", "a=" + "x" * 40_000, "&".join(f"p{n}=" for n in range(90))])
def test_an_invalid_form_is_refused(text: str) -> None:
    with pytest.raises(FormInvalid):
        Parameters.of(text)


def test_bytes_that_are_not_ascii_are_refused() -> None:
    with pytest.raises(FormInvalid):
        Parameters.of_bytes("state=ü".encode())


def test_a_message_about_a_parameter_holds_nothing_that_breaks_a_line() -> None:
    with pytest.raises(FormInvalid) as caught:
        Parameters.of("%0a%22=1&%0a%22=2")

    assert str(caught.value) == "The parameter ?' is repeated."


@over(
    ("content_type", "expected"),
    [
        ("application/x-www-form-urlencoded", True),
        ("Application/X-WWW-Form-Urlencoded; charset=UTF-8", True),
        ("application/json", False),
        ("multipart/form-data; boundary=x", False),
        ("", False),
    ],
)
def test_only_one_content_type_is_a_form(content_type: str, *, expected: bool) -> None:
    assert is_form(content_type) is expected


def test_a_client_may_say_who_it_is_in_the_header() -> None:
    result = client_of(basic("https%3A%2F%2Fapp.example%3A8443:p%25+w"), Parameters.of(""))

    assert result is not None
    assert (result.client_id, result.client_secret) == ("https://app.example:8443", "p% w")
    assert result.method == "client_secret_basic"


def test_a_client_may_say_who_it_is_in_the_body() -> None:
    result = client_of({}, Parameters.of("client_id=a&client_secret=s"))

    assert result is not None
    assert (result.client_id, result.client_secret, result.method) == ("a", "s", "client_secret_post")


def test_a_public_client_names_itself() -> None:
    result = client_of({}, Parameters.of("client_id=a"))

    assert result is not None
    assert (result.client_id, result.method) == ("a", "none")


def test_a_request_without_credentials_names_no_client() -> None:
    assert client_of({}, Parameters.of("")) is None


@over("body", ["client_secret=s", "client_id=a&client_secret=s", "client_id=b"])
def test_a_client_that_says_two_things_is_refused(body: str) -> None:
    with pytest.raises(FormInvalid):
        client_of(basic("a:s"), Parameters.of(body))


def test_a_client_may_repeat_its_id() -> None:
    result = client_of(basic("a:s"), Parameters.of("client_id=a"))

    assert result is not None
    assert result.client_id == "a"


@over("text", ["no colon", ":secret", "a:%zz", "a:%FF"])
def test_a_header_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ClientInvalid):
        client_of(basic(text), Parameters.of(""))


@over("header", ["Basic", "Basic !!!", "Basic w7w", "Basic //8="])
def test_a_header_that_is_not_base64_is_refused(header: str) -> None:
    with pytest.raises(ClientInvalid):
        client_of({"authorization": header}, Parameters.of(""))


@over("document", [{"client_name": 1}, {"redirect_uris": "https://a"}, {"contacts": ["a", 1]}])
def test_a_registration_of_wrong_types_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(FormInvalid):
        registered(document)


def test_a_registration_may_say_more_than_is_known_here() -> None:
    client = registered({"client_name": "App", "jwks_uri": "https://a", "redirect_uris": ["https://a/cb"]})

    assert (client.client_name, list(client.redirect_uris)) == ("App", ["https://a/cb"])


@over(
    ("origin", "allowed"),
    [
        ("https://app.example:8443", "'self' https://app.example:8443"),
        ("http://127.0.0.1:4711", "'self' http://127.0.0.1:4711"),
        ("http://[::1]:4711", "'self' http:"),
        ("com.example.app:", "'self' com.example.app:"),
        ("https://a; script-src *", "'self'"),
        ("", "'self'"),
    ],
)
def test_a_page_lets_its_forms_lead_to_the_client_and_nowhere_else(origin: str, allowed: str) -> None:
    assert f"form-action {allowed};" in page_policy(origin)


def test_a_redirect_keeps_its_own_parameters() -> None:
    assert with_parameters("https://a/cb", {"error": "x y"}) == "https://a/cb?error=x%20y"
    assert with_parameters("https://a/cb?k=1", {"error": "x"}) == "https://a/cb?k=1&error=x"
