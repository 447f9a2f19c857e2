"""Handlers of the RPCs that reveal a secret of the vault and rotate its keys."""

from __future__ import annotations

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_memory.memories.store import MemoryStore
from skein_memory.vault.store import TenantKeyStore


class VaultHandlers:
    """Secrets of memories, and rotation of a tenant's key."""

    def __init__(self, store: TenantKeyStore, idempotency: IdempotencyStore, *, memories: MemoryStore) -> None:
        self._store = store
        self._idempotency = idempotency
        self._memories = memories

    async def RevealSecret(self, request: pb.RevealSecretRequest, context: Context) -> pb.RevealSecretResponse:
        caller = caller_of(context)
        memory_id, secret = await self._memories.reveal_secret(
            caller.require_tenant(), request.memory_id, by=caller.principal, at=now()
        )
        return pb.RevealSecretResponse(memory_id=memory_id, secret_value=secret)

    async def RevealModelKey(self, _request: pb.RevealModelKeyRequest, context: Context) -> pb.RevealModelKeyResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        memory_id = await self._store.read_model_key_id(tenant_id)
        _, secret = await self._memories.reveal_secret(tenant_id, memory_id, by=caller.principal, at=now())
        return pb.RevealModelKeyResponse(secret_value=secret)

    async def RotateTenantKey(self, request: pb.RotateTenantKeyRequest, context: Context) -> pb.RotateTenantKeyResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            key_id, count, more = await self._store.rotate(
                write.tx, caller.require_tenant(), at=now(), by=caller.principal
            )
            return await write.save(pb.RotateTenantKeyResponse(key_id=key_id, reencrypted_count=count, more=more))
