"""The vault in the database: secrets are encrypted under the tenant's key, and tenant keys under the master key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import RpcError
from skein_kit.policies.store import PolicyCache
from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs
from skein_memory.errors import SecretNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.queries import QUERIES
from skein_memory.vault.encryption import Ciphertext, MasterKeys, TenantKey, WrappedKey

log = logs.get("memory")

# Secrets that one transaction encrypts again.
BATCH_SIZE = 500


class Vault:
    """Keys and secrets of tenants, in transactions of others."""

    def __init__(self, master_keys: MasterKeys) -> None:
        """Tenant keys are wrapped with these."""
        self.master_keys = master_keys

    async def put(self, tx: Transaction, tenant_id: UUID, secrets: Mapping[UUID, str], *, at: datetime) -> None:
        """Encrypt the secrets of memories that are stored already. Raises MasterKeyMissing."""
        if not secrets:
            return
        self.master_keys.check_current()
        rows = await tx.rows(QUERIES["share_tenant_keys"], tenant_id=tenant_id)
        key = self.master_keys.unwrap(_wrapped_key(rows[0]), tenant_id=tenant_id) if rows else None
        if key is None:
            key = await self.new_key(tx, tenant_id, at=at)
        encrypted_secrets = {
            memory_id: key.encrypt(value, tenant_id=tenant_id, memory_id=memory_id)
            for memory_id, value in secrets.items()
        }
        await tx.insert(
            QUERIES["put_secret"],
            tenant_id,
            [
                {
                    "memory_id": memory_id,
                    "key_id": key.key_id,
                    "nonce": encrypted.nonce,
                    "ciphertext": encrypted.ciphertext,
                    "update_time": at,
                }
                for memory_id, encrypted in encrypted_secrets.items()
            ],
        )

    async def get(self, tx: Transaction, tenant_id: UUID, memory_id: UUID) -> str:
        """Decrypt a memory's secret. Raises SecretNotFound and SecretUndecryptable."""
        row = await tx.row(QUERIES["get_secret"], tenant_id=tenant_id, memory_id=memory_id)
        if row is None:
            raise SecretNotFound
        wrapped_key = WrappedKey(
            key_id=row["key_id"],
            master_key=row["master_key"],
            encrypted_key=Ciphertext(nonce=row["key_nonce"], ciphertext=row["key_ciphertext"]),
        )
        key = self.master_keys.unwrap(wrapped_key, tenant_id=tenant_id)
        encrypted = Ciphertext(nonce=row["nonce"], ciphertext=row["ciphertext"])
        return key.decrypt(encrypted, tenant_id=tenant_id, memory_id=memory_id)

    async def delete(self, tx: Transaction, tenant_id: UUID, memory_id: UUID) -> None:
        """Delete the secret of a memory that no longer belongs to the vault."""
        await tx.execute(QUERIES["delete_secret"], tenant_id=tenant_id, memory_id=memory_id)

    async def new_key(self, tx: Transaction, tenant_id: UUID, *, at: datetime) -> TenantKey:
        """Create the key that encrypts from here on. Raises MasterKeyMissing."""
        key = TenantKey.new(at)
        wrapped_key = self.master_keys.wrap(key, tenant_id=tenant_id)
        await tx.execute(QUERIES["insert_tenant_key"], tenant_id=tenant_id, create_time=at, **_columns(wrapped_key))
        await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped_key.master_key, amount=1)
        return key

    async def rewrap(self, tx: Transaction, tenant_id: UUID, rows: Sequence[asyncpg.Record]) -> int:
        """Wrap the keys in these locked rows with the current master key; return how many another one wrapped."""
        rows_to_wrap = [row for row in rows if row["master_key"] != self.master_keys.current]
        for row in rows_to_wrap:
            key = self.master_keys.unwrap(_wrapped_key(row), tenant_id=tenant_id)
            wrapped_key = self.master_keys.wrap(key, tenant_id=tenant_id)
            await tx.execute(QUERIES["rewrap_tenant_key"], tenant_id=tenant_id, **_columns(wrapped_key))
            await tx.execute(QUERIES["count_master_key"], fingerprint=row["master_key"], amount=-1)
            await tx.execute(QUERIES["count_master_key"], fingerprint=wrapped_key.master_key, amount=1)
        return len(rows_to_wrap)

    async def reencrypt(self, tx: Transaction, tenant_id: UUID, rows: Sequence[asyncpg.Record]) -> tuple[int, bool]:
        """Encrypt a batch of secrets of older keys with the newest key, and delete older keys without secrets.

        `rows` are the tenant's locked keys, the newest first. Return how many secrets, and whether there may be more.
        """
        if not rows:
            return 0, False
        newest_key, *older_keys = [self.master_keys.unwrap(_wrapped_key(row), tenant_id=tenant_id) for row in rows]
        count = 0
        for row, key in zip(rows[1:], older_keys, strict=True):
            secret_rows = await tx.rows(
                QUERIES["list_older_secrets"],
                tenant_id=tenant_id,
                key_id=key.key_id,
                count=BATCH_SIZE - count,
            )
            for secret_row in secret_rows:
                memory_id = secret_row["memory_id"]
                encrypted = Ciphertext(nonce=secret_row["nonce"], ciphertext=secret_row["ciphertext"])
                value = key.decrypt(encrypted, tenant_id=tenant_id, memory_id=memory_id)
                reencrypted = newest_key.encrypt(value, tenant_id=tenant_id, memory_id=memory_id)
                await tx.execute(
                    QUERIES["reencrypt_secret"],
                    tenant_id=tenant_id,
                    memory_id=memory_id,
                    key_id=newest_key.key_id,
                    nonce=reencrypted.nonce,
                    ciphertext=reencrypted.ciphertext,
                )
            count += len(secret_rows)
            if count == BATCH_SIZE:
                return count, True
            await tx.execute(QUERIES["delete_tenant_key"], tenant_id=tenant_id, key_id=key.key_id)
            await tx.execute(QUERIES["count_master_key"], fingerprint=row["master_key"], amount=-1)
        return count, False


class TenantKeyStore:
    """Keys of tenants: their rotation, and their encryption with the current master key."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def read_model_key_id(self, tenant_id: UUID) -> str:
        """Return the memory with the key of the tenant's language model. Raises SecretNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            # Not from the shared cache: the worker asks once in some minutes, also right after a change.
            key_id = (await PolicyCache().get(tx, tenant_id)).extraction_key_id
        if not key_id:
            raise SecretNotFound
        return key_id

    async def rotate(self, tx: Transaction, tenant_id: UUID, *, at: datetime, by: str) -> tuple[str, int, bool]:
        """Create a new key unless older secrets still wait for the newest one; encrypt a batch of them with it.

        Return the key's id, how many secrets, and whether there may be more. Raises MasterKeyMissing and
        SecretUndecryptable.
        """
        self._vault.master_keys.check_current()
        rows = await tx.rows(QUERIES["lock_tenant_keys"], tenant_id=tenant_id)
        if len(rows) < 2:  # noqa: PLR2004 - one key: nothing waits for another.
            await self._vault.new_key(tx, tenant_id, at=at)
            rows = await tx.rows(QUERIES["lock_tenant_keys"], tenant_id=tenant_id)
        await self._vault.rewrap(tx, tenant_id, rows)
        rows = await tx.rows(QUERIES["lock_tenant_keys"], tenant_id=tenant_id)
        count, more = await self._vault.reencrypt(tx, tenant_id, rows)
        key_id = str(rows[0]["key_id"])
        event = Event(
            type="tenant_key_rotated",
            entity_type="tenant_key",
            entity_id=key_id,
            summary=f"key rotated: {count} secrets{', more to come' if more else ''}",
            payload={"count": count, "more": more},
        )
        await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
        return key_id, count, more

    async def rewrap_keys(self, tenant_id: UUID) -> int:
        """Encrypt a tenant's keys with the current master key, and continue a rotation; return the rows changed."""
        if not self._vault.master_keys.current:
            return 0
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["lock_tenant_keys"], tenant_id=tenant_id)
            wrapped_count = await self._vault.rewrap(tx, tenant_id, rows)
            if wrapped_count:
                rows = await tx.rows(QUERIES["lock_tenant_keys"], tenant_id=tenant_id)
            count, _ = await self._vault.reencrypt(tx, tenant_id, rows)
        return wrapped_count + count


class MasterKeyCheck:
    """Asks the database once which master keys are in use."""

    def __init__(self, database: Database, master_keys: MasterKeys) -> None:
        self._database = database
        self._master_keys = master_keys
        self._is_checked = False
        self._logged_problem = ""

    async def check_at_start(self) -> None:
        """Raise SettingInvalid when a key is missing. When the database is down or empty, `ready` checks later."""
        try:
            await self._check_once()
        except (RpcError, asyncpg.PostgresError):
            return

    async def ready(self) -> bool:
        """Return whether all keys are configured, and log a missing one."""
        try:
            await self._check_once()
        except SettingInvalid as error:
            if str(error) != self._logged_problem:
                log.error("master_key_missing", problem=str(error))  # noqa: TRY400 - the trace says nothing more.
            self._logged_problem = str(error)
            return False
        return True

    async def _check_once(self) -> None:
        if not self._is_checked:
            async with self._database.global_transaction() as tx:
                rows = await tx.rows(QUERIES["list_master_keys"])
            self._master_keys.check_has({row["fingerprint"] for row in rows})
            self._is_checked = True


def _wrapped_key(row: asyncpg.Record) -> WrappedKey:
    return WrappedKey(
        key_id=row["key_id"],
        master_key=row["master_key"],
        encrypted_key=Ciphertext(nonce=row["nonce"], ciphertext=row["ciphertext"]),
    )


def _columns(wrapped_key: WrappedKey) -> dict[str, object]:
    return {
        "key_id": wrapped_key.key_id,
        "master_key": wrapped_key.master_key,
        "nonce": wrapped_key.encrypted_key.nonce,
        "ciphertext": wrapped_key.encrypted_key.ciphertext,
    }
