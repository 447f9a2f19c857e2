"""How far sessions are, and what was said in one since: what those who follow a session read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries
from skein_kit.rpc.pagination import PAGE_BYTES
from skein_session.messages.store import read_in_order, read_order

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from skein.session.v1 import session_pb2 as pb
    from skein_kit.database.transactions import Database

_QUERIES = Queries.of("skein_session")
_OVER = frozenset({"ended", "archived"})
# Messages read at once.
_PORTION = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPosition:
    """How far a session is."""

    last_sequence: int
    # It takes no more messages.
    is_over: bool
    # Its messages lie in cold storage.
    is_stored: bool = False


class StreamStore:
    """Reads how far sessions are."""

    def __init__(self, database: Database) -> None:
        """Read with the service's role."""
        self._database = database

    async def read(self, tenant_id: UUID, session_ids: Collection[str]) -> Mapping[str, StreamPosition]:
        """Return how far each of these sessions is; those that are not there are left out."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(_QUERIES["read_standings"], tenant_id=tenant_id, session_ids=list(session_ids))
        return {
            row["session_id"]: StreamPosition(
                last_sequence=row["last_sequence"],
                is_over=row["state"] in _OVER,
                is_stored=row["store_time"] is not None,
            )
            for row in rows
        }

    async def messages(self, tenant_id: UUID, session_id: str, after: int) -> tuple[Sequence[pb.Message], int]:
        """Read the next messages of a session, and the sequence number up to which they were read.

        It is `after` itself when there are none, be it that all which came later was deleted. Raises SessionStored.
        """
        async with self._database.tenant(tenant_id) as tx:
            order = await read_order(tx, tenant_id, session_id, "order_after", sequence=after, limit=_PORTION)
            found: list[pb.Message] = []
            taken = 0
            async for message in read_in_order(
                tx, tenant_id, [row["message_id"] for row in order], session_id=session_id
            ):
                taken += message.ByteSize()
                if found and taken > PAGE_BYTES:
                    # Whoever follows may take their time with these; the others are read then.
                    return found, found[-1].sequence
                found.append(message)
        return found, order[-1]["sequence"] if order else after
