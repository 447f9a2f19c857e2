"""The RPCs of OAuth clients: registration, management and import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.oauth_clients import convert
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey

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

    async def ImportClient(self, request: pb.ImportClientRequest, context: Context) -> pb.ImportClientResponse:
        imported = self._registry.imported_client(request.client, request.secret_hash)
        async with self._idempotency.begin(NO_TENANT, IdempotencyKey.of(caller(context), request)) as write:
            if write.saved_response is not None:
                return pb.ImportClientResponse.FromString(write.saved_response)
            client, is_new = await self._store.import_client(write.tx, imported)
            if is_new:
                await self._audit.record_in(write.tx, "client_registered", client_id=client.client_id)
            return await write.save(pb.ImportClientResponse(client=convert.client(client), existed=not is_new))

    async def RegisterClient(self, request: pb.RegisterClientRequest, context: Context) -> pb.RegisterClientResponse:
        return convert.registered(*await self._registry.register(request.client, request.initial_access_token))

    async def GetClient(self, request: pb.GetClientRequest, context: Context) -> pb.GetClientResponse:
        client = await self._registry.get_managed(request.client_id, request.registration_access_token)
        return pb.GetClientResponse(client=convert.client(client))

    async def UpdateClient(self, request: pb.UpdateClientRequest, context: Context) -> pb.UpdateClientResponse:
        client = await self._registry.update(request.client, request.registration_access_token)
        return pb.UpdateClientResponse(client=convert.client(client))

    async def DeleteClient(self, request: pb.DeleteClientRequest, context: Context) -> pb.DeleteClientResponse:
        await self._registry.delete(request.client_id, request.registration_access_token)
        return pb.DeleteClientResponse()
