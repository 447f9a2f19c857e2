"""Trust in sources as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_memory.source_trust.model import SourceTrust


def source_trust(value: SourceTrust) -> pb.SourceTrust:
    """Convert the trust in a source."""
    return pb.SourceTrust(
        source_trust_id=value.source_trust_id,
        source_key=value.source_key,
        source=value.source_key,
        trust=value.trust,
        notes=value.notes or "",
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
    )
