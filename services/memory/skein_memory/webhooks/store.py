"""Webhooks in the database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.quotas.store import QuotaCounter
from skein_memory.errors import SecretUndecryptable, WebhookNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.events.store import read_horizon
from skein_memory.queries import QUERIES
from skein_memory.vault.encryption import Ciphertext, MasterKeys, TenantKey, WrappedKey
from skein_memory.webhooks.model import Webhook, WebhookDraft

_REMOVED_BATCH_SIZE = 500
AFTER_ALL = UUID(int=(1 << 128) - 1)


class WebhookStore:
    """Reads and writes webhooks."""

    def __init__(self, database: Database, *, quotas: QuotaCounter, master_keys: MasterKeys) -> None:
        """Signing keys are encrypted with the master keys."""
        self._database = database
        self._quotas = quotas
        self._master_keys = master_keys

    async def create_webhook(
        self,
        tx: Transaction,
        tenant_id: UUID,
        draft: WebhookDraft,
        key: TenantKey,
        *,
        grant_ids: Sequence[UUID],
        makers: str,
        at: datetime,
        by: str,
    ) -> Webhook:
        """Store a webhook whose id is its key's. Raises MasterKeyMissing and QuotaExceeded."""
        wrapped_key = self._master_keys.wrap(key, tenant_id=tenant_id)
        await tx.execute(
            QUERIES["insert_webhook"],
            tenant_id=tenant_id,
            webhook_id=key.key_id,
            horizon=await read_horizon(tx),
            create_time=at,
            created_by=by,
            grant_ids=list(grant_ids),
            makers=makers,
            **_draft_columns(draft),
            **_columns(wrapped_key),
        )
        await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped_key.master_key, amount=1)
        webhook = await read_webhook(tx, tenant_id, key.key_id)
        await record_webhook_event(tx, tenant_id, "webhook_created", webhook.webhook_id, at=at, by=by)
        await self._quotas.charge(tx, tenant_id, {"webhooks": 1})
        return webhook

    async def get_webhook(self, tenant_id: UUID, webhook_id: UUID) -> Webhook:
        """Read a webhook. Raises WebhookNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            return await read_webhook(tx, tenant_id, webhook_id)

    async def list_webhooks(self, tenant_id: UUID, *, before: UUID | None, count: int) -> list[Webhook]:
        """Read up to `count` webhooks older than `before`, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_webhooks"], tenant_id=tenant_id, before_id=before or AFTER_ALL, count=count
            )
        return [webhook_of(row) for row in rows]

    async def lock_webhook(self, tx: Transaction, tenant_id: UUID, webhook_id: UUID) -> Webhook:
        """Read a webhook and lock it. Raises WebhookNotFound."""
        return await read_webhook(tx, tenant_id, webhook_id, query="lock_webhook")

    async def update_webhook(
        self,
        tx: Transaction,
        tenant_id: UUID,
        webhook_id: UUID,
        draft: WebhookDraft,
        *,
        grant_ids: Sequence[UUID],
        makers: str,
        at: datetime,
        by: str,
    ) -> Webhook:
        """Replace the content of a locked webhook, and the grants and callers that it ends with."""
        await tx.execute(
            QUERIES["update_webhook"],
            tenant_id=tenant_id,
            webhook_id=webhook_id,
            horizon=await read_horizon(tx),
            is_active=draft.is_active,
            at=at,
            updated_by=by,
            grant_ids=list(grant_ids),
            makers=makers,
            **_draft_columns(draft),
        )
        await record_webhook_event(tx, tenant_id, "webhook_updated", webhook_id, at=at, by=by)
        return await read_webhook(tx, tenant_id, webhook_id)

    async def rotate_secret(
        self, tx: Transaction, tenant_id: UUID, key: TenantKey, *, at: datetime, by: str
    ) -> Webhook:
        """Replace a webhook's signing key; return the webhook. Raises WebhookNotFound and MasterKeyMissing."""
        wrapped_key = self._master_keys.wrap(key, tenant_id=tenant_id)
        before = await self.lock_webhook(tx, tenant_id, key.key_id)
        await self._rekey(tx, tenant_id, before, wrapped_key)
        await record_webhook_event(tx, tenant_id, "webhook_updated", key.key_id, at=at, by=by)
        return before

    async def delete_webhook(
        self, tx: Transaction, tenant_id: UUID, webhook_id: UUID, *, at: datetime, by: str
    ) -> None:
        """Remove a webhook with its deliveries. Raises WebhookNotFound."""
        master_key = await tx.value(QUERIES["delete_webhook"], tenant_id=tenant_id, webhook_id=webhook_id)
        if master_key is None:
            raise WebhookNotFound
        await tx.execute(QUERIES["count_master_key"], fingerprint=master_key, amount=-1)
        await record_webhook_event(tx, tenant_id, "webhook_deleted", webhook_id, at=at, by=by)
        await self._quotas.charge(tx, tenant_id, {"webhooks": -1})

    def signing_key(self, tenant_id: UUID, webhook: Webhook) -> bytes:
        """Return a webhook's signing key. Raises SecretUndecryptable."""
        return self._master_keys.unwrap(webhook.key, tenant_id=tenant_id).secret

    async def rewrap_keys(self, tenant_id: UUID) -> int:
        """Encrypt webhooks' keys with the current master key, also of disabled webhooks; return how many."""
        current = self._master_keys.current
        if not current:
            return 0
        async with self._database.for_all_spaces().transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_older_webhooks"], tenant_id=tenant_id, master_key=current, count=_REMOVED_BATCH_SIZE
            )
            for row in rows:
                await self.rewrap(tx, tenant_id, row["webhook_id"])
        return len(rows)

    async def rewrap(self, tx: Transaction, tenant_id: UUID, webhook_id: UUID) -> None:
        """Encrypt a webhook's key with the current master key, unless no configured key decrypts it."""
        row = await tx.row(QUERIES["lock_webhook"], tenant_id=tenant_id, webhook_id=webhook_id)
        webhook = None if row is None else webhook_of(row)
        if webhook is None or not self._master_keys.current or webhook.key.master_key == self._master_keys.current:
            return
        with suppress(SecretUndecryptable):
            key = self._master_keys.unwrap(webhook.key, tenant_id=tenant_id)
            await self._rekey(tx, tenant_id, webhook, self._master_keys.wrap(key, tenant_id=tenant_id))

    @staticmethod
    async def _rekey(tx: Transaction, tenant_id: UUID, webhook: Webhook, wrapped_key: WrappedKey) -> None:
        columns = _columns(wrapped_key)
        await tx.execute(QUERIES["rekey_webhook"], tenant_id=tenant_id, webhook_id=webhook.webhook_id, **columns)
        if wrapped_key.master_key != webhook.key.master_key:
            await tx.execute(QUERIES["count_master_key"], fingerprint=webhook.key.master_key, amount=-1)
            await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped_key.master_key, amount=1)


async def read_webhook(tx: Transaction, tenant_id: UUID, webhook_id: UUID, *, query: str = "get_webhook") -> Webhook:
    row = await tx.row(QUERIES[query], tenant_id=tenant_id, webhook_id=webhook_id)
    if row is None:
        raise WebhookNotFound
    return webhook_of(row)


def _draft_columns(draft: WebhookDraft) -> dict[str, object]:
    return {
        "display_name": draft.display_name,
        "event_types": list(draft.event_types),
        "condition": draft.condition,
        "webhook_url": draft.webhook_url,
    }


def _columns(wrapped_key: WrappedKey) -> dict[str, object]:
    return {
        "master_key": wrapped_key.master_key,
        "nonce": wrapped_key.encrypted_key.nonce,
        "ciphertext": wrapped_key.encrypted_key.ciphertext,
    }


def draft_of(row: asyncpg.Record) -> WebhookDraft:
    return WebhookDraft(
        display_name=row["display_name"],
        event_types=tuple(row["event_types"]),
        condition=row["condition"],
        webhook_url=row["webhook_url"],
        is_active=row["is_active"],
    )


def webhook_of(row: asyncpg.Record) -> Webhook:
    return Webhook(
        webhook_id=row["webhook_id"],
        draft=draft_of(row),
        key=WrappedKey(
            key_id=row["webhook_id"],
            master_key=row["master_key"],
            encrypted_key=Ciphertext(nonce=row["nonce"], ciphertext=row["ciphertext"]),
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
        makers=row["makers"],
    )


async def record_webhook_event(
    tx: Transaction, tenant_id: UUID, kind: str, webhook_id: UUID, *, at: datetime, by: str,
    space_id: UUID | None = None,
) -> None:  # fmt: skip
    """Record an event of a webhook; `space_id` is its space, where the transaction sees all of them."""
    event = Event(
        type=kind,
        entity_type="webhook",
        entity_id=str(webhook_id),
        summary=kind.replace("_", " "),
        space_id=space_id,
    )
    await writer.insert_events(tx, tenant_id, [event], at=at, by=by)


async def disable_webhooks_of_ended_grants(tx: Transaction, tenant_id: UUID, at: datetime) -> None:
    """Disable the webhooks of ended grants, before anything is queued or sent for them."""
    for row in await tx.rows(QUERIES["disable_webhooks_of_ended_grants"], tenant_id=tenant_id, at=at):
        await record_webhook_event(
            tx, tenant_id, "webhook_disabled", row["webhook_id"], at=at, by="system:worker", space_id=row["space_id"]
        )
