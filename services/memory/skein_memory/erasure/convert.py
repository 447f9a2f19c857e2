"""Receipts of purges as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_memory.erasure.model import PurgeReceipt


def receipt_of(receipt: PurgeReceipt | None) -> pb.PurgeReceipt | None:
    if receipt is None:
        return None
    return pb.PurgeReceipt(
        receipt_id=str(receipt.receipt_id),
        purge_time=to_timestamp(receipt.purge_time),
        memory_ids=[str(id_) for id_ in receipt.memory_ids],
        deleted_counts=receipt.deleted_counts,
        digest=receipt.digest,
        dry_run=receipt.dry_run,
        block_ids=receipt.block_ids,
        log_position=receipt.log_position,
    )
