"""Positions of sessions and their next messages, for streams."""

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
# States that take no more messages.
_CLOSED_STATES = frozenset({"ended", "archived"})
# Messages of one read.
_READ_BATCH = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamPosition:
    """The end of a session's messages."""

    last_sequence: int
    # The session takes no more messages.
    is_ended: bool
    # The messages lie in cold storage.
    is_archived: bool = False


class StreamStore:
    """Reads positions and messages of sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_positions(self, tenant_id: UUID, session_ids: Collection[str]) -> Mapping[str, StreamPosition]:
        """Return the positions of sessions by id, without those that are missing."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(_QUERIES["read_stream_positions"], tenant_id=tenant_id, session_ids=list(session_ids))
        return {
            row["session_id"]: StreamPosition(
                last_sequence=row["last_sequence"],
                is_ended=row["state"] in _CLOSED_STATES,
                is_archived=row["store_time"] is not None,
            )
            for row in rows
        }

    async def read_messages(self, tenant_id: UUID, session_id: str, after: int) -> tuple[Sequence[pb.Message], int]:
        """Read the next messages of a session, and the sequence number of the last position read.

        The number is `after` when no position follows, as when all later messages are deleted. Raises SessionArchived.
        """
        async with self._database.transaction(tenant_id) as tx:
            order = await read_order(tx, tenant_id, session_id, "order_after", sequence=after, limit=_READ_BATCH)
            messages: list[pb.Message] = []
            byte_count = 0
            async for message in read_in_order(
                tx, tenant_id, [row["message_id"] for row in order], session_id=session_id
            ):
                byte_count += message.ByteSize()
                if messages and byte_count > PAGE_BYTES:
                    # A slow caller may hold these for long; the next read returns the others.
                    return messages, messages[-1].sequence
                messages.append(message)
        return messages, order[-1]["sequence"] if order else after
