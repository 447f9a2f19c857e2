"""Handler of the RPC that rotates the keys of the vault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein_memory.vault.store import TenantKeyStore


class VaultHandlers:
    """Rotation of a tenant's key."""

    def __init__(self, store: TenantKeyStore) -> None:
        """Use the store."""
        self._store = store

    async def RotateTenantKey(self, request: pb.RotateTenantKeyRequest, context: Context) -> pb.RotateTenantKeyResponse:
        who = caller(context)

        def respond(key_id: str, resealed: int, more: bool) -> pb.RotateTenantKeyResponse:  # noqa: FBT001 - as told.
            return pb.RotateTenantKeyResponse(key_id=key_id, resealed_count=resealed, more=more)

        rotated = await self._store.rotate(who.tenant(), IdempotencyKey.of(who, request), respond, at=now())
        return pb.RotateTenantKeyResponse.FromString(rotated) if isinstance(rotated, bytes) else rotated
