"""Entries of the event log as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import history_pb2
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_memory.events.position import Change


def change(value: Change) -> history_pb2.Change:
    """Convert a change of the event log."""
    return history_pb2.Change(
        change_id=str(value.position.change_id),
        position=str(value.position),
        event_type=value.event_type,
        entity_type=value.entity_type,
        entity_id=value.entity_id,
        summary=value.summary,
        principal=value.principal,
        create_time=to_timestamp(value.create_time),
        **fields(payload=value.payload),
    )
