"""The search of the keyword mode: by words alone."""

from __future__ import annotations

from collections.abc import Sequence

from skein_recall.search.model import Filter, Query, SignalMatches
from skein_recall.search.store import QueryTransaction


async def match_keywords(
    tx: QueryTransaction,
    query: Query,
    language: str,
    *,
    filter_: Filter,
    kinds: Sequence[str],
    depth: int,
    is_first: bool,
) -> SignalMatches:
    """Find up to `depth` items that have a word of the query, and measure each by all words.

    The first search of a call stops at the lists of the rarest words if they have as many items as the query's limit.
    Deeper ones read more lists, because too few of those items may be shown.
    """
    terms = await tx.terms(query.text, kinds, language, query.mentions, is_typo=query.is_typo)
    if not terms.terms:
        return SignalMatches(lexical_matches={}, query_terms=terms)
    min_items = query.limit if is_first else depth
    matches = await tx.match_terms(terms, kinds, filter_, count=depth, min_items=min_items)
    item_ids = {row["item_id"] for row in matches}
    if item_ids and (tests := filter_.row_tests(kinds)):
        item_ids = await tx.filter_items(item_ids, tests)
    if not filter_.all_names:
        item_ids |= terms.entity_ids
    items = await tx.measure(terms, kinds, item_ids, (), reach=0)
    bm25s = terms.bm25(items).tolist()
    return SignalMatches(
        lexical_matches={
            item_id: (kind, bm25)
            for item_id, kind, bm25 in zip(items.item_ids, items.kinds, bm25s, strict=True)
            if bm25 > 0
        },
        max_bm25=terms.max_bm25,
        corrected=items.corrected,
        query_terms=terms,
        has_more=len(matches) == depth or (is_first and len(matches) >= min_items and len(terms.attempts()) > 1),
    )
