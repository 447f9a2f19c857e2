"""Context ledgers between protobuf and values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import cast

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import ledgers_pb2
from skein_gateway.context.ledger import Entry, EntryState, Ledger, Rebase, Turn
from skein_gateway.context.model import ItemKind
from skein_gateway.recall.rpc import subject_of

_KINDS = {
    ItemKind.BLOCK: ledgers_pb2.LEDGER_ITEM_KIND_BLOCK,
    ItemKind.PROFILE: ledgers_pb2.LEDGER_ITEM_KIND_PROFILE,
    ItemKind.MEMORY: ledgers_pb2.LEDGER_ITEM_KIND_MEMORY,
    ItemKind.MESSAGE: ledgers_pb2.LEDGER_ITEM_KIND_MESSAGE,
}
_ITEM_KINDS = {number: kind for kind, number in _KINDS.items()}
_INDEXED_KINDS = {ItemKind.MEMORY: recall_pb2.ITEM_KIND_MEMORY, ItemKind.MESSAGE: recall_pb2.ITEM_KIND_MESSAGE}
_DIGEST_BYTES = 16


def ledger(message: ledgers_pb2.ContextLedger) -> Ledger:
    """Read a stored ledger."""
    return Ledger(
        revision=message.revision,
        salt=message.salt,
        entries=tuple(
            Entry(
                kind=_ITEM_KINDS[entry.kind],
                item_id=entry.item_id,
                revision=entry.revision,
                number=entry.number,
                state=EntryState(entry.state),
                digest=entry.digest,
                max_characters=entry.max_characters,
                turn=entry.turn,
                is_change=entry.change,
                page_place=entry.page_place,
            )
            for entry in message.entries
        ),
        next_number=message.next_number,
        first_token_count=message.first_token_count,
        appended_token_count=message.appended_token_count,
        append_count=message.append_count,
        first_text_counts={Rebase(reason): count for reason, count in message.first_text_counts.items()},
    )


def ledger_message(request: pb.BuildContextRequest, turn: Turn, space_ids: Iterable[str]) -> ledgers_pb2.ContextLedger:
    """Return the ledger after a turn of a request that reached some spaces."""
    after = turn.ledger
    return ledgers_pb2.ContextLedger(
        ledger_id=request.ledger_id,
        revision=after.revision,
        session_id=request.session_id,
        subject_id=subject_of(request.recall),
        entries=[
            ledgers_pb2.LedgerEntry(
                kind=_KINDS[entry.kind],
                item_id=entry.item_id,
                revision=entry.revision,
                number=entry.number,
                state=cast("ledgers_pb2.LedgerEntryState", int(entry.state)),
                digest=entry.digest,
                max_characters=entry.max_characters,
                turn=entry.turn,
                change=entry.is_change,
                page_place=entry.page_place,
            )
            for entry in after.entries
        ],
        next_number=after.next_number,
        first_token_count=after.first_token_count,
        appended_token_count=after.appended_token_count,
        append_count=after.append_count,
        first_text_counts={int(reason): count for reason, count in after.first_text_counts.items()},
        salt=after.salt,
        reader_digest=reader_digest(request, after.salt),
        request_id=request.request_id,
        request_digest=request_digest(request, after.salt) if request.request_id else b"",
        rebase=turn.rebase,
        space_ids=space_ids,
    )


def write_turn(response: pb.BuildContextResponse, turn: Turn) -> None:
    """Write into a response what a turn has beside its text and citations."""
    response.ledger_revision = turn.ledger.revision
    response.rebase = cast("pb.RebaseReason", int(turn.rebase))
    response.cache_breakpoints.extend(turn.cache_breakpoints)
    response.prompt_token_count = turn.prompt_token_count
    for number, change in turn.withdrawals:
        response.withdrawals.add(number=number, reason=cast("recall_pb2.KnownItemState", int(change)))


def known_items(stored: Ledger, *, is_repeat: bool) -> list[recall_pb2.KnownItem]:
    """Return the memories and messages that the texts show; for a repeat those of the last turn, to be read whole."""
    return [
        recall_pb2.KnownItem(
            kind=_INDEXED_KINDS[entry.kind], item_id=entry.item_id, revision=0 if is_repeat else entry.revision
        )
        for entry in stored.sent
        if entry.kind in _INDEXED_KINDS and (not is_repeat or entry.turn == stored.revision)
    ]


def reader_digest(request: pb.BuildContextRequest, salt: bytes) -> bytes:
    """Return the digest of what every item of the texts must fit: reader, session, branches, format and budget."""
    recall = request.recall
    reader = pb.BuildContextRequest(
        recall=pb.RecallRequest(
            subject_id=subject_of(recall), branches=sorted(recall.branches), min_trust=recall.min_trust, filter={}
        ),
        token_budget=request.token_budget,
        format=request.format,
        order=request.order,
        session_id=request.session_id,
    )
    reader.recall.filter.agent_id = recall.filter.agent_id
    if recall.filter.HasField("visible_to"):
        reader.recall.filter.visible_to.CopyFrom(recall.filter.visible_to)
    return _digest(reader, salt)


def request_digest(request: pb.BuildContextRequest, salt: bytes) -> bytes:
    """Return the digest of a request without its request_id."""
    same = pb.BuildContextRequest()
    same.CopyFrom(request)
    same.request_id = ""
    return _digest(same, salt)


def _digest(message: pb.BuildContextRequest, salt: bytes) -> bytes:
    data = message.SerializeToString(deterministic=True)
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=salt).digest()
