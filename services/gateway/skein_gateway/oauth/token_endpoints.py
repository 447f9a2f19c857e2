"""The endpoints for software: /token, /revoke, /introspect, /device_authorization, /userinfo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skein.auth.v1 import oauth_pb2, oauth_pb2_grpc
from skein_gateway.identity.credential_cache import IdentityCache
from skein_gateway.oauth.forms import ClientInvalid, FormInvalid, Parameters, bearer_of, client_of
from skein_gateway.oauth.metadata import DEVICE_CODE, JWT_BEARER, ServerMetadata
from skein_gateway.oauth.request_handler import NO_STORE, OAuthError, RequestHandler, json_error_response, read_form
from skein_kit.calls.call import Call
from skein_kit.errors import CredentialMissing

_ACCESS = "access_token"
_UNSUPPORTED = OAuthError(status=400, error="unsupported_grant_type", description="This grant type is not supported.")


class TokenEndpoints:
    """The handlers: read the form, one call, respond."""

    def __init__(
        self,
        request_handler: RequestHandler,
        metadata: ServerMetadata,
        oauth: oauth_pb2_grpc.OAuthServiceAsyncStub,
        credentials: IdentityCache,
    ) -> None:
        """Call auth; `credentials` charges failing bearer credentials to their source."""
        self._request_handler = request_handler
        self._credentials = credentials
        self._metadata = metadata
        self._oauth = oauth

    async def token(self, request: Request) -> Response:
        """Exchange a grant for tokens."""

        async def work(_call: Call) -> Response:
            form = await read_form(request)
            token_request = token_request_of(form)
            if token_request is None:
                return json_error_response(_UNSUPPORTED)
            token_request.client.CopyFrom(_required_client(request, form))
            token_request.resources.extend(form.resources)
            tokens = await self._oauth.ExchangeToken(token_request)
            return JSONResponse(token_response(tokens), headers=NO_STORE)

        return await self._handle(request, work)

    async def device(self, request: Request) -> Response:
        """Start a device authorization."""

        async def work(_call: Call) -> Response:
            form = await read_form(request)
            authorization = await self._oauth.StartDeviceAuthorization(
                oauth_pb2.StartDeviceAuthorizationRequest(
                    client=_required_client(request, form), scope=form.get("scope"), resources=form.resources
                )
            )
            page = f"{await self._metadata.issuer()}/device"
            body = {
                "device_code": authorization.device_code,
                "user_code": authorization.user_code,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?user_code={authorization.user_code}",
                "expires_in": authorization.expires_in.seconds,
                "interval": authorization.interval.seconds,
            }
            return JSONResponse(body, headers=NO_STORE)

        return await self._handle(request, work)

    async def revoke(self, request: Request) -> Response:
        """Revoke a token."""

        async def work(_call: Call) -> Response:
            form = await read_form(request)
            await self._oauth.RevokeToken(
                oauth_pb2.RevokeTokenRequest(
                    client=_required_client(request, form),
                    token=_required(form, "token"),
                    token_type_hint=form.get("token_type_hint"),
                )
            )
            return Response(headers=NO_STORE)

        return await self._handle(request, work)

    async def introspect(self, request: Request) -> Response:
        """Describe a token to a client, or to a holder of a credential of the tenant."""

        async def work(call: Call) -> Response:
            form = await read_form(request)
            bearer = bearer_of(request.headers)
            introspect = oauth_pb2.IntrospectTokenRequest(
                client=None if bearer else _required_client(request, form),
                bearer=bearer,
                token=_required(form, "token"),
                token_type_hint=form.get("token_type_hint"),
            )
            async with self._credentials.charge_failures(bearer, call) if bearer else nullcontext():
                result = await self._oauth.IntrospectToken(introspect)
            return JSONResponse(introspection(result), headers=NO_STORE)

        return await self._handle(request, work)

    async def userinfo(self, request: Request) -> Response:
        """Return the claims of the access token's person."""

        async def work(_call: Call) -> Response:
            bearer = bearer_of(request.headers)
            if not bearer:
                raise CredentialMissing
            userinfo_response = await self._oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=bearer))
            return JSONResponse(userinfo(userinfo_response), headers=NO_STORE)

        return await self._handle(request, work)

    async def _handle(self, request: Request, work: Callable[[Call], Awaitable[Response]]) -> Response:
        issuer = await self._metadata.issuer_if_known()
        return await self._request_handler.handle(request, work, lambda problem: json_error_response(problem, issuer))


def token_request_of(form: Parameters) -> oauth_pb2.ExchangeTokenRequest | None:
    """Return the RPC request of a token request; None for an unknown grant type. Raises FormInvalid."""
    match _required(form, "grant_type"):
        case "authorization_code":
            return oauth_pb2.ExchangeTokenRequest(
                authorization_code=oauth_pb2.AuthorizationCodeGrant(
                    code=_required(form, "code"),
                    redirect_uri=form.get("redirect_uri"),
                    code_verifier=_required(form, "code_verifier"),
                )
            )
        case "refresh_token":
            return oauth_pb2.ExchangeTokenRequest(
                refresh_token=oauth_pb2.RefreshTokenGrant(
                    refresh_token=_required(form, "refresh_token"), scope=form.get("scope")
                )
            )
        case "client_credentials":
            return oauth_pb2.ExchangeTokenRequest(
                client_credentials=oauth_pb2.ClientCredentialsGrant(scope=form.get("scope"))
            )
        case grant_type if grant_type == DEVICE_CODE:
            return oauth_pb2.ExchangeTokenRequest(
                device_code=oauth_pb2.DeviceCodeGrant(device_code=_required(form, "device_code"))
            )
        case grant_type if grant_type == JWT_BEARER:
            return oauth_pb2.ExchangeTokenRequest(
                identity_assertion=oauth_pb2.IdentityAssertionGrant(
                    assertion=_required(form, "assertion"), scope=form.get("scope")
                )
            )
    return None


def token_response(tokens: oauth_pb2.ExchangeTokenResponse) -> dict[str, Any]:
    """Return the response of RFC 6749, 5.1."""
    always = {
        "access_token": tokens.access_token,
        "token_type": tokens.token_type or "Bearer",
        "expires_in": tokens.expires_in.seconds,
        "scope": tokens.scope,
    }
    return always | _without_empty({"refresh_token": tokens.refresh_token, "id_token": tokens.id_token})


def introspection(result: oauth_pb2.IntrospectTokenResponse) -> dict[str, Any]:
    """Return the response of RFC 7662, 2.2; only "active" for an inactive token."""
    if not result.active:
        return {"active": False}
    audiences = list(result.audiences)
    claims = {
        "scope": result.scope,
        "client_id": result.client_id,
        # RFC 6749, 7.1, calls access tokens "Bearer".
        "token_type": {_ACCESS: "Bearer"}.get(result.token_type, result.token_type),
        "exp": result.expire_time.seconds,
        "iat": result.issue_time.seconds,
        "sub": result.subject,
        "aud": audiences[0] if len(audiences) == 1 else audiences,
        "iss": result.issuer,
        "jti": result.token_id,
        "tenant_id": result.tenant_id,
    }
    return {"active": True, **_without_empty(claims)}


def userinfo(userinfo_response: oauth_pb2.GetUserInfoResponse) -> dict[str, Any]:
    """Return the claims of OpenID Connect Core, 5.1, that the token's scopes allow."""
    body: dict[str, Any] = {"sub": userinfo_response.subject, **_without_empty({"name": userinfo_response.name})}
    if userinfo_response.email:
        body |= {"email": userinfo_response.email, "email_verified": userinfo_response.email_verified}
    return body


def _required(form: Parameters, name: str) -> str:
    value = form.get(name)
    if not value:
        raise FormInvalid(f"The parameter {name} is missing.")
    return value


def _required_client(request: Request, form: Parameters) -> oauth_pb2.ClientAuthentication:
    client = client_of(request.headers, form)
    if client is None:
        raise ClientInvalid("The client authentication is missing.")
    return client


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
