"""The weights of the signals of a search, and the versions of the formulas that use them. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

# Raised with every change of the formulas, so that scores of different versions are not compared.
VERSION: Final = 7
# Of the fusion of scores where vectors of tokens are compared.
TOKENS_VERSION: Final = 8
# Of the fusion of scores by a further model that relevance is fitted to: it ranks as VERSION does.
OTHER_MODELS_VERSION: Final = 9
# Receipts of the versions before are replayed too, each with its relevances; of the oldest one no newer hit took the
# place of an older one.
OLDEST_VERSION: Final = 4
KNOWN_VERSIONS: Final = frozenset({OLDEST_VERSION, 5, 6, VERSION, TOKENS_VERSION, OTHER_MODELS_VERSION})
# Those that compare tokens.
_TOKENS_VERSIONS: Final = frozenset({6, TOKENS_VERSION})

Fusion: TypeAlias = Literal["scores", "rrf"]


def version_of(formula: str) -> int:
    """Return the version in the name of a formula; 0 where it has none."""
    text = formula.rpartition("-")[2]
    return int(text) if text.isdecimal() else 0


def compares_tokens(formula: str) -> bool:
    """Return whether a formula of this name compares the tokens of the query with those of items."""
    return version_of(formula) in _TOKENS_VERSIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights of the signals; 0 switches one off. Weights of usable signals are scaled to sum to 1."""

    # Cosine of query and item; its mean over the item and its neighbours.
    dense: float = 0.20
    context: float = 0.10
    # BM25 over the words of the item and, with less weight, of its neighbours.
    lexical: float = 0.40
    # Match of the item right before, when that ends with a question.
    reply: float = 0.12
    # The item does not end with a question; it is longer than a phrase.
    statement: float = 0.02
    length: float = 0.05
    # The query asks for a time and the item mentions one.
    time: float = 0.05
    # The query names a date and the item was created near it.
    date: float = 0.15
    # Late interaction: the weighted mean, over the query's tokens, of the greatest cosine with a token of the item. 0
    # where no tokens are compared.
    tokens: float = 0.0

    def __post_init__(self) -> None:
        weights = [getattr(self, signal) for signal in self.__dataclass_fields__]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise ValueError("A weight is a finite number that is not negative.")

    def for_meaning(self, share: float) -> Weights:
        """Return the weights with a share of those of the signals by meaning."""
        return replace(self, dense=self.dense * share, context=self.context * share, tokens=self.tokens * share)


DEFAULT_WEIGHTS: Final = Weights()
# The default where tokens are compared.
TOKENS_WEIGHTS: Final = Weights(tokens=0.20)
SIGNALS: Final = frozenset(Weights.__dataclass_fields__)
