"""Stored answers that know which session they show something of, so that a purge of the session finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_kit.idempotency.store import IdempotencyStore

if TYPE_CHECKING:
    from uuid import UUID

    from google.protobuf.message import Message

    from skein_kit.database.transactions import Transaction
    from skein_kit.idempotency.store import IdempotencyKey

_QUERIES = Queries.of("skein_session")


class SessionIdempotencyStore(IdempotencyStore):
    """The stored answers of the session service."""

    def __init__(self) -> None:
        """Use the service's own table."""
        super().__init__("session")

    async def answer(self, tx: Transaction, tenant_id: UUID, once: IdempotencyKey, response: Message) -> None:
        """Keep the answer of a claimed request, and the session that it is about."""
        if not once.request_id:
            return
        await tx.execute(
            _QUERIES["answer_about_session"],
            tenant_id=tenant_id,
            principal=once.principal,
            method=once.method,
            request_id=once.request_id,
            response=response.SerializeToString(),
            session_id=session_id_of_response(response),
        )


def session_id_of_response(response: Message) -> str | None:
    """Return the session that an answer shows something of; an answer about several is not kept."""
    for field, value in response.ListFields():
        if field.message_type is None or "session_id" not in field.message_type.fields_by_name:
            continue
        first = next(iter(value), None) if field.is_repeated else value
        if first is not None and first.session_id:
            found: str = first.session_id
            return found
    return None
