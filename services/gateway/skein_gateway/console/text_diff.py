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


def mark_differences(one: str, other: str) -> tuple[MarkedText, MarkedText]:
    """Return both texts in parts, each with whether the other text lacks it."""
    texts = _TOKENS.findall(one), _TOKENS.findall(other)
    a, b = ([at for at, token in enumerate(tokens) if not token.isspace()] for tokens in texts)
    if len(a) > _MAX_WORDS or len(b) > _MAX_WORDS:
        return [(one, False)], [(other, False)]
    common = _common([texts[0][at] for at in a], [texts[1][at] for at in b])
    return (
        _parts(texts[0], set(a) - {a[i] for i, _ in common}),
        _parts(texts[1], set(b) - {b[j] for _, j in common}),
    )


def _common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return a longest common subsequence as pairs of indices (Hunt and Szymanski, 1977).

    With more than _MAX_PAIRS pairs, only the common prefix and suffix count.
    """
    begin, end = 0, 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    pairs = [(i, i) for i in range(begin)]
    pairs += [(len(a) - end + i, len(b) - end + i) for i in range(end)]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for j in range(len(b) - end - 1, begin - 1, -1):
        places[b[j]].append(j)
    middle = range(begin, len(a) - end)
    if sum(len(places[a[i]]) for i in middle) <= _MAX_PAIRS:
        pairs += _longest([(i, j) for i in middle for j in places[a[i]]])
    return pairs


def _longest(pairs_in_order: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest chain of pairs that increases in both indices. Equal first indices come in falling order."""
    lasts: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs_in_order):
        length = bisect_left(lasts, j)
        before.append(ends[length - 1] if length else -1)
        lasts[length : length + 1] = [j]
        ends[length : length + 1] = [number]
    chain: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs_in_order[at])
        at = before[at]
    return chain


def _parts(tokens: Sequence[str], different: set[int]) -> MarkedText:
    # Mark the spaces between two differing words as well.
    between = {at + 1 for at in different if at + 2 in different}
    runs = groupby(range(len(tokens)), lambda at: at in different or at in between)
    return [("".join(tokens[at] for at in run), differs) for differs, run in runs]
