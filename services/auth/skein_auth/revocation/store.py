"""Ending what somebody holds, all at once, in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts.store import end_sign_ins
from skein_auth.api_keys.quota import count_api_keys
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey

_REASON = "credentials_revoked"


class RevocationStore:
    """Ends credentials, once for each request; the first answer is returned whenever it is repeated."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def of_account(self, account_id: UUID, once: IdempotencyKey) -> pb.RevokeCredentialsResponse:
        """End every sign-in of an account, what applications hold of it, and its known devices."""

        async def end(tx: Transaction) -> int:
            await self._audit.within(tx, _REASON, account_id=account_id, target=f"account:{account_id}")
            return await end_sign_ins(tx, account_id, now(), _REASON)

        return await self._once(self._database.account(account_id), NO_TENANT, once, end)

    async def of_tenant(self, tenant_id: UUID, once: IdempotencyKey, *, keys: bool) -> pb.RevokeCredentialsResponse:
        """End what applications hold of a tenant and, with `keys`, its keys, service accounts and legacy token."""

        async def end(tx: Transaction) -> int:
            at = now()
            ended = await tx.execute(QUERIES["revoke_sign_ins_of_tenant"], tenant_id=tenant_id, at=at, reason=_REASON)
            if keys:
                ended += await tx.execute(QUERIES["revoke_api_keys"], tenant_id=tenant_id, revoke_time=at)
                await count_api_keys(tx, tenant_id, at)
                ended += await tx.execute(QUERIES["disable_service_accounts"], tenant_id=tenant_id, update_time=at)
                ended += await tx.execute(QUERIES["delete_legacy_token"], tenant_id=tenant_id)
            await self._audit.within(tx, _REASON, tenant_id=tenant_id, target=f"tenant:{tenant_id}")
            return ended

        return await self._once(self._database.transaction(tenant_id), tenant_id, once, end)

    async def of_client(self, client_id: str, once: IdempotencyKey) -> pb.RevokeCredentialsResponse:
        """End what everybody granted an application so far."""

        async def end(tx: Transaction) -> int:
            await self._audit.within(tx, _REASON, client_id=client_id, target=f"client:{client_id}")
            return await tx.execute(QUERIES["revoke_client"], client_id=client_id, at=now())

        return await self._once(self._database.transaction(NO_TENANT), NO_TENANT, once, end)

    async def _once(
        self,
        sight: AbstractAsyncContextManager[Transaction],
        keeper: UUID,
        once: IdempotencyKey,
        end: Callable[[Transaction], Awaitable[int]],
    ) -> pb.RevokeCredentialsResponse:
        async with sight as tx:
            if (first := (await self._requests.claim(tx, keeper, once)).saved_response) is not None:
                return pb.RevokeCredentialsResponse.FromString(first)
            response = pb.RevokeCredentialsResponse(revoked_count=await end(tx))
            await self._requests.save(tx, keeper, once, response.SerializeToString())
        return response
