"""Word-by-word difference of two texts, with bounded work for any input. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

# Longer texts are returned without marked differences.
_MAX_WORDS = 600
# Most pairs of equal words that are compared; repeated words make many.
_MAX_PAIRS = 40_000
_TOKENS = re.compile(r"\S+|\s+")

# A text in parts, each with whether the other text lacks it.
MarkedText = Sequence[tuple[str, bool]]


def mark_differences(first: str, second: str) -> tuple[MarkedText, MarkedText]:
    """Return both texts in parts, each with whether the other text lacks it."""
    texts = _TOKENS.findall(first), _TOKENS.findall(second)
    a, b = ([at for at, token in enumerate(tokens) if not token.isspace()] for tokens in texts)
    if len(a) > _MAX_WORDS or len(b) > _MAX_WORDS:
        return [(first, False)], [(second, False)]
    common = _common([texts[0][at] for at in a], [texts[1][at] for at in b])
    return (
        _parts(texts[0], set(a) - {a[i] for i, _ in common}),
        _parts(texts[1], set(b) - {b[j] for _, j in common}),
    )


def _common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return a longest common subsequence as pairs of indices (Hunt and Szymanski, 1977).

    With more than _MAX_PAIRS pairs, only the common prefix and suffix count.
    """
    prefix, suffix = 0, 0
    while prefix < min(len(a), len(b)) and a[prefix] == b[prefix]:
        prefix += 1
    while suffix < min(len(a), len(b)) - prefix and a[-1 - suffix] == b[-1 - suffix]:
        suffix += 1
    pairs = [(i, i) for i in range(prefix)]
    pairs += [(len(a) - suffix + i, len(b) - suffix + i) for i in range(suffix)]
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for j in range(len(b) - suffix - 1, prefix - 1, -1):
        positions[b[j]].append(j)
    middle = range(prefix, len(a) - suffix)
    if sum(len(positions[a[i]]) for i in middle) <= _MAX_PAIRS:
        pairs += _longest([(i, j) for i in middle for j in positions[a[i]]])
    return pairs


def _longest(pairs_in_order: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest chain of pairs that increases in both indices. Equal first indices come in falling order."""
    # For each chain length: the least last second index, and the number of that pair.
    last_indices: list[int] = []
    last_pairs: list[int] = []
    # For each pair, the number of the pair before it in its chain; -1 for none.
    predecessors: list[int] = []
    for number, (_, j) in enumerate(pairs_in_order):
        length = bisect_left(last_indices, j)
        predecessors.append(last_pairs[length - 1] if length else -1)
        last_indices[length : length + 1] = [j]
        last_pairs[length : length + 1] = [number]
    chain: list[tuple[int, int]] = []
    at = last_pairs[-1] if last_pairs else -1
    while at >= 0:
        chain.append(pairs_in_order[at])
        at = predecessors[at]
    return chain


def _parts(tokens: Sequence[str], different: set[int]) -> MarkedText:
    # Mark the spaces between two differing words as well.
    between = {at + 1 for at in different if at + 2 in different}
    runs = groupby(range(len(tokens)), lambda at: at in different or at in between)
    return [("".join(tokens[at] for at in run), differs) for differs, run in runs]
