"""Webhooks in the database."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.errors import RevisionStale
from skein_memory.errors import SecretUndecryptable, WatchNotFound
from skein_memory.queries import QUERIES
from skein_memory.vault.encryption import Ciphertext, TenantKey, WrappedKey
from skein_memory.webhooks.events import record_watch_event
from skein_memory.webhooks.model import Webhook, WebhookDraft

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import asyncpg

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.idempotency.store import IdempotencyStore
    from skein_kit.quotas.store import QuotaCounter
    from skein_memory.vault.encryption import MasterKeys

Response = TypeVar("Response", bound=Message)

_REMOVED_BATCH_SIZE = 500
AFTER_ALL = UUID(int=(1 << 128) - 1)


class WebhookStore:
    """Reads and writes webhooks."""

    def __init__(
        self, database: Database, *, idempotency: IdempotencyStore, quotas: QuotaCounter, master_keys: MasterKeys
    ) -> None:
        """Use the database, stored responses and quotas of the service; encrypt signing keys with the master keys."""
        self._database = database
        self._idempotency = idempotency
        self._quotas = quotas
        self._master_keys = master_keys

    async def create_watch(
        self,
        tenant_id: UUID,
        idempotency_key: IdempotencyKey,
        draft: WebhookDraft,
        key: TenantKey,
        respond: Callable[[Webhook], Response],
        *,
        grant_ids: Sequence[UUID],
        at: datetime,
    ) -> Response | bytes:
        """Store a webhook whose id is its key's, or return the stored response.

        Raises MasterKeyMissing and QuotaExceeded.
        """
        wrapped = self._master_keys.wrap(key, tenant_id=tenant_id)
        async with self._database.transaction(tenant_id) as tx:
            first = (await self._idempotency.claim(tx, tenant_id, idempotency_key)).saved_response
            if first is not None:
                return first
            await tx.execute(
                QUERIES["insert_watch"],
                tenant_id=tenant_id,
                watch_id=key.key_id,
                create_time=at,
                created_by=idempotency_key.principal,
                grant_ids=list(grant_ids),
                **_said(draft),
                **_columns(wrapped),
            )
            await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped.master_key, amount=1)
            watch = await read_watch(tx, tenant_id, key.key_id)
            await record_watch_event(
                tx, tenant_id, "watch_created", watch.watch_id, at=at, by=idempotency_key.principal
            )
            response = respond(watch)
            await self._idempotency.save(tx, tenant_id, idempotency_key, response.SerializeToString())
            await self._quotas.charge(tx, tenant_id, {"watches": 1})
        return response

    async def get_watch(self, tenant_id: UUID, watch_id: UUID) -> Webhook:
        """Read a webhook. Raises WatchNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            return await read_watch(tx, tenant_id, watch_id)

    async def list_watches(self, tenant_id: UUID, *, before: UUID | None, count: int) -> list[Webhook]:
        """Read up to `count` webhooks older than `before`, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_watches"], tenant_id=tenant_id, before_id=before or AFTER_ALL, count=count
            )
        return [watch_of(row) for row in rows]

    async def update_watch(
        self,
        tenant_id: UUID,
        idempotency_key: IdempotencyKey,
        watch_id: UUID,
        change: Callable[[WebhookDraft], WebhookDraft],
        respond: Callable[[Webhook], Response],
        *,
        makers: Callable[[Sequence[UUID]], list[UUID]],
        revision: int,
        at: datetime,
    ) -> Response | bytes:
        """Replace what a webhook says, and the grants that it ends with. Raises WatchNotFound, RevisionStale."""
        async with self._database.transaction(tenant_id) as tx:
            first = (await self._idempotency.claim(tx, tenant_id, idempotency_key)).saved_response
            if first is not None:
                return first
            before = await read_watch(tx, tenant_id, watch_id, query="lock_watch")
            if revision and revision != before.revision:
                raise RevisionStale(given=revision, current=before.revision)
            after = change(before.draft)
            await tx.execute(
                QUERIES["update_watch"],
                tenant_id=tenant_id,
                watch_id=watch_id,
                is_active=after.is_active,
                at=at,
                updated_by=idempotency_key.principal,
                grant_ids=makers(before.grant_ids),
                **_said(after),
            )
            await record_watch_event(tx, tenant_id, "watch_updated", watch_id, at=at, by=idempotency_key.principal)
            response = respond(await read_watch(tx, tenant_id, watch_id))
            await self._idempotency.save(tx, tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def rotate_secret(
        self,
        tenant_id: UUID,
        idempotency_key: IdempotencyKey,
        key: TenantKey,
        respond: Callable[[Webhook], Response],
        *,
        at: datetime,
    ) -> Response | bytes:
        """Replace a webhook's signing key. Raises WatchNotFound and MasterKeyMissing."""
        wrapped = self._master_keys.wrap(key, tenant_id=tenant_id)
        async with self._database.transaction(tenant_id) as tx:
            first = (await self._idempotency.claim(tx, tenant_id, idempotency_key)).saved_response
            if first is not None:
                return first
            before = await read_watch(tx, tenant_id, key.key_id, query="lock_watch")
            await self._rekey(tx, tenant_id, before, wrapped)
            await record_watch_event(tx, tenant_id, "watch_updated", key.key_id, at=at, by=idempotency_key.principal)
            response = respond(before)
            await self._idempotency.save(tx, tenant_id, idempotency_key, response.SerializeToString())
        return response

    async def delete_watch(
        self, tenant_id: UUID, idempotency_key: IdempotencyKey, watch_id: UUID, response: Message, *, at: datetime
    ) -> None:
        """Remove a webhook with its deliveries, once for each request. Raises WatchNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            write = await self._idempotency.claim(tx, tenant_id, idempotency_key, response=response.SerializeToString())
            if write.saved_response is not None:
                return
            master_key = await tx.value(QUERIES["delete_watch"], tenant_id=tenant_id, watch_id=watch_id)
            if master_key is None:
                raise WatchNotFound
            await tx.execute(QUERIES["count_master_key"], fingerprint=master_key, amount=-1)
            await record_watch_event(tx, tenant_id, "watch_deleted", watch_id, at=at, by=idempotency_key.principal)
            await self._quotas.charge(tx, tenant_id, {"watches": -1})

    def signing_key(self, tenant_id: UUID, watch: Webhook) -> bytes:
        """Return a webhook's signing key. Raises SecretUndecryptable."""
        return self._master_keys.unwrap(watch.key, tenant_id=tenant_id).secret

    async def rewrap_keys(self, tenant_id: UUID) -> int:
        """Encrypt webhooks' keys with the current master key, also of disabled webhooks; return how many."""
        current = self._master_keys.current
        if not current:
            return 0
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_older_watches"], tenant_id=tenant_id, master_key=current, count=_REMOVED_BATCH_SIZE
            )
            for row in rows:
                await self.rewrap(tx, tenant_id, row["watch_id"])
        return len(rows)

    async def rewrap(self, tx: Transaction, tenant_id: UUID, watch_id: UUID) -> None:
        """Encrypt a webhook's key with the current master key, unless no configured key decrypts it."""
        row = await tx.row(QUERIES["lock_watch"], tenant_id=tenant_id, watch_id=watch_id)
        watch = None if row is None else watch_of(row)
        if watch is None or not self._master_keys.current or watch.key.master_key == self._master_keys.current:
            return
        with suppress(SecretUndecryptable):
            key = self._master_keys.unwrap(watch.key, tenant_id=tenant_id)
            await self._rekey(tx, tenant_id, watch, self._master_keys.wrap(key, tenant_id=tenant_id))

    @staticmethod
    async def _rekey(tx: Transaction, tenant_id: UUID, watch: Webhook, wrapped: WrappedKey) -> None:
        columns = _columns(wrapped)
        await tx.execute(QUERIES["rekey_watch"], tenant_id=tenant_id, watch_id=watch.watch_id, **columns)
        if wrapped.master_key != watch.key.master_key:
            await tx.execute(QUERIES["count_master_key"], fingerprint=watch.key.master_key, amount=-1)
            await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped.master_key, amount=1)


async def read_watch(tx: Transaction, tenant_id: UUID, watch_id: UUID, *, query: str = "get_watch") -> Webhook:
    row = await tx.row(QUERIES[query], tenant_id=tenant_id, watch_id=watch_id)
    if row is None:
        raise WatchNotFound
    return watch_of(row)


def _said(draft: WebhookDraft) -> dict[str, object]:
    return {
        "display_name": draft.display_name,
        "event_types": list(draft.event_types),
        "condition": draft.condition,
        "webhook_url": draft.webhook_url,
    }


def _columns(wrapped: WrappedKey) -> dict[str, object]:
    return {
        "master_key": wrapped.master_key,
        "nonce": wrapped.sealed.nonce,
        "ciphertext": wrapped.sealed.ciphertext,
    }


def draft_of(row: asyncpg.Record) -> WebhookDraft:
    return WebhookDraft(
        display_name=row["display_name"],
        event_types=tuple(row["event_types"]),
        condition=row["condition"],
        webhook_url=row["webhook_url"],
        is_active=row["is_active"],
    )


def watch_of(row: asyncpg.Record) -> Webhook:
    return Webhook(
        watch_id=row["watch_id"],
        draft=draft_of(row),
        key=WrappedKey(
            key_id=row["watch_id"],
            master_key=row["master_key"],
            sealed=Ciphertext(nonce=row["nonce"], ciphertext=row["ciphertext"]),
        ),
        failures=row["failures"],
        last_delivery_time=row["last_delivery_time"],
        last_error=row["last_error"],
        disable_time=row["disable_time"],
        destination=row["destination"],
        destination_failures=row["destination_failures"],
        retry_time=row["retry_time"],
        revision=row["revision"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        grant_ids=tuple(row["grant_ids"]),
    )
