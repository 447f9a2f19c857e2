"""Links: protobuf to model and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import json_text, to_timestamp
from skein_memory.links.model import DEFAULT_RELATION, DEFAULT_WEIGHT, LinkDraft

if TYPE_CHECKING:
    from skein_kit.rpc.row_times import ImportTimes
    from skein_memory.links.model import Link


def draft(message: pb.Link, times: ImportTimes | None = None) -> LinkDraft:
    """Read a caller's link. Raises FieldInvalid and TextNotStorable."""
    result = LinkDraft(
        from_name=message.from_memory_id,
        to_name=message.to_memory_id,
        relation=message.relation or DEFAULT_RELATION,
        label=message.label or None,
        weight=message.weight if message.HasField("weight") else DEFAULT_WEIGHT,
        metadata=json_text(message, "metadata"),
        times=times,
    )
    result.check()
    return result


def link(value: Link) -> pb.Link:
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
