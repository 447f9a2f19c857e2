"""Search by words alone: items that contain a word of the question. It knows no vectors and no neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_recall.search.result import SignalMatches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_recall.models.model import EmbeddingModel
    from skein_recall.query.filter import Filter
    from skein_recall.query.model import Query
    from skein_recall.query.store import QueryTransaction


class KeywordSearch:
    """One question in one transaction."""

    def __init__(self, reading: QueryTransaction, model: EmbeddingModel, question: Query, language: str) -> None:
        self._reading = reading
        # It names a table of vectors, which the statement reads for no item here.
        self._model = model
        self._question = question
        self._language = language

    async def gather(self, filter_: Filter, kinds: Sequence[str], depth: int, *, is_first: bool) -> SignalMatches:
        """Find up to `depth` items that contain a word of the question, and measure each by all words.

        `is_first` says that nothing was gathered before: then the lists of the rarest words are enough when they find
        as many as the question's limit. Later gatherings read more lists, because too few of those may be shown.
        """
        terms = await self._reading.terms(self._question.text, kinds, self._language)
        if not terms.terms:
            return SignalMatches(by_words={})
        least = self._question.limit if is_first else depth
        matches = await self._reading.matching(terms, kinds, filter_, count=depth, least=least)
        item_ids = {row["item_id"] for row in matches}
        if filter_.where is not None and item_ids:
            item_ids = await self._reading.passing(item_ids, filter_.where)
        found = await self._reading.measured(self._model, None, terms, kinds, item_ids, (), reach=0)
        bm25s = terms.bm25(found.frequencies, found.lengths).tolist()
        measured = zip(found.item_ids, found.kinds, bm25s, strict=True)
        return SignalMatches(
            by_words={item_id: (kind, bm25) for item_id, kind, bm25 in measured if bm25 > 0},
            max_bm25=terms.max_bm25,
            is_cut=len(matches) == depth or (is_first and len(matches) >= least and len(terms.portions()) > 1),
        )
