"""Saved responses with the session that they show, so that a purge of the session finds them."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore, IdempotentWrite, Response

_QUERIES = Queries.load("skein_session")


class SessionIdempotentWrite(IdempotentWrite):
    """A write whose saved response has the id of the session that it shows."""

    async def save(self, response: Response) -> Response:
        """Save the response and its session for repeats, and return the response."""
        if self._key.request_id:
            await self.tx.execute(
                _QUERIES["save_response_of_session"],
                tenant_id=self._tenant_id,
                principal=self._key.principal,
                method=self._key.method,
                request_id=self._key.request_id,
                response=response.SerializeToString(),
                session_id=_session_id(cast("Message", response)),
            )
        return response


class SessionIdempotencyStore(IdempotencyStore):
    """The saved responses of the session service."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "session")

    async def claim(
        self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, *, response: bytes = b""
    ) -> SessionIdempotentWrite:
        """Claim a request as IdempotencyStore does; the write saves the session of its response too."""
        write = await super().claim(tx, tenant_id, key, response=response)
        return SessionIdempotentWrite(self, tx, tenant_id, key, write.saved_response)

    async def replace_response(self, tenant_id: UUID, key: IdempotencyKey, response: Message) -> None:
        """Replace the response of a committed request, which shows the same session."""
        if key.request_id:
            async with self._database.transaction(tenant_id) as tx:
                await self.replace(tx, tenant_id, key, response.SerializeToString())


def _session_id(response: Message) -> str | None:
    """Return the session that a response shows; no response that is saved shows several."""
    for field, value in response.ListFields():
        if field.message_type is None or "session_id" not in field.message_type.fields_by_name:
            continue
        first = next(iter(value), None) if field.is_repeated else value
        if first is not None and first.session_id:
            session_id: str = first.session_id
            return session_id
    return None
