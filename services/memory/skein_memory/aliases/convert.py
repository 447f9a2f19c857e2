"""Aliases as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_memory.aliases.model import Alias


def alias(value: Alias) -> pb.Alias:
    """Convert an alias."""
    return pb.Alias(
        alias_memory_id=str(value.alias_memory_id),
        canonical_memory_id=str(value.canonical_memory_id),
        confidence=value.confidence,
        note=value.note or "",
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
    )
