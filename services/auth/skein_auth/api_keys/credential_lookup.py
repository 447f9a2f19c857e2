"""Lookup of stored credentials. Wrong check digits are refused before the database; without any, a lookup waits."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

from skein_auth.api_keys.model import ApiKeyToken, StoredApiKey
from skein_auth.api_keys.store import ApiKeyStore, LegacyTokenStore, OperatorKeyStore
from skein_kit.errors import CredentialInvalid, Overloaded, RpcError

# Most lookups of credentials without check digits at a time, and most that wait. The rest of the pool is for
# credentials that the cluster made.
_UNCHECKED_LOOKUPS = 2
_UNCHECKED_WAITING = 64
_RETRY_SECONDS = 1.0
# Seconds until a replica reads a new key, which makes check digits minutes later.
CHECK_KEY_SECONDS = 60.0


class CheckKeys:
    """The keys of check digits. A replica reads a new key long before it makes check digits."""

    def __init__(self, store: OperatorKeyStore) -> None:
        self._store = store
        self._keys: tuple[bytes, ...] = ()

    async def get_all(self) -> tuple[bytes, ...]:
        """Return the keys, the one for new check digits first."""
        return self._keys or await self.refresh()

    async def get_newest(self) -> bytes:
        """Return the key for new check digits; empty when the database has none."""
        return next(iter(await self.get_all()), b"")

    async def refresh(self) -> tuple[bytes, ...]:
        """Read the keys."""
        self._keys = await self._store.list_check_keys()
        return self._keys

    async def refresh_periodically(self, seconds: float) -> None:
        """Read the keys every so many seconds until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except (RpcError, asyncpg.PostgresError):
                # Readiness reports the database; the cached keys work on.
                continue


class CredentialLookup:
    """API keys of tenants and of the operator, and legacy tokens. Each instance has slots of its own."""

    def __init__(
        self,
        *,
        api_keys: ApiKeyStore,
        operator_keys: OperatorKeyStore,
        legacy_tokens: LegacyTokenStore,
        check_keys: CheckKeys,
    ) -> None:
        self._api_keys = api_keys
        self._operator_keys = operator_keys
        self._legacy_tokens = legacy_tokens
        self._check_keys = check_keys
        self._unchecked = _UncheckedLookupLimiter()

    async def find_in_slot(self, key: ApiKeyToken) -> StoredApiKey:
        """Return the stored key with this id, UNKNOWN_API_KEY for none; its secret is not checked.

        Raises CredentialInvalid for wrong check digits, and Overloaded when too many keys without check digits wait.
        """
        async with self.slot(key):
            return await self.find(key)

    @asynccontextmanager
    async def slot(self, key: ApiKeyToken) -> AsyncIterator[None]:
        """Run the block, which may call `find`, in a slot if the key needs one. Raises what `find_in_slot` raises."""
        if not key.mac:
            async with self._unchecked.slot():
                yield
            return
        if not key.has_valid_mac(await self._check_keys.get_all()):
            raise CredentialInvalid
        yield

    async def find_legacy_tenant(self, token: str) -> UUID | None:
        """Return the tenant of a legacy token; None for an unknown one. Raises Overloaded when too many wait."""
        async with self._unchecked.slot():
            return await self._legacy_tokens.find_legacy_token(hashlib.sha256(token.encode()).digest())

    async def find(self, key: ApiKeyToken) -> StoredApiKey:
        """Return the stored key with this id, UNKNOWN_API_KEY for none. Call it within `slot`."""
        if key.is_operator_key:
            return await self._operator_keys.find_operator_key(key.key_id)
        return await self._api_keys.find_api_key(key.tenant_id, key.key_id)


class _UncheckedLookupLimiter:
    """Limits the lookups of credentials without check digits, which a stranger can invent in any number."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_UNCHECKED_LOOKUPS)
        self._count = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Run the block in a slot. Raises Overloaded when too many wait."""
        if self._count >= _UNCHECKED_LOOKUPS + _UNCHECKED_WAITING:
            raise Overloaded(retry_after=_RETRY_SECONDS)
        self._count += 1
        try:
            async with self._slots:
                yield
        finally:
            self._count -= 1
