"""The RPCs of the authorization server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.errors import InvalidClient
from skein_auth.oauth import convert
from skein_auth.oauth_clients.model import AUTH_METHOD_NONE, KNOWN_SCOPES
from skein_kit.calls.call import Context, caller
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein_auth.exchange.authenticator import Authenticator
    from skein_auth.oauth.authorizations import Authorizations
    from skein_auth.oauth.device_authorization import DeviceFlow
    from skein_auth.oauth.token_endpoint import TokenEndpoint
    from skein_auth.oauth_clients.registry import ClientRegistry
    from skein_auth.signing.access_tokens import AccessTokens


class OAuthHandlers:
    """The authorization server."""

    def __init__(
        self,
        *,
        tokens: AccessTokens,
        clients: ClientRegistry,
        authorizations: Authorizations,
        devices: DeviceFlow,
        endpoint: TokenEndpoint,
        introspector: Authenticator,
    ) -> None:
        self._tokens = tokens
        self._clients = clients
        self._authorizations = authorizations
        self._devices = devices
        self._endpoint = endpoint
        self._introspector = introspector

    async def GetServerMetadata(
        self, request: pb.GetServerMetadataRequest, context: Context
    ) -> pb.GetServerMetadataResponse:
        tokens = self._tokens
        return pb.GetServerMetadataResponse(
            issuer=tokens.issuer(),
            resources=tokens.resources(),
            scopes=sorted(KNOWN_SCOPES),
            registration_open=self._clients.registration_open,
        )

    async def CreateAuthorization(
        self, request: pb.CreateAuthorizationRequest, context: Context
    ) -> pb.CreateAuthorizationResponse:
        return convert.authorization(await self._authorizations.create(request))

    async def ApproveAuthorization(
        self, request: pb.ApproveAuthorizationRequest, context: Context
    ) -> pb.ApproveAuthorizationResponse:
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        url = await self._authorizations.approve(caller(context), request, tenant_id)
        return pb.ApproveAuthorizationResponse(redirect_url=url)

    async def ExchangeToken(self, request: pb.ExchangeTokenRequest, context: Context) -> pb.ExchangeTokenResponse:
        return convert.token_response(await self._endpoint.exchange(request))

    async def StartDeviceAuthorization(
        self, request: pb.StartDeviceAuthorizationRequest, context: Context
    ) -> pb.StartDeviceAuthorizationResponse:
        devices = self._devices
        return convert.device_codes(*await devices.start(request), devices.lifetime)

    async def GetDeviceAuthorization(
        self, request: pb.GetDeviceAuthorizationRequest, context: Context
    ) -> pb.GetDeviceAuthorizationResponse:
        return convert.device(await self._devices.find(caller(context), request.user_code))

    async def ApproveDevice(self, request: pb.ApproveDeviceRequest, context: Context) -> pb.ApproveDeviceResponse:
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        await self._devices.answer(caller(context), request, tenant_id)
        return pb.ApproveDeviceResponse()

    async def RevokeToken(self, request: pb.RevokeTokenRequest, context: Context) -> pb.RevokeTokenResponse:
        await self._endpoint.revoke(request.client, request.token)
        return pb.RevokeTokenResponse()

    async def IntrospectToken(self, request: pb.IntrospectTokenRequest, context: Context) -> pb.IntrospectTokenResponse:
        client = requester = None
        if request.bearer:
            identity = await self._introspector.authenticate_bearer(request.bearer, None, now())
            requester = identity.caller
            if requester.tenant_id is None or "keys.read" not in requester.permissions:
                raise InvalidClient
        else:
            client = await self._clients.authenticate(request.client)
            if client.token_endpoint_auth_method == AUTH_METHOD_NONE:
                raise InvalidClient
        introspection = await self._endpoint.introspect(client, requester, request.token)
        return convert.introspection(introspection, self._tokens.issuer())

    async def GetUserInfo(self, request: pb.GetUserInfoRequest, context: Context) -> pb.GetUserInfoResponse:
        return convert.user(*await self._endpoint.get_user(request.access_token))
