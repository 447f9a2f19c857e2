"""The RPCs of OAuth clients: registration, management and import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.oauth_clients.model import Client
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.oauth_clients.store import ClientStore
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.rpc.well_known_types import read_time, to_message


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
        imported_client = self._registry.build_imported_client(
            request.client.client_id,
            _metadata(request.client),
            request.secret_hash,
            create_time=read_time(request.client, "create_time"),
            secret_expire_time=read_time(request.client, "secret_expire_time"),
        )
        async with self._idempotency.begin_with_key(NO_TENANT, IdempotencyKey.of(caller(context), request)) as write:
            client, is_new = await self._store.import_client(write.tx, imported_client)
            if is_new:
                await self._audit.record_in(write.tx, "client_registered", client_id=client.client_id)
            return await write.save(pb.ImportClientResponse(client=_client(client), existed=not is_new))

    async def RegisterClient(self, request: pb.RegisterClientRequest, context: Context) -> pb.RegisterClientResponse:
        client, secret, registration_token = await self._registry.register(
            _metadata(request.client), request.initial_access_token
        )
        return pb.RegisterClientResponse(
            client=_client(client),
            client_secret="" if secret is None else secret.encode(),
            registration_access_token=registration_token.encode(),
        )

    async def GetClient(self, request: pb.GetClientRequest, context: Context) -> pb.GetClientResponse:
        client = await self._registry.get_managed(request.client_id, request.registration_access_token)
        return pb.GetClientResponse(client=_client(client))

    async def UpdateClient(self, request: pb.UpdateClientRequest, context: Context) -> pb.UpdateClientResponse:
        client = await self._registry.update(
            request.client.client_id, _metadata(request.client), request.registration_access_token
        )
        return pb.UpdateClientResponse(client=_client(client))

    async def DeleteClient(self, request: pb.DeleteClientRequest, context: Context) -> pb.DeleteClientResponse:
        await self._registry.delete(request.client_id, request.registration_access_token)
        return pb.DeleteClientResponse()


def _metadata(message: pb.Client) -> Mapping[str, Any]:
    """Return a client's metadata under the names of RFC 7591."""
    return {field.name: value for field, value in message.ListFields()}


def _client(value: Client) -> pb.Client:
    return to_message(pb.Client, value)
