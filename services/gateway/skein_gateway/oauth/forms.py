"""Parses OAuth's parameters and client credentials (RFC 6749). Pure: knows text, no server."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote_plus

from skein.auth.v1 import oauth_pb2

FORM = "application/x-www-form-urlencoded"
CLIENT_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# The only parameter that may be repeated (RFC 8707).
RESOURCE = "resource"
# More than any legitimate request needs.
MAX_PARAMETERS = 64
MAX_TEXT = 32 * 1024
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


class FormInvalid(Exception):
    """The form of a request breaks a rule of OAuth; the message says which."""


class ClientInvalid(Exception):
    """The client's credentials cannot be read; the message says why."""


class Parameters:
    """The parameters of a request. Each occurs at most once, except `resource`; empty ones count as absent."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        """Keep the parameters. Raises FormInvalid for a repeated one."""
        names = [name for name, _ in pairs if name != RESOURCE]
        if len(names) != len(set(names)):
            repeated = sorted({name for name in names if names.count(name) > 1})
            raise FormInvalid(f"The parameter {printable(repeated[0])} is repeated.")
        self._values = {name: value for name, value in pairs if value and name != RESOURCE}
        self.resources = [value for name, value in pairs if value and name == RESOURCE]

    @classmethod
    def of(cls, text: str, max_text: int = MAX_TEXT) -> Parameters:
        """Parse a query string or a form of at most `max_text` characters. Raises FormInvalid."""
        if len(text) > max_text:
            raise FormInvalid("The request is too long.")
        if _BROKEN_ESCAPE.search(text):
            raise FormInvalid("The request is not form-encoded.")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
        except UnicodeDecodeError:
            raise FormInvalid("The request is not UTF-8.") from None
        except ValueError:
            raise FormInvalid("The request has too many parameters.") from None
        if any("\x00" in name or "\x00" in value for name, value in pairs):
            raise FormInvalid("The request contains a NUL character.")
        return cls(pairs)

    @classmethod
    def of_bytes(cls, body: bytes, max_text: int = MAX_TEXT) -> Parameters:
        """Parse the bytes of a query string or a form. Raises FormInvalid."""
        try:
            return cls.of(body.decode("ascii"), max_text)
        except UnicodeDecodeError:
            raise FormInvalid("The request is not form-encoded.") from None

    def get(self, name: str) -> str:
        """Return a parameter's value; empty when it is absent."""
        return self._values.get(name, "")

    def __contains__(self, name: object) -> bool:
        return name in self._values


def is_form(content_type: str) -> bool:
    """Tell whether a Content-Type is that of a form."""
    return content_type.partition(";")[0].strip().lower() == FORM


def client_of(headers: Mapping[str, str], form: Parameters) -> oauth_pb2.ClientAuthentication | None:
    """Return the client's authentication; None without one. Raises FormInvalid and ClientInvalid.

    Refuses a client that authenticates twice, or sends two different ids.
    """
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    client_id, secret, assertion = form.get("client_id"), form.get("client_secret"), form.get("client_assertion")
    if assertion or form.get("client_assertion_type"):
        if secret or scheme.lower() == "basic":
            raise FormInvalid("The client authenticates in two ways: with a secret and with an assertion. Use one.")
        if not assertion or form.get("client_assertion_type") != CLIENT_ASSERTION_TYPE:
            raise FormInvalid(
                f"A client assertion needs client_assertion, and client_assertion_type {CLIENT_ASSERTION_TYPE}."
            )
        return oauth_pb2.ClientAuthentication(client_id=client_id, client_assertion=assertion, method="private_key_jwt")
    if scheme.lower() == "basic":
        if secret:
            raise FormInvalid("The client sends its secret twice: in the header and in the body. Use one of them.")
        client = _basic(credential.strip())
        if client_id and client_id != client.client_id:
            raise FormInvalid("The client_id in the header differs from the one in the body.")
        return client
    if secret:
        return oauth_pb2.ClientAuthentication(client_id=client_id, client_secret=secret, method="client_secret_post")
    if client_id:
        return oauth_pb2.ClientAuthentication(client_id=client_id, method="none")
    return None


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the bearer credential of a request; empty when there is none."""
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    return credential.strip() if scheme.lower() == "bearer" else ""


def printable(name: str) -> str:
    """Return a caller's text, made safe for an error message."""
    return _UNPRINTABLE.sub("?", name)[:40].encode("ascii", "replace").decode().replace('"', "'").replace("\\", "?")


def _basic(text: str) -> oauth_pb2.ClientAuthentication:
    """Parse client_secret_basic, whose halves are both form-encoded (RFC 6749, 2.3.1)."""
    try:
        decoded = base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise ClientInvalid("The Authorization header is malformed.") from None
    name, colon, secret = decoded.partition(":")
    if not colon or _BROKEN_ESCAPE.search(decoded):
        raise ClientInvalid("The Authorization header is malformed.")
    try:
        client_id, client_secret = unquote_plus(name, errors="strict"), unquote_plus(secret, errors="strict")
    except UnicodeDecodeError:
        raise ClientInvalid("The Authorization header is malformed.") from None
    if not client_id or "\x00" in client_id + client_secret:
        raise ClientInvalid("The Authorization header is malformed.")
    return oauth_pb2.ClientAuthentication(
        client_id=client_id, client_secret=client_secret, method="client_secret_basic"
    )
