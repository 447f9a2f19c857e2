"""Saved responses with the session that they show, so that a purge of the session finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_kit.idempotency.store import IdempotencyStore

if TYPE_CHECKING:
    from uuid import UUID

    from google.protobuf.message import Message

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey

_QUERIES = Queries.of("skein_session")


class SessionIdempotencyStore(IdempotencyStore):
    """The saved responses of the session service."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "session")

    async def save_response(self, tx: Transaction, tenant_id: UUID, key: IdempotencyKey, response: Message) -> None:
        """Save the response of a claimed request, and the session that it shows."""
        if not key.request_id:
            return
        await tx.execute(
            _QUERIES["save_response_of_session"],
            tenant_id=tenant_id,
            principal=key.principal,
            method=key.method,
            request_id=key.request_id,
            response=response.SerializeToString(),
            session_id=session_id_of_response(response),
        )


def session_id_of_response(response: Message) -> str | None:
    """Return the session that a response shows; no response shows several and is saved."""
    for field, value in response.ListFields():
        if field.message_type is None or "session_id" not in field.message_type.fields_by_name:
            continue
        first = next(iter(value), None) if field.is_repeated else value
        if first is not None and first.session_id:
            session_id: str = first.session_id
            return session_id
    return None
