"""OAuth clients in the database."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.errors import InvalidToken, TooManyAttempts
from skein_auth.oauth_clients import convert
from skein_auth.oauth_clients.model import Client
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import ServiceUnavailable
from skein_kit.idempotency.store import IdempotencyStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import asyncpg

    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.oauth_clients.model import RegistrationQuota
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey

# A client that registered so lately may still get its first grant.
_YOUNG = timedelta(hours=1)
_LISTS = frozenset({"redirect_uris", "grant_types", "response_types", "contacts"})


class ClientStore:
    """The applications that are known here."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = IdempotencyStore(database, "auth")

    async def create_client(self, client: Client, source: RegistrationQuota | None, *, at: datetime) -> None:
        """Keep a client that registered. Raises TooManyAttempts when there is no room for one more of a source."""
        async with self._database.shared() as tx:
            if source is not None:
                await _make_room(tx, source, at)
            source_hash = None if source is None else source.address_hash
            await tx.execute(QUERIES["create_client"], source_hash=source_hash, **_values(client))

    async def take_over(self, client: Client, audit: AuditRecorder, once: IdempotencyKey) -> pb.ImportClientResponse:
        """Keep a client of an earlier system, unless its id is taken; return the one that is kept."""
        async with self._database.transaction(NO_TENANT) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.ImportClientResponse.FromString(first)
            is_new = await tx.row(QUERIES["take_over_client"], **_values(client)) is not None
            row = await tx.row(QUERIES["get_client"], client_id=client.client_id)
            if row is None:
                # Taken when we wrote, gone when we looked: its owner deleted it in between.
                raise ServiceUnavailable
            if is_new:
                await audit.within(tx, "client_registered", client_id=client.client_id)
            response = pb.ImportClientResponse(client=convert.client(_client(row)), existed=not is_new)
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response

    async def get_client(self, client_id: str) -> Client | None:
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["get_client"], client_id=client_id)
        return None if row is None else _client(row)

    async def keep_document(self, client: Client, source: RegistrationQuota, *, at: datetime, is_new: bool) -> None:
        """Keep what a document says: as a new client, or in the place of what it said before.

        Raises TooManyAttempts when there is no room for a new one.
        """
        async with self._database.shared() as tx:
            if is_new:
                await _make_room(tx, source, at)
            await tx.execute(QUERIES["keep_document"], source_hash=source.address_hash, **_values(client))

    async def update_client(self, client_id: str, change: Callable[[Client], Client]) -> Client:
        """Replace what a client says of itself. Raises InvalidToken when it is gone, and what `change` raises."""
        query = QUERIES["update_client"]
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["lock_client"], client_id=client_id)
            if row is None:
                raise InvalidToken
            changed = change(_client(row))
            values = _values(changed)
            await tx.execute(query, **{name: values[name] for name in query.parameters})
        return changed

    async def delete_client(self, client_id: str) -> None:
        """Remove a client with everything that it was given."""
        async with self._database.shared() as tx:
            await tx.execute(QUERIES["delete_client"], client_id=client_id)


async def _make_room(tx: Transaction, source: RegistrationQuota, at: datetime) -> None:
    await tx.execute(QUERIES["lock_registration"])
    bounds = {
        "source_hash": source.address_hash,
        "most_of_source": source.most_of_address,
        "most": source.most,
    }
    await tx.execute(QUERIES["evict_idle_clients"], before=at - _YOUNG, **bounds)
    if not await tx.value(QUERIES["has_room_for_client"], **bounds):
        raise TooManyAttempts(after=_YOUNG.total_seconds(), kind="clients")


def _client(row: asyncpg.Record) -> Client:
    values: dict[str, Any] = {name: tuple(value) if name in _LISTS else value for name, value in row.items()}
    return Client(**values)


def _values(client: Client) -> dict[str, Any]:
    values = {field.name: getattr(client, field.name) for field in dataclasses.fields(client)}
    return {name: list(value) if name in _LISTS else value for name, value in values.items()}
