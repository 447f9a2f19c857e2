"""The documents that tell clients what there is and where: RFC 8414, OpenID Connect Discovery, RFC 9728, RFC 7517."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from grpc import aio
from starlette.responses import JSONResponse

from skein.auth.v1 import auth_pb2, oauth_pb2
from skein_gateway.identity.challenges import RESOURCE_PATH
from skein_gateway.oauth.request_handler import OAuthError, refused_as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from skein.auth.v1 import auth_pb2_grpc, oauth_pb2_grpc
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call

# How long auth's own description is believed, and for how long while auth does not answer.
_FRESH_SECONDS = 5.0
_STALE_SECONDS = 300.0
_PUBLIC = {"cache-control": "public, max-age=60"}
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
# What ID tokens and /userinfo tell (OpenID Connect Core, 2 and 5.1).
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
_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
_SERVICE = "/skein.auth.v1.OAuthService/"
METADATA_PATH = "/.well-known/oauth-authorization-server"
# Where the methods of OAuthService are reached from outside; a person's browser goes through the pages.
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
    """Return the endpoint that does what a method of OAuthService does; empty for any other method."""
    return _ENDPOINTS.get(path.removeprefix(_SERVICE), "") if path.startswith(_SERVICE) else ""


class ServerMetadata:
    """What auth says of itself, remembered for seconds."""

    def __init__(
        self, oauth: oauth_pb2_grpc.OAuthServiceAsyncStub, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Ask auth."""
        self._oauth = oauth
        self._clock = clock
        self._known: oauth_pb2.GetServerMetadataResponse | None = None
        self._asked = 0.0

    async def server(self) -> oauth_pb2.GetServerMetadataResponse:
        """Return the server's metadata; raises AioRpcError when auth never answered."""
        now = self._clock()
        known = self._known
        if known is not None and now - self._asked < _FRESH_SECONDS:
            return known
        try:
            known = await self._oauth.GetServerMetadata(oauth_pb2.GetServerMetadataRequest())
        except aio.AioRpcError:
            if known is None or now - self._asked > _STALE_SECONDS:
                raise
            return known
        self._known, self._asked = known, now
        return known

    async def issuer(self) -> str:
        """Return who issues tokens: an origin, without a slash at the end."""
        server = await self.server()
        return server.issuer

    async def issuer_if_known(self) -> str:
        """Return the same, or nothing while auth does not answer: an answer need not fail for its headers' sake."""
        try:
            return await self.issuer()
        except aio.AioRpcError:
            return ""


class DiscoveryEndpoints:
    """The handlers of the documents."""

    def __init__(
        self, entry: RequestHandler, metadata: ServerMetadata, auth: auth_pb2_grpc.AuthServiceAsyncStub
    ) -> None:
        """Make the documents of what auth says."""
        self._entry = entry
        self._metadata = metadata
        self._auth = auth

    async def authorization_server(self, request: Request) -> Response:
        """Describe the authorization server; OpenID Connect's document is the same."""

        async def work(_call: Call) -> Response:
            return JSONResponse(server_document(await self._metadata.server()), headers=_PUBLIC)

        return await self._entry.answered(request, work, refused_as_json)

    async def protected_resource(self, request: Request) -> Response:
        """Describe the API, or one of the other resources below the issuer."""

        async def work(_call: Call) -> Response:
            server = await self._metadata.server()
            resource = server.issuer + request.url.path.removeprefix(RESOURCE_PATH)
            if resource not in server.resources:
                return refused_as_json(
                    OAuthError(status=404, error="invalid_request", description="There is no such resource here.")
                )
            return JSONResponse(resource_document(server, resource), headers=_PUBLIC)

        return await self._entry.answered(request, work, refused_as_json)

    async def keys(self, request: Request) -> Response:
        """List the keys that verify access tokens and ID tokens."""

        async def work(_call: Call) -> Response:
            purpose = auth_pb2.SIGNING_KEY_PURPOSE_ACCESS
            answer = await self._auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest(purpose=purpose))
            return JSONResponse({"keys": [json.loads(key.jwk) for key in answer.signing_keys]}, headers=_PUBLIC)

        return await self._entry.answered(request, work, refused_as_json)


def server_document(server: oauth_pb2.GetServerMetadataResponse) -> dict[str, Any]:
    """Return what is supported, and nothing else."""
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
        "scopes_supported": list(server.scopes),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials", DEVICE_CODE],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": list(_AUTH_METHODS),
        "revocation_endpoint_auth_methods_supported": list(_AUTH_METHODS),
        "introspection_endpoint_auth_methods_supported": list(_AUTH_METHODS[1:]),
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
    if server.registration_open:
        document["registration_endpoint"] = f"{issuer}/register"
    return document


def resource_document(server: oauth_pb2.GetServerMetadataResponse, resource: str) -> dict[str, Any]:
    """Return where tokens for a resource come from, and what they may be asked for."""
    openid = {"openid", "profile", "email", "offline_access"}
    return {
        "resource": resource,
        "resource_name": "Skein",
        "authorization_servers": [server.issuer],
        "scopes_supported": [scope for scope in server.scopes if scope not in openid],
        "bearer_methods_supported": ["header"],
    }
