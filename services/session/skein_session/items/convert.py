"""Items from rows to protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import states_pb2 as pb
from skein_kit.json_values.fields import value_fields
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from asyncpg import Record


def session_item(record: Record) -> pb.SessionItem:
    """Convert a row of session.items."""
    return pb.SessionItem(
        session_id=record["session_id"],
        key=record["key"],
        expire_time=to_timestamp(record["expire_time"]),
        create_time=to_timestamp(record["create_time"]),
        update_time=to_timestamp(record["update_time"]),
        created_by=record["created_by"],
        **value_fields(value=record["value"]),
    )
