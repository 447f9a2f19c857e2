"""Answers to the bytes that are signed, and receipts to protobuf."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from skein.recall.v1 import recall_pb2 as pb
from skein_kit import recall_receipts
from skein_kit.calls.call import Call
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import id_time, parse_id
from skein_kit.recall_receipts import SignedContext, SignedReceipt
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.models.similarity_scale import COSINE_SCALE, SimilarityScale
from skein_recall.receipts.model import ItemName, PinnedItem, RecordedAnswer, UnsignedReceipt
from skein_recall.search import convert as search_convert
from skein_recall.search.model import LogPosition, ScoringFormula, SearchHit, SearchPins
from skein_recall.search.weights import KNOWN_VERSIONS, Weights, version_of

if TYPE_CHECKING:
    from skein_recall.search.model import ItemRow

ID_BYTES = 16
# The signals in the order of the weights.
SIGNALS = ("dense", "context", "lexical", "reply", "statement", "length", "time", "date", "tokens")
# Signals whose measured values are numbers, each with a list of its own.
NUMBERS = ("dense", "context", "lexical", "reply", "length", "date", "tokens", "trust", "newer")
# Of a hit that lost or gained nothing by them, neither is listed.
ADJUSTMENTS = ("trust", "newer")
IS_MESSAGE, HAS_VECTOR, WORDS_SEARCHED, HAS_WORDS, IS_STATEMENT, MENTIONS_TIME = (1 << bit for bit in range(6))
_TEXT_COLUMNS = ("content", "title", "data", "name")
_DEFAULT_LANGUAGE = "english"


def unsigned_receipt(answer: RecordedAnswer, query_secret: bytes, *, seconds: float) -> UnsignedReceipt:
    """Make the receipt of an answer. `query_secret` keys the digest of a text that is not kept."""
    request = pb.RecallRequest()
    request.CopyFrom(answer.request)
    query = request.query
    request.ClearField("query")
    has_embedding = bool(request.embedding)
    if not answer.keeps_query:
        request.ClearField("embedding")
    receipt_request = pb.ReceiptRequest(request=request, term_documents=_term_documents(answer))
    salted = secrets.token_bytes(recall_receipts.SALT_BYTES) + receipt_request.SerializeToString(deterministic=True)
    content = _content(answer)
    salt = salted[: recall_receipts.SALT_BYTES]
    content.text_digests = b"".join(text_digest(salt, hit.item.item_id, hit.row) for hit in _shown_hits(answer))
    if answer.keeps_query:
        kept_query: str | None = query
    else:
        kept_query = None
        text = query_text(query, answer.request.embedding if has_embedding else ())
        content.query_digest = recall_receipts.query_digest(text, answer.principal, query_secret)
        content.query_key_check = recall_receipts.query_key_check(query_secret)
    content.request_digest = recall_receipts.request_digest(salted, kept_query)
    return UnsignedReceipt(
        tenant_id=answer.tenant_id,
        receipt_id=answer.receipt_id,
        identity_token=answer.identity_token,
        principal=answer.principal,
        request_id=answer.request_id,
        content=content.SerializeToString(deterministic=True),
        request=salted,
        query=kept_query,
        subject_ids=sorted({str(hit.row["subject_id"]) for hit in _shown_hits(answer) if hit.row["subject_id"]}),
        create_seconds=seconds,
    )


def unsigned_context(record: pb.ContextRecord, call: Call, tenant_id: UUID, *, seconds: float) -> UnsignedReceipt:
    """Make the receipt of a context, in the name of the caller of the call that recorded it."""
    salted_inputs = record.salt + record.inputs.SerializeToString(deterministic=True)
    statement = pb.ContextStatement()
    statement.CopyFrom(record.statement)
    statement.inputs_digest = hashlib.sha256(salted_inputs).digest()
    return UnsignedReceipt(
        tenant_id=tenant_id,
        receipt_id=UUID(record.receipt_id),
        identity_token=call.identity_token,
        # A batch of records has the identity of one of their callers.
        principal="",
        request_id=record.request_id,
        content=statement.SerializeToString(deterministic=True),
        request=salted_inputs,
        query=None,
        subject_ids=sorted(set(record.subject_ids)),
        create_seconds=seconds,
        is_context=True,
    )


def text_digest(salt: bytes, item_id: UUID, row: ItemRow) -> bytes:
    """Return the digest of what a hit says: of a memory content, title and data, of a message content and name."""
    return recall_receipts.item_text_digest(salt, item_id, [row.get(name) for name in _TEXT_COLUMNS])


def altered_ids(content: pb.ReceiptContent, salt: bytes, rows: Mapping[UUID, ItemRow]) -> list[UUID]:
    """Return the hits whose texts are not those that were signed, by rank."""
    size, digests = recall_receipts.TEXT_DIGEST_BYTES, content.text_digests
    return [
        item_id
        for index, item_id in enumerate(item_ids(content))
        if item_id in rows
        and (expected := digests[index * size : (index + 1) * size])
        and text_digest(salt, item_id, rows[item_id]) != expected
    ]


def query_text(query: str, embedding: Iterable[float]) -> str:
    """Return the text whose digest stands for a query and the vector that the caller brought, if any."""
    vector = pb.Embedding(values=embedding).SerializeToString().hex()
    return f"{query}\0{vector}" if vector else query


def principal(content: pb.ReceiptContent) -> str:
    """Return the principal of a receipt."""
    id_ = content.principal_id
    return f"{content.principal_kind}:{UUID(bytes=id_)}" if id_ else content.principal_kind


def item_ids(content: pb.ReceiptContent) -> list[UUID]:
    """Return the ids of the hits, best first."""
    return _ids(content.item_ids)


def entity_ids(content: pb.ReceiptContent) -> list[UUID]:
    """Return the ids of the entities whose names the query has."""
    return _ids(content.entity_ids)


def named_items(signed: SignedReceipt, content: pb.ReceiptContent) -> set[ItemName]:
    """Return all items that a receipt names: hits, entities, and of its context facts, messages, blocks and profile.

    The inputs of a context are gone after an erasure.
    """
    items: set[ItemName] = {*item_ids(content), *entity_ids(content), *fact_ids(signed)}
    inputs = None if signed.context is None else signed.context.inputs
    if inputs is not None:
        items.update(_ids(inputs.message_ids))
        items.update(_pinned("block", pin) for pin in inputs.blocks)
        if inputs.HasField("profile"):
            items.add(_pinned("profile", inputs.profile))
    return items


def fact_ids(signed: SignedReceipt) -> list[UUID]:
    """Return the ids of a context's profile facts; none without a context, or after an erasure."""
    inputs = None if signed.context is None else signed.context.inputs
    return [] if inputs is None else list(map(UUID, inputs.page.memory_ids))


def _pinned(kind: str, pin: pb.ItemPin) -> PinnedItem:
    return PinnedItem(kind=kind, item_id=pin.item_id, create_time=pin.create_time.ToDatetime(UTC))


def space_ids(content: pb.ReceiptContent) -> list[UUID]:
    """Return the spaces that the search reached: the default one, where the tenant had no others."""
    return _ids(content.space_ids) or [DEFAULT_SPACE]


def kinds(content: pb.ReceiptContent) -> dict[UUID, str]:
    """Return the kind of each hit by its id, best first."""
    return {
        item_id: "message" if flag & IS_MESSAGE else "memory"
        for item_id, flag in zip(item_ids(content), content.flags, strict=True)
    }


def search_time(content: pb.ReceiptContent) -> datetime:
    """Return when the search began."""
    return _timestamp(content.time_microseconds).ToDatetime(UTC)


def position_time(content: pb.ReceiptContent) -> datetime:
    """Return when the search saw the last write."""
    return _timestamp(content.time_microseconds + content.duration_microseconds).ToDatetime(UTC)


def position(content: pb.ReceiptContent) -> LogPosition:
    """Return what the search saw."""
    return LogPosition(start=content.snapshot_start, size=content.snapshot_size, gaps=tuple(content.snapshot_gaps))


def signal(content: pb.ReceiptContent, name: str, index: int) -> float | None:
    """Return the measured value of a signal of a hit; None where the receipt has none."""
    if name == "statement":
        return float(bool(content.flags[index] & IS_STATEMENT))
    if name == "time":
        return float(bool(content.flags[index] & MENTIONS_TIME))
    column = getattr(content, name)
    return float(column[index]) if column else None


def is_formula_known(content: pb.ReceiptContent) -> bool:
    """Return whether this version ranks by the formula of a receipt."""
    return version_of(content.formula) in KNOWN_VERSIONS


def pins(
    content: pb.ReceiptContent,
    unseen_times: tuple[datetime, ...],
    *,
    term_documents: Iterable[int] = (),
    is_incomplete: bool = False,
) -> SearchPins:
    """Return what a replay of a receipt takes from it.

    `term_documents` are those of its request; none after an erasure, when there is no search.
    `is_incomplete`: items of the answer were purged, by which the relevance of the others was measured.
    """
    name = content.formula.rpartition("-")[0]
    weights = Weights(**{key: _shortest(value) for key, value in zip(SIGNALS, content.weights, strict=False)})
    return SearchPins(
        at=search_time(content),
        unseen_times=unseen_times,
        model=content.model,
        formula=ScoringFormula(
            weights=weights,
            fusion="rrf" if name == "ranks" else "scores",
            name=content.formula,
            is_calibrated=content.calibrated and not is_incomplete,
            min_relevance=_shortest(content.min_relevance),
            min_best_relevance=_shortest(content.min_best_relevance),
            asks_for_all=content.asks_for_all,
        ),
        scale=SimilarityScale(_shortest(content.similarity_floor), _shortest(content.similarity_ceiling))
        if content.model
        else COSINE_SCALE,
        language=content.search_language or _DEFAULT_LANGUAGE,
        has_vector=not content.dense_unavailable,
        corpus_documents=content.corpus_documents,
        corpus_length=content.corpus_length,
        term_documents=tuple(term_documents),
        entity_ids=frozenset(entity_ids(content)),
    )


def bare_response(content: pb.ReceiptContent, rows: Mapping[UUID, ItemRow]) -> pb.RecallResponse:
    """Return the hits of a receipt with the items that are left of it, without a search."""
    response = pb.RecallResponse(
        model=content.model,
        dense_path=content.dense_path,
        dense_unavailable=content.dense_unavailable,
        formula=content.formula,
        pending_embedding_count=content.pending_embedding_count,
    )
    for (item_id, kind), score in zip(kinds(content).items(), content.scores, strict=True):
        if item_id in rows:
            response.hits.append(search_convert.bare_hit(item_id, kind, rows[item_id], score))
    return response


def receipt(signed: SignedReceipt, content: pb.ReceiptContent, *, has_counts: bool) -> pb.RecallReceipt:
    """Convert a verified receipt.

    Without `has_counts` it leaves out how many documents the tenant's spaces have, and the signed bytes that say so.
    """
    request = signed.receipt_request
    message = pb.RecallReceipt(
        receipt_id=str(signed.receipt_id),
        tenant_id=str(signed.tenant_id),
        create_time=_create_time(signed.receipt_id, content),
        statement=content,
        content=signed.content,
        signature=signed.signature,
        key_id=signed.key_id,
        query=signed.query or "",
        request=None if request is None else request.request,
        term_documents=() if request is None else request.term_documents,
        request_erased=request is None,
        document=signed.file(),
        principal=principal(content),
        hits=_hits(content),
        context=None if signed.context is None else _context(signed.context),
    )
    if not has_counts:
        for name in ("content", "signature", "document", "term_documents"):
            message.ClearField(name)
        for name in ("corpus_documents", "corpus_length"):
            message.statement.ClearField(name)
    return message


def _context(signed: SignedContext) -> pb.ContextReceipt:
    return pb.ContextReceipt(
        statement=signed.statement,
        content=signed.content,
        signature=signed.signature,
        key_id=signed.key_id,
        inputs=signed.inputs,
        inputs_erased=signed.salted_inputs is None,
        salt=(signed.salted_inputs or b"")[: recall_receipts.SALT_BYTES],
    )


def _create_time(receipt_id: UUID, content: pb.ReceiptContent) -> Timestamp:
    """Return when the search began; if it was for another time, when the receipt was made."""
    is_present = content.duration_microseconds > 0
    return _timestamp(content.time_microseconds if is_present else _microseconds(id_time(receipt_id)))


def summary(signed: SignedReceipt, content: pb.ReceiptContent | None) -> pb.RecallReceiptSummary:
    """Convert a receipt of a list; `content` is None for an altered one."""
    message = pb.RecallReceiptSummary(
        receipt_id=str(signed.receipt_id), create_time=to_timestamp(id_time(signed.receipt_id))
    )
    if content is None:
        message.altered = True
        return message
    message.principal = principal(content)
    message.query = signed.query or ""
    message.request_erased = signed.request is None
    message.hit_count = len(content.revisions)
    message.model, message.formula = content.model, content.formula
    return message


def _hits(content: pb.ReceiptContent) -> list[pb.ReceiptHit]:
    names: tuple[str, ...] = (*SIGNALS, *ADJUSTMENTS) if content.weights else NUMBERS
    if not any(flag & MENTIONS_TIME for flag in content.flags):
        # Without one, the receipt does not say whether the query asks for a time.
        names = tuple(name for name in names if name != "time")
    hits = []
    for index, (item_id, kind) in enumerate(kinds(content).items()):
        hit = pb.ReceiptHit(
            kind=pb.ITEM_KIND_MESSAGE if kind == "message" else pb.ITEM_KIND_MEMORY,
            item_id=str(item_id),
            revision=content.revisions[index],
            score=content.scores[index],
        )
        for name in names:
            raw = signal(content, name, index)
            if raw is not None and not (name in ADJUSTMENTS and raw == _neutral(name)):
                hit.signals.add(signal=name, raw=raw)
        hits.append(hit)
    return hits


def _content(answer: RecordedAnswer) -> pb.ReceiptContent:
    result, basis = answer.result, answer.result.basis
    if basis is None:
        message = "the search was not for a receipt"
        raise ValueError(message)
    kind, _, id_text = answer.principal.partition(":")
    principal_id = parse_id(id_text)
    formula, terms = basis.formula, basis.terms
    content = pb.ReceiptContent(
        principal_kind=answer.principal if principal_id is None else kind,
        principal_id=b"" if principal_id is None else principal_id.bytes,
        time_microseconds=_microseconds(basis.at),
        duration_microseconds=max(0, _microseconds(basis.position_time) - _microseconds(basis.at)),
        snapshot_start=basis.position.start,
        snapshot_size=basis.position.size,
        snapshot_gaps=basis.position.gaps,
        model=result.model,
        formula=formula.name,
        dense_path=result.dense_path,
        min_relevance=formula.min_relevance,
        min_best_relevance=formula.min_best_relevance,
        dense_unavailable=result.dense_unavailable,
        pending_embedding_count=result.pending_count,
        entity_ids=b"".join(entity_id.bytes for entity_id in basis.entity_ids),
        filter_truncated=result.filter_truncated,
        nothing_relevant=result.nothing_relevant,
        asks_for_all=result.asks_for_all,
        calibrated=formula.is_calibrated,
        space_ids=b"".join(space_id.bytes for space_id in sorted(answer.space_ids or ())),
    )
    if not formula.name.startswith(("keyword", "semantic")):
        content.weights.extend(getattr(formula.weights, signal) for signal in SIGNALS)
    if result.model:
        content.similarity_floor, content.similarity_ceiling = basis.scale
    if basis.language != _DEFAULT_LANGUAGE:
        content.search_language = basis.language
    if terms is not None:
        content.corpus_documents = terms.corpus_documents
        content.corpus_length = round(terms.mean_length * terms.corpus_documents)
    _write_hits(content, _shown_hits(answer))
    return content


def _term_documents(answer: RecordedAnswer) -> list[int]:
    """Return the documents of each searched term, in order of the terms."""
    basis = answer.result.basis
    terms = None if basis is None else basis.terms
    return [] if terms is None else [terms.counts[term] for term in sorted(terms.counts)]


def _shown_hits(answer: RecordedAnswer) -> Sequence[SearchHit]:
    return answer.result.hits[: answer.hit_count]


def _write_hits(content: pb.ReceiptContent, hits: Sequence[SearchHit]) -> None:
    """Write one value for each hit into each list; a signal that no hit has keeps an empty one."""
    flags = bytearray()
    columns: dict[str, list[float]] = {}
    for index, hit in enumerate(hits):
        item = hit.item
        flag = (
            IS_MESSAGE * (item.kind == "message")
            | HAS_VECTOR * (item.similarity is not None)
            | WORDS_SEARCHED * (item.has_words is not None)
            | HAS_WORDS * bool(item.has_words)
        )
        for component in item.components:
            if component.signal == "statement":
                flag |= IS_STATEMENT * bool(component.raw)
            elif component.signal == "time":
                flag |= MENTIONS_TIME * bool(component.raw)
            else:
                column = columns.setdefault(component.signal, [])
                column.extend([_neutral(component.signal)] * (index - len(column)))
                column.append(component.raw)
        flags.append(flag)
    content.item_ids = b"".join(hit.item.item_id.bytes for hit in hits)
    content.revisions.extend(hit.row["revision"] for hit in hits)
    content.flags = bytes(flags)
    content.scores.extend(hit.item.score for hit in hits)
    for name, column in columns.items():
        column.extend([_neutral(name)] * (len(hits) - len(column)))
        values = [round(value) for value in column] if name == "length" else column
        getattr(content, name).extend(values)


def _neutral(signal: str) -> float:
    """Return the value of a hit that has no such signal: only some hits lose a part of their score by their trust."""
    return 1.0 if signal == "trust" else 0.0


def _shortest(value: float) -> float:
    """Return the shortest number that a float of 32 bits stands for: 0.2, not 0.20000000298."""
    return float(str(np.float32(value)))


def _ids(joined: bytes) -> list[UUID]:
    return [UUID(bytes=joined[start : start + ID_BYTES]) for start in range(0, len(joined), ID_BYTES)]


def _microseconds(at: datetime) -> int:
    stamp = Timestamp()
    stamp.FromDatetime(at)
    return stamp.ToMicroseconds()


def _timestamp(microseconds: int) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(microseconds)
    return stamp
