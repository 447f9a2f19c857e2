"""Links: protobuf to model and back."""

from __future__ import annotations

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import json_text, to_message
from skein_memory.links.model import DEFAULT_RELATION, DEFAULT_WEIGHT, Link, LinkDraft


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
    return to_message(pb.Link, value)
