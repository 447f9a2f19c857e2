"""Archived sessions from rows to protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import archives_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from asyncpg import Record


def archived_session(record: Record) -> pb.StoredSession:
    """Convert a row of the query list_archived_sessions."""
    return pb.StoredSession(
        session_id=record["session_id"],
        title=record["title"],
        message_count=record["message_count"],
        byte_count=record["byte_count"],
        checksum=record["checksum"],
        archive_time=to_timestamp(record["archive_time"]),
        store_time=to_timestamp(record["store_time"]),
        stored_by=record["stored_by"],
    )
