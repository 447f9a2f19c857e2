"""The endpoints that software calls: /token, /revoke, /introspect, /device_authorization, /userinfo."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from skein.auth.v1 import oauth_pb2
from skein_gateway.oauth.forms import ClientInvalid, FormInvalid, Parameters, bearer_of, client_of
from skein_gateway.oauth.metadata import DEVICE_CODE
from skein_gateway.oauth.request_handler import NO_STORE, OAuthError, read_form, refused_as_json
from skein_kit.errors import CredentialMissing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from skein.auth.v1 import oauth_pb2_grpc
    from skein_gateway.identity.credential_cache import IdentityCache
    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_gateway.oauth.request_handler import RequestHandler
    from skein_kit.calls.call import Call

_ACCESS = "access_token"
_UNSUPPORTED = OAuthError(status=400, error="unsupported_grant_type", description="There is no such grant type here.")


class TokenEndpoints:
    """The handlers, each of them: read the form, one call, answer."""

    def __init__(
        self,
        entry: RequestHandler,
        metadata: ServerMetadata,
        oauth: oauth_pb2_grpc.OAuthServiceAsyncStub,
        credentials: IdentityCache,
    ) -> None:
        """Call auth; `credentials` charges sources for bearer credentials that fail."""
        self._entry = entry
        self._credentials = credentials
        self._metadata = metadata
        self._oauth = oauth

    async def token(self, request: Request) -> Response:
        """Give tokens for a grant."""

        async def work(_call: Call) -> Response:
            form = await read_form(request)
            wanted = grant_of(form)
            if wanted is None:
                return refused_as_json(_UNSUPPORTED)
            wanted.client.CopyFrom(_needed_client(request, form))
            wanted.resources.extend(form.resources)
            given = await self._oauth.ExchangeToken(wanted)
            return JSONResponse(token_answer(given), headers=NO_STORE)

        return await self._answered(request, work)

    async def device(self, request: Request) -> Response:
        """Give a device its two codes."""

        async def work(_call: Call) -> Response:
            form = await read_form(request)
            started = await self._oauth.StartDeviceAuthorization(
                oauth_pb2.StartDeviceAuthorizationRequest(
                    client=_needed_client(request, form), scope=form.get("scope"), resources=form.resources
                )
            )
            page = f"{await self._metadata.issuer()}/device"
            answer = {
                "device_code": started.device_code,
                "user_code": started.user_code,
                "verification_uri": page,
                "verification_uri_complete": f"{page}?user_code={started.user_code}",
                "expires_in": started.expires_in.seconds,
                "interval": started.interval.seconds,
            }
            return JSONResponse(answer, headers=NO_STORE)

        return await self._answered(request, work)

    async def revoke(self, request: Request) -> Response:
        """End a token."""

        async def work(_call: Call) -> Response:
            form = await read_form(request)
            await self._oauth.RevokeToken(
                oauth_pb2.RevokeTokenRequest(
                    client=_needed_client(request, form),
                    token=_needed(form, "token"),
                    token_type_hint=form.get("token_type_hint"),
                )
            )
            return Response(headers=NO_STORE)

        return await self._answered(request, work)

    async def introspect(self, request: Request) -> Response:
        """Say what a token allows, to a client or to whoever holds a credential of the tenant."""

        async def work(call: Call) -> Response:
            form = await read_form(request)
            bearer = bearer_of(request.headers)
            introspect = oauth_pb2.IntrospectTokenRequest(
                client=None if bearer else _needed_client(request, form),
                bearer=bearer,
                token=_needed(form, "token"),
                token_type_hint=form.get("token_type_hint"),
            )
            async with self._credentials.charging(bearer, call) if bearer else nullcontext():
                found = await self._oauth.IntrospectToken(introspect)
            return JSONResponse(introspection(found), headers=NO_STORE)

        return await self._answered(request, work)

    async def userinfo(self, request: Request) -> Response:
        """Say who an access token acts for."""

        async def work(_call: Call) -> Response:
            bearer = bearer_of(request.headers)
            if not bearer:
                raise CredentialMissing
            who = await self._oauth.GetUserInfo(oauth_pb2.GetUserInfoRequest(access_token=bearer))
            return JSONResponse(userinfo(who), headers=NO_STORE)

        return await self._answered(request, work)

    async def _answered(self, request: Request, work: Callable[[Call], Awaitable[Response]]) -> Response:
        issuer = await self._metadata.issuer_if_known()
        return await self._entry.answered(request, work, lambda problem: refused_as_json(problem, issuer))


def grant_of(form: Parameters) -> oauth_pb2.ExchangeTokenRequest | None:
    """Return what a token request asks for; None for a grant type that there is not. Raises FormInvalid."""
    match _needed(form, "grant_type"):
        case "authorization_code":
            return oauth_pb2.ExchangeTokenRequest(
                authorization_code=oauth_pb2.AuthorizationCodeGrant(
                    code=_needed(form, "code"),
                    redirect_uri=form.get("redirect_uri"),
                    code_verifier=_needed(form, "code_verifier"),
                )
            )
        case "refresh_token":
            return oauth_pb2.ExchangeTokenRequest(
                refresh_token=oauth_pb2.RefreshTokenGrant(
                    refresh_token=_needed(form, "refresh_token"), scope=form.get("scope")
                )
            )
        case "client_credentials":
            return oauth_pb2.ExchangeTokenRequest(
                client_credentials=oauth_pb2.ClientCredentialsGrant(scope=form.get("scope"))
            )
        case grant_type if grant_type == DEVICE_CODE:
            return oauth_pb2.ExchangeTokenRequest(
                device_code=oauth_pb2.DeviceCodeGrant(device_code=_needed(form, "device_code"))
            )
    return None


def token_answer(given: oauth_pb2.ExchangeTokenResponse) -> dict[str, Any]:
    """Return the answer of RFC 6749, 5.1."""
    always = {
        "access_token": given.access_token,
        "token_type": given.token_type or "Bearer",
        "expires_in": given.expires_in.seconds,
        "scope": given.scope,
    }
    return always | _present({"refresh_token": given.refresh_token, "id_token": given.id_token})


def introspection(found: oauth_pb2.IntrospectTokenResponse) -> dict[str, Any]:
    """Return the answer of RFC 7662, 2.2; of a token that is not active it says nothing else."""
    if not found.active:
        return {"active": False}
    audiences = list(found.audiences)
    named = {
        "scope": found.scope,
        "client_id": found.client_id,
        # What kind it is, in the words of RFC 6749, 7.1, for the kind that goes into a header.
        "token_type": {_ACCESS: "Bearer"}.get(found.token_type, found.token_type),
        "exp": found.expire_time.seconds,
        "iat": found.issue_time.seconds,
        "sub": found.subject,
        "aud": audiences[0] if len(audiences) == 1 else audiences,
        "iss": found.issuer,
        "jti": found.token_id,
        "tenant_id": found.tenant_id,
    }
    return {"active": True, **_present(named)}


def userinfo(who: oauth_pb2.GetUserInfoResponse) -> dict[str, Any]:
    """Return the claims of OpenID Connect Core, 5.1, that the token's scopes let out."""
    answer: dict[str, Any] = {"sub": who.subject, **_present({"name": who.name})}
    if who.email:
        answer |= {"email": who.email, "email_verified": who.email_verified}
    return answer


def _needed(form: Parameters, name: str) -> str:
    value = form.get(name)
    if not value:
        raise FormInvalid(f"The parameter {name} is missing.")
    return value


def _needed_client(request: Request, form: Parameters) -> oauth_pb2.ClientAuthentication:
    client = client_of(request.headers, form)
    if client is None:
        raise ClientInvalid("The client does not say who it is.")
    return client


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
