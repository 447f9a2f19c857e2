"""Discovery documents: RFC 8414, OpenID Connect Discovery, RFC 9728, RFC 7517."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from grpc import aio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc
from skein_gateway.identity.challenges import RESOURCE_PATH
from skein_gateway.oauth.request_handler import OAuthError, RequestHandler, json_error_response
from skein_kit.approval import APPROVE
from skein_kit.calls.call import Call

# Seconds that auth's metadata is cached, and longest while auth is unavailable.
_FRESH_SECONDS = 5.0
_STALE_SECONDS = 300.0
_PUBLIC = {"cache-control": "public, max-age=60"}
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ID_JAG_PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
# Claims of ID tokens and /userinfo (OpenID Connect Core, 2 and 5.1).
_CLAIMS = (
    "iss",
    "sub",
    "aud",
    "iat",
    "exp",
    "auth_time",
    "nonce",
    "at_hash",
    "name",
    "email",
    "email_verified",
)
# Clients that take all the scopes offered, as those of MCP do, must not come by it.
_UNADVERTISED_SCOPES = frozenset({APPROVE})
_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
# Those of client assertions, as auth accepts them.
_ASSERTION_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
_SERVICE = "/skein.auth.v1.OAuthService/"
METADATA_PATH = "/.well-known/oauth-authorization-server"
# HTTP endpoints of OAuthService's methods; browsers use the pages.
_ENDPOINTS = {
    "GetServerMetadata": f"GET {METADATA_PATH}",
    "RegisterClient": "POST /register",
    "GetClient": "GET /register/<client_id>",
    "UpdateClient": "PUT /register/<client_id>",
    "DeleteClient": "DELETE /register/<client_id>",
    "CreateAuthorization": "GET /authorize",
    "ApproveAuthorization": "POST /authorize",
    "ExchangeToken": "POST /token",
    "StartDeviceAuthorization": "POST /device_authorization",
    "GetDeviceAuthorization": "GET /device",
    "ApproveDevice": "POST /device",
    "RevokeToken": "POST /revoke",
    "IntrospectToken": "POST /introspect",
    "GetUserInfo": "GET /userinfo",
}


def endpoint_of(path: str) -> str:
    """Return the HTTP endpoint of a method of OAuthService; empty for any other method."""
    return _ENDPOINTS.get(path.removeprefix(_SERVICE), "") if path.startswith(_SERVICE) else ""


class ServerMetadata:
    """The server metadata of auth, cached for seconds."""

    def __init__(
        self, oauth: oauth_pb2_grpc.OAuthServiceAsyncStub, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the metadata from auth."""
        self._oauth = oauth
        self._clock = clock
        self._cached: oauth_pb2.GetServerMetadataResponse | None = None
        self._read_time = 0.0

    async def server(self) -> oauth_pb2.GetServerMetadataResponse:
        """Return the server metadata. Raises AioRpcError when auth is unavailable and the cache is stale."""
        now = self._clock()
        cached = self._cached
        if cached is not None and now - self._read_time < _FRESH_SECONDS:
            return cached
        try:
            cached = await self._oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())
        except aio.AioRpcError:
            if cached is None or now - self._read_time > _STALE_SECONDS:
                raise
            return cached
        self._cached, self._read_time = cached, now
        return cached

    async def issuer(self) -> str:
        """Return the issuer: an origin without a trailing slash. Raises AioRpcError."""
        server = await self.server()
        return server.issuer

    async def issuer_if_known(self) -> str:
        """Return the issuer, or "" while auth is unavailable, for responses that can do without it."""
        try:
            return await self.issuer()
        except aio.AioRpcError:
            return ""


class DiscoveryEndpoints:
    """The handlers of the discovery documents."""

    def __init__(
        self, request_handler: RequestHandler, metadata: ServerMetadata, auth: auth_pb2_grpc.AuthServiceAsyncStub
    ) -> None:
        """Build the documents from auth's metadata and keys."""
        self._request_handler = request_handler
        self._metadata = metadata
        self._auth = auth

    async def authorization_server(self, request: Request) -> Response:
        """Return the server metadata, which also serves as OpenID Connect's document."""

        async def work(_call: Call) -> Response:
            return JSONResponse(server_document(await self._metadata.server()), headers=_PUBLIC)

        return await self._request_handler.handle(request, work, json_error_response)

    async def protected_resource(self, request: Request) -> Response:
        """Return the metadata of the API, or of another resource below the issuer."""

        async def work(_call: Call) -> Response:
            server = await self._metadata.server()
            resource = server.issuer + request.url.path.removeprefix(RESOURCE_PATH).rstrip("/")
            if resource not in server.resources:
                return json_error_response(
                    OAuthError(status=404, error="invalid_request", description="This resource does not exist.")
                )
            return JSONResponse(resource_document(server, resource), headers=_PUBLIC)

        return await self._request_handler.handle(request, work, json_error_response)

    async def keys(self, request: Request) -> Response:
        """Return the public keys of access tokens and ID tokens."""

        async def work(_call: Call) -> Response:
            purpose = auth_pb2.SIGNING_KEY_PURPOSE_ACCESS
            response = await self._auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest(purpose=purpose))
            return JSONResponse({"keys": [json.loads(key.jwk) for key in response.signing_keys]}, headers=_PUBLIC)

        return await self._request_handler.handle(request, work, json_error_response)


def server_document(server: oauth_pb2.GetServerMetadataResponse) -> dict[str, Any]:
    """Return the server metadata document."""
    issuer = server.issuer
    document: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "device_authorization_endpoint": f"{issuer}/device_authorization",
        "revocation_endpoint": f"{issuer}/revoke",
        "introspection_endpoint": f"{issuer}/introspect",
        "userinfo_endpoint": f"{issuer}/userinfo",
        "jwks_uri": f"{issuer}/jwks.json",
        "scopes_supported": [scope for scope in server.scopes if scope not in _UNADVERTISED_SCOPES],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials", DEVICE_CODE],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": list(_AUTH_METHODS),
        "revocation_endpoint_auth_methods_supported": list(_AUTH_METHODS),
        "introspection_endpoint_auth_methods_supported": list(_AUTH_METHODS[1:]),
        **{
            f"{endpoint}_endpoint_auth_signing_alg_values_supported": list(_ASSERTION_ALGORITHMS)
            for endpoint in ("token", "revocation", "introspection")
        },
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "protected_resources": list(server.resources),
        "prompt_values_supported": ["none", "login", "consent"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "claim_types_supported": ["normal"],
        "claims_supported": list(_CLAIMS),
        "claims_parameter_supported": False,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
        "ui_locales_supported": ["en"],
    }
    if server.accepts_identity_assertions:
        document["grant_types_supported"].append(JWT_BEARER)
        document["authorization_grant_profiles_supported"] = [_ID_JAG_PROFILE]
    if server.registration_open:
        document["registration_endpoint"] = f"{issuer}/register"
    return document


def resource_document(server: oauth_pb2.GetServerMetadataResponse, resource: str) -> dict[str, Any]:
    """Return the metadata document of a resource: its authorization server and scopes."""
    openid = {"openid", "profile", "email", "offline_access"}
    return {
        "resource": resource,
        "resource_name": "Skein",
        "authorization_servers": [server.issuer],
        "scopes_supported": [scope for scope in server.scopes if scope not in openid | _UNADVERTISED_SCOPES],
        "bearer_methods_supported": ["header"],
    }
