"""The bearer tokens that callers of earlier systems share, one for a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import translate_constraint_errors
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now

if TYPE_CHECKING:
    from uuid import UUID

    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Database
    from skein_kit.idempotency.key import IdempotencyKey


class LegacyStore:
    """Legacy tokens; only their SHA-256 is kept."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def find_legacy_token(self, secret_hash: bytes) -> UUID | None:
        """Return the tenant that a token belongs to; None when it is nobody's."""
        async with self._database.shared() as tx:
            found: UUID | None = await tx.value(QUERIES["find_legacy_token"], secret_hash=secret_hash)
        return found

    async def set_legacy_token(self, tenant_id: UUID, secret_hash: bytes | None, once: IdempotencyKey) -> None:
        """Give the tenant this token in place of the one it had; with None, no token any more."""
        async with self._database.transaction(tenant_id) as tx:
            write = await self._requests.claim(
                tx, tenant_id, once, response=pb.SetLegacyTokenResponse().SerializeToString()
            )
            if write.saved_response is not None:
                return
            if secret_hash is None:
                await tx.execute(QUERIES["delete_legacy_token"], tenant_id=tenant_id)
            else:
                taken = FieldInvalid(violations=[("token", "belongs to another tenant")])
                with translate_constraint_errors({"legacy_tokens_pkey": taken}):
                    await tx.execute(
                        QUERIES["set_legacy_token"], tenant_id=tenant_id, secret_hash=secret_hash, create_time=now()
                    )
            await self._audit.within(tx, "legacy_token_set", tenant_id=tenant_id, target="legacy:bearer")
