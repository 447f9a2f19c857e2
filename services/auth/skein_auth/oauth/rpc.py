"""The RPCs of OAuthService: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import oauth_pb2 as pb
from skein.auth.v1 import oauth_pb2_grpc as rpc
from skein_auth.errors import InvalidClient
from skein_auth.oauth import convert as wire
from skein_auth.oauth_clients.model import AUTH_METHOD_NONE, KNOWN_SCOPES
from skein_auth.rpc_group import Rpcs
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now


class ClientRpcs(Rpcs):
    """What the operator does about applications."""

    async def ImportClient(self, request: pb.ImportClientRequest, context: Context) -> pb.ImportClientResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._parts.oauth.applications.take_over(request.client, request.secret_hash, once)


class OAuthServicer(Rpcs, rpc.OAuthServiceServicer):
    """The authorization server."""

    async def GetServerMetadata(
        self, request: pb.GetServerMetadataRequest, context: Context
    ) -> pb.GetServerMetadataResponse:
        tokens = self._parts.access_tokens
        return pb.GetServerMetadataResponse(
            issuer=tokens.issuer(),
            resources=tokens.resources(),
            scopes=sorted(KNOWN_SCOPES),
            registration_open=self._parts.oauth.applications.registration_open,
        )

    async def RegisterClient(self, request: pb.RegisterClientRequest, context: Context) -> pb.RegisterClientResponse:
        applications = self._parts.oauth.applications
        return wire.registered(*await applications.register(request.client, request.initial_access_token))

    async def GetClient(self, request: pb.GetClientRequest, context: Context) -> pb.GetClientResponse:
        client = await self._parts.oauth.applications.managed(request.client_id, request.registration_access_token)
        return pb.GetClientResponse(client=wire.client(client))

    async def UpdateClient(self, request: pb.UpdateClientRequest, context: Context) -> pb.UpdateClientResponse:
        client = await self._parts.oauth.applications.update(request.client, request.registration_access_token)
        return pb.UpdateClientResponse(client=wire.client(client))

    async def DeleteClient(self, request: pb.DeleteClientRequest, context: Context) -> pb.DeleteClientResponse:
        await self._parts.oauth.applications.delete(request.client_id, request.registration_access_token)
        return pb.DeleteClientResponse()

    async def CreateAuthorization(
        self, request: pb.CreateAuthorizationRequest, context: Context
    ) -> pb.CreateAuthorizationResponse:
        return wire.authorization(await self._parts.oauth.authorizations.ask(request))

    async def ApproveAuthorization(
        self, request: pb.ApproveAuthorizationRequest, context: Context
    ) -> pb.ApproveAuthorizationResponse:
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        url = await self._parts.oauth.authorizations.answer(caller(context), request, tenant_id)
        return pb.ApproveAuthorizationResponse(redirect_url=url)

    async def ExchangeToken(self, request: pb.ExchangeTokenRequest, context: Context) -> pb.ExchangeTokenResponse:
        return wire.given(await self._parts.oauth.endpoint.exchange(request))

    async def StartDeviceAuthorization(
        self, request: pb.StartDeviceAuthorizationRequest, context: Context
    ) -> pb.StartDeviceAuthorizationResponse:
        devices = self._parts.oauth.devices
        return wire.device_codes(*await devices.start(request), devices.lifetime)

    async def GetDeviceAuthorization(
        self, request: pb.GetDeviceAuthorizationRequest, context: Context
    ) -> pb.GetDeviceAuthorizationResponse:
        return wire.device(await self._parts.oauth.devices.find(caller(context), request.user_code))

    async def ApproveDevice(self, request: pb.ApproveDeviceRequest, context: Context) -> pb.ApproveDeviceResponse:
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        await self._parts.oauth.devices.answer(caller(context), request, tenant_id)
        return pb.ApproveDeviceResponse()

    async def RevokeToken(self, request: pb.RevokeTokenRequest, context: Context) -> pb.RevokeTokenResponse:
        await self._parts.oauth.endpoint.revoke(request.client, request.token)
        return pb.RevokeTokenResponse()

    async def IntrospectToken(self, request: pb.IntrospectTokenRequest, context: Context) -> pb.IntrospectTokenResponse:
        client = who = None
        if request.bearer:
            identity = await self._parts.introspecting.of_bearer(request.bearer, None, now())
            who = wire.may_introspect(identity.caller)
        else:
            client = await self._parts.oauth.applications.authenticated(request.client)
            if client.token_endpoint_auth_method == AUTH_METHOD_NONE:
                raise InvalidClient
        worth = await self._parts.oauth.endpoint.introspect(client, who, request.token)
        return wire.worth(worth, self._parts.access_tokens.issuer())

    async def GetUserInfo(self, request: pb.GetUserInfoRequest, context: Context) -> pb.GetUserInfoResponse:
        return wire.user(*await self._parts.oauth.endpoint.user(request.access_token))
