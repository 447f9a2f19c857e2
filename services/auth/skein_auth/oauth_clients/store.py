"""OAuth clients in the database."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from skein_auth.errors import InvalidToken, TooManyAttempts
from skein_auth.oauth_clients.model import Client, RegistrationQuota
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import ServiceUnavailable

# A client that registered within this time may still get its first grant.
_NEW = timedelta(hours=1)
_LISTS = frozenset({"redirect_uris", "grant_types", "response_types", "contacts"})


class ClientStore:
    """OAuth clients: registered, imported, or described by a metadata document."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_client(self, client: Client, quota: RegistrationQuota | None, *, at: datetime) -> None:
        """Create a registered client. Raises TooManyAttempts when the quota is full."""
        async with self._database.global_transaction() as tx:
            if quota is not None:
                await _make_room(tx, quota, at)
            source_hash = None if quota is None else quota.address_hash
            await tx.execute(QUERIES["create_client"], source_hash=source_hash, **_values(client))

    async def import_client(self, tx: Transaction, client: Client) -> tuple[Client, bool]:
        """Create a client of an earlier system, unless its id is taken; return the stored one, and whether it is new.

        Raises ServiceUnavailable.
        """
        is_new = await tx.row(QUERIES["import_client"], **_values(client)) is not None
        row = await tx.row(QUERIES["get_client"], client_id=client.client_id)
        if row is None:
            # The id was taken at the insert, and its owner deleted the client before the read.
            raise ServiceUnavailable
        return _client(row), is_new

    async def get_client(self, client_id: str) -> Client | None:
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["get_client"], client_id=client_id)
        return None if row is None else _client(row)

    async def upsert_metadata_document(
        self, client: Client, quota: RegistrationQuota, *, at: datetime, is_new: bool
    ) -> None:
        """Store what a metadata document says. Raises TooManyAttempts when the quota is full for a new client."""
        async with self._database.global_transaction() as tx:
            if is_new:
                await _make_room(tx, quota, at)
            await tx.execute(QUERIES["upsert_metadata_document"], source_hash=quota.address_hash, **_values(client))

    async def update_client(self, new_client: Client, registration_token: str) -> Client:
        """Replace a client's metadata; its secrets stay. Raises InvalidToken, also for a client that is deleted."""
        query = QUERIES["update_client"]
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["lock_client"], client_id=new_client.client_id)
            if row is None:
                raise InvalidToken
            current_client = _client(row)
            # Verified again under the row lock.
            current_client.verify_registration_token(registration_token)
            updated_client = current_client.with_metadata_of(new_client)
            values = _values(updated_client)
            await tx.execute(query, **{name: values[name] for name in query.parameters})
        return updated_client

    async def delete_client(self, client_id: str) -> None:
        """Delete a client with all its grants."""
        async with self._database.global_transaction() as tx:
            await tx.execute(QUERIES["delete_client"], client_id=client_id)


async def _make_room(tx: Transaction, quota: RegistrationQuota, at: datetime) -> None:
    """Delete unused clients until the quota has room for one more. Raises TooManyAttempts."""
    await tx.execute(QUERIES["lock_registration"])
    bounds = {
        "source_hash": quota.address_hash,
        "max_per_source": quota.max_per_address,
        "max_clients": quota.max_clients,
    }
    await tx.execute(QUERIES["delete_unused_clients_for_room"], before=at - _NEW, **bounds)
    if not await tx.value(QUERIES["has_room_for_client"], **bounds):
        raise TooManyAttempts(retry_after=_NEW.total_seconds(), kind="clients")


def _client(row: asyncpg.Record) -> Client:
    values: dict[str, Any] = {name: tuple(value) if name in _LISTS else value for name, value in row.items()}
    return Client(**values)


def _values(client: Client) -> dict[str, Any]:
    values = {field.name: getattr(client, field.name) for field in dataclasses.fields(client)}
    return {name: list(value) if name in _LISTS else value for name, value in values.items()}
