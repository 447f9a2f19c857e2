"""Late interaction: which items are compared by their tokens, and what a token of the query counts. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_recall.embedded_model.token_vectors import QueryTokens, max_similarities
from skein_recall.search.expansion import word_of_stem
from skein_recall.search.query_terms import QueryTerms

# The best items by all other signals, whatever the limit, so that a larger one changes no earlier hit. A hundred would
# find no more of LoCoMo's evidence.
COMPARED_ITEMS: Final = 50
# Tokens of the query that are compared, those of the greatest weight.
_MAX_TOKENS: Final = 64
# Of stop words and punctuation.
_MIN_WEIGHT: Final = 0.1


def compare_tokens(
    query: QueryTokens,
    text: str,
    terms: QueryTerms,
    codes: Mapping[UUID, NDArray[np.int8]],
) -> dict[UUID, float]:
    """Return the late interaction of a query with items, 0 to 1, by item. `terms` are those of the `text`."""
    weights = token_weights(query.words, text, terms)
    best = np.sort(np.argsort(-weights, kind="stable")[:_MAX_TOKENS])
    similarities = max_similarities(query.vectors[best], weights[best], [*codes.values()])
    return {
        item_id: similarity
        for item_id, similarity in zip(codes, similarities.tolist(), strict=True)
        if not math.isnan(similarity)
    }


def token_weights(words: Sequence[str], text: str, terms: QueryTerms) -> NDArray[np.float64]:
    """Return what each token counts, by its word: the inverse document frequency of the term that the word is."""
    weights: dict[str, float] = {}
    for term in terms.terms:
        word = word_of_stem(term.term, text).casefold()
        weights[word] = max(weights.get(word, 0.0), term.idf * term.factor)
    return np.array([max(_MIN_WEIGHT, weights.get(word, 0.0)) for word in words])
