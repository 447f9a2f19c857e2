"""The operator's keys and the keys of check digits in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_auth.api_keys.model import UNKNOWN_API_KEY, StoredApiKey
from skein_auth.queries import QUERIES

if TYPE_CHECKING:
    from uuid import UUID

    from skein_kit.database.transactions import Database


class OperatorKeyStore:
    """The operator's keys, and the keys of check digits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_operator_key(self, api_key_id: UUID) -> StoredApiKey:
        """Return NOBODY, which no key proves, when there is no such key."""
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["find_operator_key"], api_key_id=api_key_id)
        if row is None:
            return UNKNOWN_API_KEY
        return StoredApiKey(
            secret_hash=row["secret_hash"],
            permissions=frozenset(),
            expire_time=row["expire_time"],
            revoke_time=row["revoke_time"],
        )

    async def list_check_keys(self) -> tuple[bytes, ...]:
        """Read the keys of check digits, the one that makes new ones first."""
        async with self._database.shared() as tx:
            return tuple([row["secret"] for row in await tx.rows(QUERIES["list_check_keys"])])
