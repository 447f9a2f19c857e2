"""Purges between protobuf and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import states_pb2 as pb
from skein_session.erasure.model import DEFAULT_LIMIT, PurgeOptions

if TYPE_CHECKING:
    from skein_session.erasure.model import Receipt


def purge_options(request: pb.PurgeSessionRequest | pb.PurgeSubjectRequest) -> PurgeOptions:
    """Read the limit and the dry run of a request."""
    return PurgeOptions(limit=request.limit or DEFAULT_LIMIT, is_dry_run=request.dry_run)


def receipt(values: Receipt) -> pb.PurgeReceipt:
    """Convert a receipt."""
    return pb.PurgeReceipt(
        session_ids=values.session_ids,
        message_ids=map(str, values.message_ids),
        counts=values.counts,
        more=values.has_more,
    )
