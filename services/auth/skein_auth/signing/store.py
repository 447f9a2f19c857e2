"""The signing keys in the database."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import asyncpg

from skein_auth.queries import QUERIES
from skein_auth.signing.model import NewKey, Purpose, SigningKey
from skein_kit.database.transactions import Database, Transaction


class SigningKeyStore:
    """The keys that sign, shared by all replicas."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def active_signing_key(self, purpose: Purpose) -> asyncpg.Record | None:
        """Read the id and the encrypted private half of the active key; None before the first one."""
        async with self._database.global_transaction() as tx:
            return await tx.row(QUERIES["active_signing_key"], purpose=purpose)

    async def create_signing_key(self, new: NewKey) -> None:
        """Make a key the active one, unless there is one."""
        async with self._database.global_transaction() as tx:
            await _create(tx, new)

    async def rotate_signing_key(
        self, tx: Transaction, new: NewKey, old_expire_time: datetime, *, emergency: bool
    ) -> None:
        """Make a key the active one; the key before it verifies until `old_expire_time`.

        In an emergency that holds for all earlier keys that still verify.
        """
        await tx.execute(QUERIES["lock_signing_keys"])
        expire = QUERIES["expire_signing_keys" if emergency else "expire_active_signing_key"]
        await tx.execute(expire, purpose=new.purpose, expire_time=old_expire_time)
        await _create(tx, new)

    async def list_signing_keys(self, at: datetime, purpose: Purpose) -> list[SigningKey]:
        """Read the public halves that verify at this time, the active key first."""
        async with self._database.global_transaction() as tx:
            rows = await tx.rows(QUERIES["list_signing_keys"], at=at, purpose=purpose)
        return [SigningKey(**row) for row in rows]


async def _create(tx: Transaction, new: NewKey) -> None:
    await tx.execute(QUERIES["create_signing_key"], **dataclasses.asdict(new))
