"""RPCs: revocation of all credentials of an account, a tenant or a client."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey

if TYPE_CHECKING:
    from skein.auth.v1 import accounts_pb2
    from skein_auth.revocation.store import RevocationStore


class RevocationRpc:
    """Revocation of all credentials of an account, a tenant or a client."""

    def __init__(self, store: RevocationStore) -> None:
        self._store = store

    async def RevokeCredentials(
        self, request: accounts_pb2.RevokeCredentialsRequest, context: Context
    ) -> accounts_pb2.RevokeCredentialsResponse:
        once, revocation = IdempotencyKey.of(caller(context), request), self._store
        match request.WhichOneof("of"):
            case "account_id":
                return await revocation.of_account(UUID(request.account_id), once)
            case "tenant_id":
                return await revocation.of_tenant(UUID(request.tenant_id), once, keys=request.keys)
            case _:
                return await revocation.of_client(request.client_id, once)
