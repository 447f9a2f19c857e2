"""RPCs: registration and management of OAuth clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2
from skein_auth.oauth_clients import convert
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey

if TYPE_CHECKING:
    from skein_auth.oauth_clients.registry import ClientRegistry


class OAuthClientsRpc:
    """Registration and management of OAuth clients."""

    def __init__(self, registry: ClientRegistry) -> None:
        self._registry = registry

    async def ImportClient(
        self, request: oauth_pb2.ImportClientRequest, context: Context
    ) -> oauth_pb2.ImportClientResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._registry.take_over(request.client, request.secret_hash, once)

    async def RegisterClient(
        self, request: oauth_pb2.RegisterClientRequest, context: Context
    ) -> oauth_pb2.RegisterClientResponse:
        applications = self._registry
        return convert.registered(*await applications.register(request.client, request.initial_access_token))

    async def GetClient(self, request: oauth_pb2.GetClientRequest, context: Context) -> oauth_pb2.GetClientResponse:
        client = await self._registry.managed(request.client_id, request.registration_access_token)
        return oauth_pb2.GetClientResponse(client=convert.client(client))

    async def UpdateClient(
        self, request: oauth_pb2.UpdateClientRequest, context: Context
    ) -> oauth_pb2.UpdateClientResponse:
        client = await self._registry.update(request.client, request.registration_access_token)
        return oauth_pb2.UpdateClientResponse(client=convert.client(client))

    async def DeleteClient(
        self, request: oauth_pb2.DeleteClientRequest, context: Context
    ) -> oauth_pb2.DeleteClientResponse:
        await self._registry.delete(request.client_id, request.registration_access_token)
        return oauth_pb2.DeleteClientResponse()
