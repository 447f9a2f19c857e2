"""Reindexes as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_recall.reindexes.model import Reindex


def reindex(value: Reindex) -> pb.Reindex:
    """Convert a reindex; it is complete when it is done in every tenant."""
    if value.cancel_time is not None:
        state = pb.REINDEX_STATE_CANCELLED
    else:
        state = pb.REINDEX_STATE_COMPLETE if value.done_tenants >= value.tenants else pb.REINDEX_STATE_RUNNING
    return pb.Reindex(
        reindex_id=str(value.reindex_id),
        model=value.model,
        tenant_id=str(value.only_tenant_id or ""),
        state=state,
        texts_per_second=value.texts_per_second,
        tenant_count=value.tenants,
        done_tenant_count=value.done_tenants,
        document_count=value.documents,
        seen_count=value.seen,
        embedded_count=value.embedded,
        missing_count=value.missing,
        create_time=to_timestamp(value.create_time),
        cancel_time=to_timestamp(value.cancel_time),
        created_by=value.created_by,
    )
