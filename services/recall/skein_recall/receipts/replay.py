"""Replays answers: the search of a receipt, run again on what it saw, and compared with the receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit import recall_receipts
from skein_kit.access_log.writer import AccessLogKeys
from skein_kit.calls.call import current_call, narrow_spaces
from skein_kit.errors import NotKnownThen
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.recall_receipts import SignedReceipt
from skein_recall.errors import ModelNotFound, QueryTextMismatch, QueryTextNeeded, QueryTextOfAnother
from skein_recall.models.model import ModelRegistry
from skein_recall.receipts import convert
from skein_recall.receipts.reader import ReceiptReader
from skein_recall.receipts.store import ReceiptStore
from skein_recall.search import convert as search_convert
from skein_recall.search.model import RecallResult, SearchHit, SearchOptions, SearchPins
from skein_recall.search.searcher import RecallSearcher
from skein_recall.search.store import QueryStore

if TYPE_CHECKING:
    from skein_recall.search.model import ItemRow

# A query embedded again by another kind of processor has cosines that differ by up to 0.00001.
TOLERANCE = 2e-5
# BM25 has no upper bound, and receipts have 24 bits of it.
_RELATIVE_TOLERANCE = 1e-5
# Calls that were under way at a search may commit while it is replayed, and are then left out by a further attempt.
_MAX_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """A replayed answer."""

    response: pb.RecallResponse
    is_identical: bool
    gaps: Sequence[pb.ReplayGap] = ()
    differing_ids: Sequence[UUID] = ()
    is_query_unverified: bool = False


@dataclass(kw_only=True, slots=True)
class _Items:
    """The items of a receipt, as they were."""

    # By id, in the order of the receipt.
    rows: dict[UUID, ItemRow] = field(default_factory=dict)
    missing_ids: list[UUID] = field(default_factory=list)


class RecallReplayer:
    """Replays the answers of a tenant's receipts."""

    def __init__(
        self,
        reader: ReceiptReader,
        receipts: ReceiptStore,
        searcher: RecallSearcher,
        store: QueryStore,
        registry: ModelRegistry,
        keys: AccessLogKeys,
    ) -> None:
        self._reader = reader
        self._receipts = receipts
        self._registry = registry
        self._searcher = searcher
        self._store = store
        self._keys = keys

    async def replay(
        self, caller: Caller, receipt_id: UUID, query: str, embedding: Sequence[float], *, seconds: float
    ) -> Replay:
        """Replay an answer within `seconds`.

        Raises ReceiptNotFound, ReceiptAltered, QueryTextNeeded, QueryTextOfAnother, QueryTextMismatch, and
        HistoryNotKept.
        """
        signed, content = await self._reader.read(caller, receipt_id)
        # Today's rights apply, and what the caller sees since then was not searched.
        narrow_spaces(current_call(), convert.space_ids(content))
        try:
            unseen_times = await self._read_unseen_times(signed.tenant_id, content)
            for _ in range(_MAX_ATTEMPTS):
                replay = await self._search(caller, signed, content, query, embedding, unseen_times, seconds=seconds)
                if replay.is_identical:
                    break
                earlier_times, unseen_times = unseen_times, await self._read_unseen_times(signed.tenant_id, content)
                if set(unseen_times) <= set(earlier_times):
                    break
        except NotKnownThen:
            gap = pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_HISTORY_ENDED)
            replay = Replay(response=convert.bare_response(content, {}), is_identical=False, gaps=[gap])
        return replace(replay, gaps=[*replay.gaps, *await self._context_gaps(signed, content)])

    async def _search(
        self,
        caller: Caller,
        signed: SignedReceipt,
        content: pb.ReceiptContent,
        query: str,
        embedding: Sequence[float],
        unseen_times: tuple[datetime, ...],
        *,
        seconds: float,
    ) -> Replay:
        """Replay an answer without what was recorded at `unseen_times`. Raises NotKnownThen."""
        pins = convert.pins(content, unseen_times)
        items = await self._read_items(signed.tenant_id, content, pins)
        gaps = await self._item_gaps(signed.tenant_id, items.missing_ids)
        if signed.request is not None and (
            altered := convert.altered_ids(content, signed.request[: recall_receipts.SALT_BYTES], items.rows)
        ):
            gaps.append(pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_TEXTS_ALTERED, item_ids=map(str, altered)))
        receipt_request = signed.receipt_request
        if receipt_request is None:
            gaps.append(pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_REQUEST_ERASED))
        elif not convert.is_formula_known(content):
            gaps.append(pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_FORMULA_CHANGED, name=content.formula))
        else:
            request = receipt_request.request
            is_verified = await self._complete(caller, request, signed, content, query, embedding)
            try:
                pins = convert.pins(
                    content,
                    unseen_times,
                    term_documents=receipt_request.term_documents,
                    is_incomplete=bool(items.missing_ids),
                )
                then = convert.position_time(content)
                zone = await self._searcher.zone_of_days(signed.tenant_id, search_convert.named_days(request), then)
                query_ = replace(search_convert.recall_query(request, zone, at=now()), as_of_time=then)
                # Purged items left room for others.
                query_ = replace(query_, limit=query_.limit + len(items.missing_ids))
                result = await self._searcher.recall(signed.tenant_id, query_, seconds=seconds, pins=pins)
            except ModelNotFound:
                gaps.append(pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_MODEL_DROPPED, name=content.model))
            else:
                return _compared(content, items, result, gaps, is_query_unverified=not is_verified)
        response = convert.bare_response(content, items.rows)
        return Replay(response=response, is_identical=False, gaps=gaps)

    async def _read_unseen_times(self, tenant_id: UUID, content: pb.ReceiptContent) -> tuple[datetime, ...]:
        """Return the times at which concurrent calls recorded what the search did not see."""
        models = await self._registry.models(tenant_id)
        model = models.by_name.get(content.model, models.active)
        return await self._receipts.list_unseen_times(
            tenant_id, model, convert.position(content), convert.position_time(content)
        )

    async def _read_items(self, tenant_id: UUID, content: pb.ReceiptContent, pins: SearchPins) -> _Items:
        kinds = convert.kinds(content)
        options = SearchOptions(as_of_time=convert.position_time(content), pins=pins)
        async with self._store.transaction(tenant_id, options) as tx:
            await tx.policy()
            rows = await tx.items(kinds, pins.at, show_superseded=True)
        items = _Items()
        for item_id in kinds:
            if item_id in rows:
                items.rows[item_id] = rows[item_id]
            else:
                items.missing_ids.append(item_id)
        return items

    async def _item_gaps(self, tenant_id: UUID, missing_ids: Sequence[UUID]) -> list[pb.ReplayGap]:
        """Return why items are missing: cold storage keeps no history."""
        if not missing_ids:
            return []
        archived_ids = await self._receipts.list_archived(tenant_id, missing_ids)
        ids_of = {
            pb.REPLAY_GAP_REASON_ITEMS_PURGED: [id_ for id_ in missing_ids if id_ not in archived_ids],
            pb.REPLAY_GAP_REASON_ITEMS_ARCHIVED: [id_ for id_ in missing_ids if id_ in archived_ids],
        }
        return [pb.ReplayGap(reason=reason, item_ids=map(str, ids)) for reason, ids in ids_of.items() if ids]

    async def _context_gaps(self, signed: SignedReceipt, content: pb.ReceiptContent) -> list[pb.ReplayGap]:
        """Return the gap of a context's profile facts in cold storage that were no hits.

        A replay of the search is identical without them.
        """
        hit_ids = set(convert.item_ids(content))
        fact_ids = [id_ for id_ in convert.fact_ids(signed) if id_ not in hit_ids]
        archived_ids = await self._receipts.list_archived(signed.tenant_id, fact_ids) if fact_ids else set()
        ids = [str(id_) for id_ in fact_ids if id_ in archived_ids]
        return [pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_ITEMS_ARCHIVED, item_ids=ids)] if ids else []

    async def _complete(
        self,
        caller: Caller,
        request: pb.RecallRequest,
        signed: SignedReceipt,
        content: pb.ReceiptContent,
        query: str,
        embedding: Sequence[float],
    ) -> bool:
        """Add the text to a request; return whether it is known to be that of the receipt."""
        if signed.query is not None:
            request.query = signed.query
            if query and query != signed.query:
                raise QueryTextMismatch
            return True
        # The search itself would confirm a guess, whether or not its digest is compared.
        if convert.principal(content) != caller.principal:
            raise QueryTextOfAnother
        if not query and not embedding:
            raise QueryTextNeeded
        request.query = query
        request.embedding.extend(embedding)
        secret = await self._keys.get(signed.tenant_id)
        if recall_receipts.query_key_check(secret) != content.query_key_check:
            return False
        text = convert.query_text(query, request.embedding)
        if recall_receipts.query_digest(text, caller.principal, secret) != content.query_digest:
            raise QueryTextMismatch
        return True


def _compared(
    content: pb.ReceiptContent, items: _Items, result: RecallResult, gaps: list[pb.ReplayGap], *,
    is_query_unverified: bool,
) -> Replay:  # fmt: skip
    """Return the answer of a receipt with what its search found when it was run again."""
    found = {hit.item.item_id: hit for hit in result.hits}
    expected_ids = convert.item_ids(content)
    differing: list[UUID] = []
    for index, item_id in enumerate(expected_ids):
        hit = found.get(item_id)
        if item_id in items.rows and (hit is None or not _is_same(content, index, hit)):
            differing.append(item_id)
    present = [item_id for item_id in expected_ids if item_id in items.rows]
    other_count = result.purged_count - (len(expected_ids) - len(present))
    if len(present) == len(expected_ids):
        # The answer of then had the hits that fit a response too.
        fitting = result.hits[: len(search_convert.response(pb.RecallResponse, result).hits)]
        others = [hit for hit in fitting if hit.item.item_id not in set(expected_ids)]
        # Approximate codes miss some items, which an exact search finds.
        is_approximate = content.dense_path == "approximate"
        differing += [] if is_approximate else [hit.item.item_id for hit in others]
        differing += _misplaced(content, found, present)
    if differing and other_count > 0:
        gaps = [*gaps, pb.ReplayGap(reason=pb.REPLAY_GAP_REASON_OTHERS_PURGED, count=other_count)]
    response = search_convert.response(
        pb.RecallResponse,
        replace(
            result, hits=[found[item_id] for item_id in present if item_id in found], dense_path=content.dense_path
        ),
    )
    messages = {UUID(message.item_id): message for message in response.hits}
    bare = convert.bare_response(content, items.rows)
    for message in bare.hits:
        if (complete := messages.get(UUID(message.item_id))) is not None:
            complete.score = message.score
            message.CopyFrom(complete)
    response.ClearField("hits")
    response.hits.extend(bare.hits)
    response.pending_embedding_count = content.pending_embedding_count
    response.filter_truncated, response.nothing_relevant = content.filter_truncated, content.nothing_relevant
    return Replay(
        response=response,
        is_identical=not gaps and not differing and len(present) == len(expected_ids),
        gaps=gaps,
        differing_ids=list(dict.fromkeys(differing)),
        is_query_unverified=is_query_unverified,
    )


def _misplaced(content: pb.ReceiptContent, found: dict[UUID, SearchHit], ids: Sequence[UUID]) -> list[UUID]:
    """Return the items whose order differs by more than rounding."""
    scores = [found[item_id].item.score if item_id in found else None for item_id in ids]
    return [
        ids[index]
        for index in range(1, len(ids))
        if (before := scores[index - 1]) is not None
        and (after := scores[index]) is not None
        and after > before + TOLERANCE
        and content.scores[index] <= content.scores[index - 1]
    ]


def _is_same(content: pb.ReceiptContent, index: int, hit: SearchHit) -> bool:
    """Return whether a hit has the revision, the score and the signals of a receipt, but for rounding."""
    if hit.row["revision"] != content.revisions[index] or abs(hit.item.score - content.scores[index]) > TOLERANCE:
        return False
    flags = content.flags[index]
    if bool(flags & convert.HAS_VECTOR) != (hit.item.similarity is not None):
        return False
    for component in hit.item.components:
        expected = convert.signal(content, component.signal, index)
        if expected is None or abs(component.raw - expected) > TOLERANCE + _RELATIVE_TOLERANCE * abs(expected):
            return False
    return True
