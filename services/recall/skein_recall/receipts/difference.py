"""Explains why two answers differ, from their receipts and the events between them. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.recall_receipts import SignedReceipt
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.receipts import convert
from skein_recall.receipts.replay import TOLERANCE

_SIGNALS = (*convert.SIGNALS, *convert.ADJUSTMENTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadReceipt:
    """A verified receipt."""

    signed: SignedReceipt
    content: pb.ReceiptContent

    def sees(self, transaction: int) -> bool:
        """Return whether the search saw what a transaction wrote."""
        content = self.content
        offset = transaction - content.snapshot_start
        return offset < 0 or (offset < content.snapshot_size and offset not in content.snapshot_gaps)

    @property
    def beyond(self) -> int:
        """The first transaction that the search cannot have seen."""
        return self.content.snapshot_start + self.content.snapshot_size


def range_between(first: ReadReceipt, second: ReadReceipt) -> tuple[int, int]:
    """Return the range of transactions of which one search may have seen what the other did not."""
    return (
        min(first.content.snapshot_start, second.content.snapshot_start),
        max(first.beyond, second.beyond),
    )


def differences(
    first: ReadReceipt, second: ReadReceipt, changes: Iterable[asyncpg.Record], *, truncated: bool
) -> pb.DiffRecallResponse:
    """Return what differs, with the events that only one of the searches saw."""
    unknown = _unknown_inputs(first, second)
    inputs = [name for name in _changed_inputs(first, second) if name not in unknown]
    changes_of: dict[str, list[asyncpg.Record]] = {}
    for change in changes:
        if first.sees(change["transaction"]) != second.sees(change["transaction"]):
            changes_of.setdefault(change["entity_id"], []).append(change)
    ranks = [_ranks(each.content) for each in (first, second)]
    ids = sorted(
        ranks[0].keys() | ranks[1].keys(),
        key=lambda item_id: (min(rank.get(item_id, len(rank) + 1) for rank in ranks), item_id),
    )
    hits = [_hit(item_id, (first, second), ranks, changes_of.get(str(item_id), []), inputs) for item_id in ids]
    return pb.DiffRecallResponse(changed_inputs=inputs, hits=hits, changes_truncated=truncated, unknown_inputs=unknown)


def _unknown_inputs(first: ReadReceipt, second: ReadReceipt) -> list[str]:
    """Return the inputs that cannot be compared."""
    has_texts = first.signed.query is not None and second.signed.query is not None
    one, other = first.content, second.content
    is_comparable = (convert.principal(one), one.query_key_check) == (convert.principal(other), other.query_key_check)
    has_digests = bool(one.query_digest and other.query_digest) and is_comparable
    is_erased = first.signed.request is None or second.signed.request is None
    compared = {"query": has_texts or has_digests, "request": not is_erased}
    return [name for name, is_comparable in compared.items() if not is_comparable]


def _changed_inputs(first: ReadReceipt, second: ReadReceipt) -> list[str]:
    one, other = first.content, second.content
    is_query_equal = (first.signed.query, one.query_digest) == (second.signed.query, other.query_digest)
    requests = [each.signed.receipt_request or pb.ReceiptRequest() for each in (first, second)]
    has_requests = first.signed.request is not None and second.signed.request is not None
    terms = [list(request.term_documents) if has_requests else [] for request in requests]
    compared = {
        "query": is_query_equal,
        "request": requests[0].request == requests[1].request,
        "principal": convert.principal(one) == convert.principal(other),
        "model": one.model == other.model,
        "formula": one.formula == other.formula,
        "weights": list(one.weights) == list(other.weights),
        "language": one.search_language == other.search_language,
        "corpus": (one.corpus_documents, one.corpus_length, terms[0])
        == (other.corpus_documents, other.corpus_length, terms[1]),
        "vector": one.dense_unavailable == other.dense_unavailable,
    }
    return [name for name, is_equal in compared.items() if not is_equal]


def _ranks(content: pb.ReceiptContent) -> dict[UUID, int]:
    return {item_id: rank for rank, item_id in enumerate(convert.item_ids(content), start=1)}


def _hit(
    item_id: UUID,
    receipts: tuple[ReadReceipt, ReadReceipt],
    ranks: Sequence[Mapping[UUID, int]],
    changes: Sequence[asyncpg.Record],
    inputs: Sequence[str],
) -> pb.HitDifference:
    one, other = (receipt.content for receipt in receipts)
    rank, other_rank = (each.get(item_id, 0) for each in ranks)
    content, index = (one, rank - 1) if rank else (other, other_rank - 1)
    hit = pb.HitDifference(
        kind=pb.ITEM_KIND_MESSAGE if content.flags[index] & convert.IS_MESSAGE else pb.ITEM_KIND_MEMORY,
        item_id=str(item_id),
        rank=rank,
        other_rank=other_rank,
        changes=[
            pb.ItemChange(
                event_id=change["transaction"],
                event_type=change["event_type"],
                principal=change["principal"],
                create_time=to_timestamp(change["create_time"]),
            )
            for change in changes
        ],
    )
    if rank:
        hit.revision, hit.score = one.revisions[rank - 1], one.scores[rank - 1]
    if other_rank:
        hit.other_revision, hit.other_score = other.revisions[other_rank - 1], other.scores[other_rank - 1]
    if rank and other_rank:
        for signal in _SIGNALS:
            raw = convert.signal(one, signal, rank - 1)
            other_raw = convert.signal(other, signal, other_rank - 1)
            if raw != other_raw and abs((raw or 0.0) - (other_raw or 0.0)) > TOLERANCE:
                hit.signals.add(signal=signal, raw=raw or 0.0, other_raw=other_raw or 0.0)
    is_equal = rank == other_rank and hit.revision == hit.other_revision and not hit.signals
    is_equal = is_equal and abs(hit.score - hit.other_score) <= TOLERANCE
    if is_equal and not changes:
        hit.cause = "none"
    elif changes or (hit.revision != hit.other_revision and rank and other_rank):
        hit.cause = "item"
    elif set(inputs) - {"corpus", "principal"}:
        hit.cause = "inputs"
    else:
        hit.cause = "others"
    return hit
