"""Links as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_memory.links.model import Link


def link(value: Link) -> pb.Link:
    """Convert a link, complete."""
    return pb.Link(
        link_id=str(value.link_id),
        from_memory_id=str(value.from_memory_id),
        to_memory_id=str(value.to_memory_id),
        relation=value.relation,
        label=value.label or "",
        weight=value.weight,
        create_time=to_timestamp(value.create_time),
        created_by=value.created_by,
        revision=value.revision,
        update_time=to_timestamp(value.update_time),
        record_time=to_timestamp(value.record_time),
        updated_by=value.updated_by,
        **fields(metadata=value.metadata),
    )
