"""The RPC that revokes all credentials of an account, a tenant or a client."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.revocation.store import RevocationStore
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore


class RevocationHandlers:
    """Revocation of all credentials of an account, a tenant or a client."""

    def __init__(self, store: RevocationStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def RevokeCredentials(
        self, request: pb.RevokeCredentialsRequest, context: Context
    ) -> pb.RevokeCredentialsResponse:
        idempotency_key = IdempotencyKey.of(caller_of(context), request)
        kind = request.WhichOneof("owner")
        if kind == "account_id":
            begin = self._idempotency.begin_as_account(UUID(request.account_id), idempotency_key)
        else:
            tenant_id = UUID(request.tenant_id) if kind == "tenant_id" else NO_TENANT
            begin = self._idempotency.begin_with_key(tenant_id, idempotency_key)
        async with begin as write:
            if kind == "account_id":
                count = await self._store.revoke_account(write.tx, UUID(request.account_id))
            elif kind == "tenant_id":
                count = await self._store.revoke_tenant(
                    write.tx, UUID(request.tenant_id), include_api_keys=request.include_api_keys
                )
            else:
                count = await self._store.revoke_client(write.tx, request.client_id)
            return await write.save(pb.RevokeCredentialsResponse(revoked_count=count))
