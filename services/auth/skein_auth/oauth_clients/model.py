"""OAuth clients: their metadata (RFC 7591), their redirect URIs and their authentication."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from skein_auth.assertions.keys import key_set_error
from skein_auth.errors import (
    InvalidClient,
    InvalidClientMetadata,
    InvalidRedirectUri,
    InvalidScope,
    InvalidToken,
    UnauthorizedClient,
)
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.permissions import PERMISSION_DESCRIPTIONS, ROLE_PERMISSIONS

SECRET_PREFIX = "skein_cs_"  # noqa: S105 - a form, not a secret.
REGISTRATION_PREFIX = "skein_reg_"
# The client id of people's own auth sessions.
RESERVED = frozenset({"skein"})
AUTHORIZATION_CODE = "authorization_code"
REFRESH_TOKEN = "refresh_token"  # noqa: S105 - the name of a grant.
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GRANT_TYPES = (AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE, JWT_BEARER)
AUTH_METHOD_NONE = "none"
PRIVATE_KEY_JWT = "private_key_jwt"
SECRET_METHODS = ("client_secret_basic", "client_secret_post")
METHODS = (AUTH_METHOD_NONE, *SECRET_METHODS, PRIVATE_KEY_JWT)
OIDC_SCOPES = frozenset({"openid", "profile", "email"})
KNOWN_SCOPES = frozenset(PERMISSION_DESCRIPTIONS) | OIDC_SCOPES
# Many clients request it; here the grant types decide whether there is a refresh token.
_IGNORED_SCOPES = frozenset({"offline_access"})
# The scopes of a client that names none.
DEFAULT_SCOPES = ROLE_PERMISSIONS["member"]
_MAX_URI = 2048
# Most bytes of all metadata of a client: strangers register, and each client is a row.
MAX_METADATA_BYTES = 8192
_METADATA = (
    "client_id", "client_name", "redirect_uris", "scope", "client_uri", "logo_uri", "tos_uri", "policy_uri", "contacts",
    "software_id", "software_version", "jwks_uri", "jwks",
)  # fmt: skip
_URI = re.compile(r"[!-~]+")
_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::[0-9]{1,5})?((?:[/?].*)?)", re.DOTALL)
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")
_FORBIDDEN_SCHEMES = frozenset(
    {"javascript", "data", "vbscript", "file", "about", "blob", "ftp", "ws", "wss", "view-source"}
)
# Parameters of an authorization response (RFC 6749, RFC 9207).
_RESPONSE_PARAMETERS = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
_NO_SECRET = bytes(32)
# Ids of imported clients: no character that OAuth or a URL escapes.
_NAME = re.compile(r"[A-Za-z0-9._~-]{1,255}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """A registered, imported or documented application."""

    client_id: str
    # "registered", or "document": its id is the URL of its metadata.
    source: str = "registered"
    client_name: str = ""
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = (AUTHORIZATION_CODE,)
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: str = AUTH_METHOD_NONE
    # Empty: no limit.
    scope: str = ""
    client_uri: str = ""
    logo_uri: str = ""
    tos_uri: str = ""
    policy_uri: str = ""
    contacts: tuple[str, ...] = ()
    software_id: str = ""
    software_version: str = ""
    # Its keys for private_key_jwt: the URL of a JWK Set, or the set itself as JSON.
    jwks_uri: str = ""
    jwks: str = ""
    # SHA-256 of the secret part of its token, or of the whole text of an imported secret.
    secret_hash: bytes | None = field(default=None, repr=False)
    secret_expire_time: datetime | None = None
    registration_hash: bytes | None = field(default=None, repr=False)
    stale_time: datetime | None = None
    create_time: datetime
    update_time: datetime

    @property
    def name(self) -> str:
        """Its display name, which is not verified."""
        return self.client_name or self.client_id

    @property
    def has_imported_secret(self) -> bool:
        """Whether another system chose the secret, which may be weak."""
        return self.secret_hash is not None and self.registration_hash is None

    def redirect(self, requested_uri: str) -> str | None:
        """Return the redirect URI if it is registered; the port of a loopback address is free. None for others.

        A request of a client with one URI may leave it out.
        """
        if not requested_uri:
            return self.redirect_uris[0] if len(self.redirect_uris) == 1 else None
        return (
            requested_uri
            if any(matches(registered_uri, requested_uri) for registered_uri in self.redirect_uris)
            else None
        )

    def require_grant_type(self, grant_type: str) -> None:
        """Raises UnauthorizedClient for a grant that the client did not register for."""
        if grant_type not in self.grant_types:
            raise UnauthorizedClient

    def scopes(self, scope: str) -> frozenset[str]:
        """Return the requested scopes, or its own when none is requested. Raises InvalidScope for others."""
        registered_scopes = frozenset(self.scope.split())
        requested_scopes = frozenset(scope.split()) - _IGNORED_SCOPES
        if not requested_scopes:
            return registered_scopes or DEFAULT_SCOPES
        if not requested_scopes <= (registered_scopes or KNOWN_SCOPES):
            raise InvalidScope
        return requested_scopes

    def authenticate(self, secret: str, method: str, at: datetime) -> None:
        """Raises InvalidClient unless secret and method are those of the registration."""
        is_secret_valid = _is_secret_valid(self.client_id, secret, self.secret_hash)
        if method != self.token_endpoint_auth_method:
            raise InvalidClient
        if method == AUTH_METHOD_NONE:
            if secret:
                raise InvalidClient
            return
        if not is_secret_valid or (self.secret_expire_time is not None and at >= self.secret_expire_time):
            raise InvalidClient

    def with_metadata_of(self, new: Client) -> Client:
        """Return a client with the metadata of `new` and the secrets and creation time of this one."""
        return replace(
            new,
            secret_hash=self.secret_hash,
            secret_expire_time=self.secret_expire_time,
            registration_hash=self.registration_hash,
            create_time=self.create_time,
        )

    def verify_registration_token(self, registration_token: str) -> None:
        """Raises InvalidToken unless this is the token that its registration returned."""
        token = BearerToken.decode(REGISTRATION_PREFIX, registration_token)
        if token is None or str(token.token_id) != self.client_id:
            raise InvalidToken
        if not token.matches_hash(self.registration_hash or _NO_SECRET):
            raise InvalidToken


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientCredentials:
    """What a client presents to authenticate."""

    client_id: str
    client_secret: str = field(repr=False)
    # One of METHODS; empty: none.
    method: str
    # For private_key_jwt.
    client_assertion: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrationQuota:
    """The source of a registration, and the most clients without a grant."""

    # SHA-256.
    address_hash: bytes
    max_per_address: int
    # Of all addresses together.
    max_clients: int


def refuse_unknown(secret: str) -> NoReturn:
    """Raises InvalidClient for an unknown client, in the time that a known one takes."""
    _is_secret_valid("", secret, None)
    raise InvalidClient


def _is_secret_valid(client_id: str, secret: str, secret_hash: bytes | None) -> bool:
    token = BearerToken.decode(SECRET_PREFIX, secret) or BearerToken(SECRET_PREFIX, NO_TENANT, NO_TENANT, _NO_SECRET)
    is_hash_equal = token.matches_hash(secret_hash or _NO_SECRET)
    is_generated_secret = is_hash_equal and hmac.compare_digest(str(token.token_id).encode(), client_id.encode())
    text_digest = hashlib.sha256(secret.encode()).digest()
    return hmac.compare_digest(text_digest, secret_hash or _NO_SECRET) or is_generated_secret


def matches(registered_uri: str, requested_uri: str) -> bool:
    """Return whether a redirect URI equals the registered one, apart from the port of a loopback address."""
    if registered_uri == requested_uri:
        return True
    requested_match, registered_match = _LOOPBACK.fullmatch(requested_uri), _LOOPBACK.fullmatch(registered_uri)
    return (
        requested_match is not None
        and registered_match is not None
        and requested_match.groups() == registered_match.groups()
        and redirect_uri_error(requested_uri, frozenset()) is None
    )


def redirect_uri_error(uri: str, schemes: Collection[str]) -> str | None:  # noqa: PLR0911 - one for each error.
    """Return the error of a redirect URI; None for a valid one. `schemes` need no dot."""
    if not uri or len(uri) > _MAX_URI or _URI.fullmatch(uri) is None or "\\" in uri:
        return "is not an absolute URI of printable characters"
    if "#" in uri:
        return "has a fragment"
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URI"
    if not uri.startswith(f"{parts.scheme}:") or _SCHEME.fullmatch(parts.scheme) is None:
        return "needs a scheme in lower case"
    if "@" in parts.netloc:
        return "names a user"
    if parts.scheme in {"https", "http"}:
        is_named = bool(host) and _HOST.fullmatch(parts.netloc.removesuffix(f":{port}")) is not None
        if not is_named or port == 0 or not uri.startswith(f"{parts.scheme}://"):
            return "names no host"
        if parts.scheme == "http" and parts.netloc.removesuffix(f":{port}").strip("[]") not in LOOPBACK_HOSTS:
            return "needs https, unless it is on this device (127.0.0.1, [::1], localhost)"
        return None
    if parts.scheme in _FORBIDDEN_SCHEMES or ("." not in parts.scheme and parts.scheme not in schemes):
        return (
            "needs https, http on this device, a private scheme with a dot such as com.example.app, or a scheme that "
            "the operator names in SKEIN_REDIRECT_SCHEMES"
        )
    return None


def response_parameter_error(uri: str) -> str | None:
    """Return the error of a redirect URI with a parameter of the response: a client could take it for the server's."""
    names = {name for name, _ in parse_qsl(urlsplit(uri).query, keep_blank_values=True)}
    return (
        f"has the parameter {', '.join(sorted(names & _RESPONSE_PARAMETERS))} of the answer"
        if names & _RESPONSE_PARAMETERS
        else None
    )


def redirect_target(uri: str) -> tuple[str, str]:
    """Return the host of a redirect for people ("host", "host:port" or "scheme:"), and its origin for form-action."""
    parts = urlsplit(uri)
    if parts.scheme in {"https", "http"}:
        return parts.netloc, f"{parts.scheme}://{parts.netloc}"
    return f"{parts.scheme}:", f"{parts.scheme}:"


def from_metadata(metadata: Mapping[str, Any], schemes: Collection[str], at: datetime, *, client_id: str) -> Client:
    """Return the client with this metadata (RFC 7591), whose defaults fill missing fields.

    Raises InvalidRedirectUri and InvalidClientMetadata.
    """
    grant_types = _texts(metadata, "grant_types") or (AUTHORIZATION_CODE,)
    response_types = _texts(metadata, "response_types") or (("code",) if AUTHORIZATION_CODE in grant_types else ())
    method = _text(metadata, "token_endpoint_auth_method") or "client_secret_basic"
    redirect_uris = _texts(metadata, "redirect_uris")
    if not set(grant_types) & {AUTHORIZATION_CODE, DEVICE_CODE, JWT_BEARER}:
        needed = f"needs {AUTHORIZATION_CODE}, {DEVICE_CODE} or {JWT_BEARER}"
        raise InvalidClientMetadata(violations=[("grant_types", needed)])
    if set(response_types) - {"code"} or (AUTHORIZATION_CODE in grant_types) != bool(response_types):
        raise InvalidClientMetadata(violations=[("response_types", f"is code, with the grant {AUTHORIZATION_CODE}")])
    if method not in METHODS:
        raise InvalidClientMetadata(violations=[("token_endpoint_auth_method", f"must be one of {', '.join(METHODS)}")])
    if AUTHORIZATION_CODE in grant_types and not redirect_uris:
        raise InvalidRedirectUri(violations=[("redirect_uris", "needs one")])
    for index, uri in enumerate(redirect_uris):
        if (error := redirect_uri_error(uri, schemes) or response_parameter_error(uri)) is not None:
            raise InvalidRedirectUri(violations=[(f"redirect_uris[{index}]", error)])
    jwks_uri, jwks = _client_keys(metadata, method)
    client = Client(
        client_id=client_id,
        client_name=_name(metadata),
        redirect_uris=redirect_uris,
        # RFC 7591 lets the response leave out grant types that the server does not support.
        grant_types=tuple(name for name in GRANT_TYPES if name in grant_types),
        response_types=tuple(dict.fromkeys(response_types)),
        token_endpoint_auth_method=method,
        scope=" ".join(sorted(KNOWN_SCOPES.intersection(_text(metadata, "scope").split()))),
        client_uri=_page(metadata, "client_uri"),
        logo_uri=_page(metadata, "logo_uri"),
        tos_uri=_page(metadata, "tos_uri"),
        policy_uri=_page(metadata, "policy_uri"),
        contacts=_texts(metadata, "contacts"),
        software_id=_text(metadata, "software_id", 255),
        software_version=_text(metadata, "software_version", 255),
        jwks_uri=jwks_uri,
        jwks=jwks,
        create_time=at,
        update_time=at,
    )
    return _check_size(client)


def from_document(client_id: str, document: Mapping[str, Any], schemes: Collection[str], at: datetime) -> Client:
    """Return the client of a metadata document, which has no secret: a public one, or one with keys."""
    client = from_metadata(
        {"token_endpoint_auth_method": AUTH_METHOD_NONE, **document}, schemes, at, client_id=client_id
    )
    if document.get("client_id") != client_id:
        raise InvalidClientMetadata(violations=[("client_id", "is not the address of the document")])
    if client.token_endpoint_auth_method in SECRET_METHODS:
        needed = f"must be {AUTH_METHOD_NONE} or {PRIVATE_KEY_JWT}"
        raise InvalidClientMetadata(violations=[("token_endpoint_auth_method", needed)])
    return replace(client, source="document")


def with_credentials(client: Client, client_id: UUID) -> tuple[Client, BearerToken | None, BearerToken]:
    """Return a new client with its credentials, its secret if its method needs one, and its registration token."""
    secret = (
        BearerToken.generate(SECRET_PREFIX, NO_TENANT, client_id)
        if client.token_endpoint_auth_method in SECRET_METHODS
        else None
    )
    registration_token = BearerToken.generate(REGISTRATION_PREFIX, NO_TENANT, client_id)
    with_hashes = replace(
        client,
        secret_hash=None if secret is None else secret.secret_hash(),
        registration_hash=registration_token.secret_hash(),
    )
    return with_hashes, secret, registration_token


def build_imported_client(client: Client, secret_hash: bytes, at: datetime, expire_time: datetime | None) -> Client:
    """Return a client of an earlier system with its id and secret. It has no registration token.

    Raises InvalidClientMetadata.
    """
    if not is_name(client.client_id) or client.client_id in RESERVED:
        raise InvalidClientMetadata(violations=[("client_id", "is not 1 to 255 letters, digits and . _ ~ -")])
    expected_bytes = len(_NO_SECRET) if client.token_endpoint_auth_method in SECRET_METHODS else 0
    if len(secret_hash) != expected_bytes:
        raise InvalidClientMetadata(
            violations=[("secret_hash", f"must have {expected_bytes} bytes for a client of this kind")]
        )
    return replace(client, secret_hash=secret_hash or None, secret_expire_time=expire_time, create_time=at)


def is_name(client_id: str) -> bool:
    """Return whether a text can be the id of an imported client."""
    return _NAME.fullmatch(client_id) is not None


def is_document(client_id: str) -> bool:
    """Return whether a client's id is the https URL of its metadata document."""
    if not client_id.startswith("https://") or _URI.fullmatch(client_id) is None or len(client_id) > _MAX_URI:
        return False
    if redirect_uri_error(client_id, frozenset()) is not None:
        return False
    path = urlsplit(client_id).path
    return len(path) > 1 and not {".", ".."} & set(path.split("/"))


def _check_size(client: Client) -> Client:
    texts = (value for value in (getattr(client, name) for name in _METADATA) if isinstance(value, str))
    lists = (value for value in (getattr(client, name) for name in _METADATA) if isinstance(value, tuple))
    if sum(len(text.encode()) for text in (*texts, *chain.from_iterable(lists))) > MAX_METADATA_BYTES:
        raise InvalidClientMetadata(violations=[("client", f"has more than {MAX_METADATA_BYTES} bytes in all")])
    return client


def _client_keys(metadata: Mapping[str, Any], method: str) -> tuple[str, str]:
    """Read the keys of a client: the URL of its JWK Set, or the set as JSON. Raises InvalidClientMetadata."""
    jwks_uri, jwks = _text(metadata, "jwks_uri"), metadata.get("jwks") or ""
    if jwks_uri and not is_document(jwks_uri):
        raise InvalidClientMetadata(violations=[("jwks_uri", "is not an https URL with a path")])
    if jwks:
        try:
            document = json.loads(jwks) if isinstance(jwks, str) else jwks
            error = key_set_error(document)
        except (ValueError, RecursionError):
            error = "is not JSON"
        if error is not None:
            raise InvalidClientMetadata(violations=[("jwks", error)])
        jwks = json.dumps(document, separators=(",", ":"))
    if bool(jwks_uri) and bool(jwks):
        raise InvalidClientMetadata(violations=[("jwks", "cannot be given together with jwks_uri")])
    if method == PRIVATE_KEY_JWT and not jwks_uri and not jwks:
        raise InvalidClientMetadata(violations=[("jwks_uri", f"or jwks is required for {PRIVATE_KEY_JWT}")])
    return jwks_uri, jwks


def _text(metadata: Mapping[str, Any], name: str, max_characters: int = _MAX_URI) -> str:
    value = metadata.get(name) or ""
    if not isinstance(value, str) or len(value) > max_characters or "\x00" in value:
        raise InvalidClientMetadata(violations=[(name, f"is not a text of at most {max_characters} characters")])
    return value


def _name(metadata: Mapping[str, Any]) -> str:
    """Read the name for the consent page: without characters that are invisible or change the text direction."""
    name = _text(metadata, "client_name", 255)
    if not name.isprintable():
        raise InvalidClientMetadata(violations=[("client_name", "has invisible characters")])
    return name


def _page(metadata: Mapping[str, Any], name: str) -> str:
    """Read the URL of a page that a person may open: http and https alone."""
    uri = _text(metadata, name)
    if uri and not (uri.startswith(("https://", "http://")) and _URI.fullmatch(uri)):
        raise InvalidClientMetadata(violations=[(name, "is not the address of a page")])
    return uri


def _texts(metadata: Mapping[str, Any], name: str, max_characters: int = 20) -> tuple[str, ...]:
    value = metadata.get(name) or ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidClientMetadata(violations=[(name, "is not a list of texts")])
    items = tuple(value)
    if len(items) > max_characters or not all(
        isinstance(text, str) and len(text) <= _MAX_URI and "\x00" not in text for text in items
    ):
        raise InvalidClientMetadata(violations=[(name, f"is not a list of at most {max_characters} texts")])
    return items
