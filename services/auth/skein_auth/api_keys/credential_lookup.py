"""How stored credentials are read: invented ones are refused before the database, those without check digits wait."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein_kit.errors import CredentialInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from skein_auth.api_keys.check_keys import CheckKeys, UncheckedLookupLimiter
    from skein_auth.api_keys.legacy_token_store import LegacyStore
    from skein_auth.api_keys.model import ApiKeyToken, StoredApiKey
    from skein_auth.api_keys.operator_key_store import OperatorKeyStore
    from skein_auth.api_keys.store import ApiKeyStore


class CredentialLookup:
    """API keys of tenants and of the operator, and legacy tokens."""

    def __init__(
        self,
        *,
        api_keys: ApiKeyStore,
        operator_keys: OperatorKeyStore,
        legacy: LegacyStore,
        check_keys: CheckKeys,
        unchecked: UncheckedLookupLimiter,
    ) -> None:
        self._api_keys = api_keys
        self._operator_keys = operator_keys
        self._legacy = legacy
        self._check_keys = check_keys
        self._unchecked = unchecked

    async def stored(self, key: ApiKeyToken) -> StoredApiKey:
        """Return what is stored of a key, NOBODY when there is none with its id; whether it proves itself is not said.

        Raises CredentialInvalid for check digits that the cluster did not make, and Overloaded when too many keys
        without check digits wait.
        """
        async with self.turn(key):
            return await self.find(key)

    @asynccontextmanager
    async def turn(self, key: ApiKeyToken) -> AsyncIterator[None]:
        """Run the block, which may find the key, when it is the key's turn. Raises what `stored` does."""
        if not key.check_digits:
            async with self._unchecked.turn():
                yield
            return
        if not key.has_check_digits_of(await self._check_keys.known()):
            raise CredentialInvalid
        yield

    async def legacy_tenant(self, token: str) -> UUID | None:
        """Return the tenant of a legacy token, None for no such token. Raises Overloaded when too many wait."""
        async with self._unchecked.turn():
            return await self._legacy.find_legacy_token(hashlib.sha256(token.encode()).digest())

    async def find(self, key: ApiKeyToken) -> StoredApiKey:
        """Return what is stored of a key whose turn it is, NOBODY when there is none with its id."""
        if key.is_operators:
            return await self._operator_keys.find_operator_key(key.key_id)
        return await self._api_keys.find_api_key(key.tenant_id, key.key_id)
