"""The RPCs of OAuth clients: registration, management and import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2
from skein_auth.oauth_clients import convert
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.key import IdempotencyKey

if TYPE_CHECKING:
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.oauth_clients.registry import ClientRegistry
    from skein_auth.oauth_clients.store import ClientStore
    from skein_kit.idempotency.store import IdempotencyStore


class OAuthClientHandlers:
    """Registration and management of OAuth clients."""

    def __init__(
        self, registry: ClientRegistry, store: ClientStore, audit: AuditRecorder, idempotency: IdempotencyStore
    ) -> None:
        self._registry = registry
        self._store = store
        self._audit = audit
        self._idempotency = idempotency

    async def ImportClient(
        self, request: oauth_pb2.ImportClientRequest, context: Context
    ) -> oauth_pb2.ImportClientResponse:
        imported = self._registry.imported_client(request.client, request.secret_hash)
        async with self._idempotency.begin(NO_TENANT, IdempotencyKey.of(caller(context), request)) as write:
            if write.saved_response is not None:
                return oauth_pb2.ImportClientResponse.FromString(write.saved_response)
            client, is_new = await self._store.import_client(write.tx, imported)
            if is_new:
                await self._audit.record_in(write.tx, "client_registered", client_id=client.client_id)
            return await write.save(oauth_pb2.ImportClientResponse(client=convert.client(client), existed=not is_new))

    async def RegisterClient(
        self, request: oauth_pb2.RegisterClientRequest, context: Context
    ) -> oauth_pb2.RegisterClientResponse:
        return convert.registered(*await self._registry.register(request.client, request.initial_access_token))

    async def GetClient(self, request: oauth_pb2.GetClientRequest, context: Context) -> oauth_pb2.GetClientResponse:
        client = await self._registry.get_managed(request.client_id, request.registration_access_token)
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
