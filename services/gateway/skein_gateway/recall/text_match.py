"""The words of a query in texts that no index holds: how much of it a text says, and which part of it says most. Pure.

Words are compared as Harman's S-stemmer leaves them ("How Effective Is Suffixing?", 1991): plurals of English lose
their ending, and words of other languages are nearly always taken as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# As in BM25: how soon more mentions of a word count for less.
K1 = 1.2
# Of a longer query only the beginning counts.
MAX_TERMS = 64
ELLIPSIS = "…"
# A part shorter than this says too little to be shown.
LEAST_CHARACTERS = 80
# A sentence shorter than this goes with the next one, so that a text of nothing but marks is no more work than others.
_SHORT_SENTENCE = 10
_WORD = re.compile(r"\w+")
# Where a sentence may end: after its mark, or at the end of a line.
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_SHORTEST_STEMMED = 4
# English words that say nothing of what is looked for.
_ENGLISH = """
a about after again all also am an and any are as at be because been before being between both but by can could did do
does doing down during each few for from further had has have having he her here hers him his how i if in into is it its
just me more most my no nor not of off on once only or other our out over own same she should so some such than that the
their them then there these they this those through to too under until up us very was we were what when where which
while who whom why will with would you your
"""
_STOP_WORDS = frozenset(_ENGLISH.split())


def stem(word: str) -> str:
    """Return what a word is compared by: "allergies" like "allergy", "kettles" like "kettle"."""
    if len(word) < _SHORTEST_STEMMED or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith(("us", "ss")):
        return word
    return word[:-1]


def terms_of(query: str) -> frozenset[str]:
    """Return what a query looks for: its words without those that say nothing, unless it has no others."""
    words = _WORD.findall(query.casefold())
    telling = [word for word in words if word not in _STOP_WORDS] or words
    return frozenset(list(dict.fromkeys(stem(word) for word in telling))[:MAX_TERMS])


def counts_of(text: str, terms: frozenset[str]) -> Counter[str]:
    """Count the terms in a text."""
    return Counter(found for word in _WORD.findall(text.casefold()) if (found := stem(word)) in terms)


def term_coverage(terms: frozenset[str], counts: Counter[str]) -> float:
    """Return how much of a query a text says, 0 to 1: BM25 as a share of what no text could pass.

    Every term is worth the same, for a handful of texts does not tell which words are rare, and long texts are not
    held against themselves: mean over the terms of n / (n + 1.2).
    """
    if not terms:
        return 0.0
    return sum(count / (count + K1) for count in counts.values()) / len(terms)


def excerpt(text: str, room: int, terms: frozenset[str]) -> str:
    """Return the run of whole sentences, of up to `room` characters, that holds most of the terms; the first of such.

    Dots stand where something is left out, at either end. A text that fits comes back as it is; "" when all that would
    fit says too little. A sentence that does not fit by itself is cut between words.
    """
    if len(text) <= room:
        return text
    if room < LEAST_CHARACTERS:
        return ""
    inner = room - 2 * (len(ELLIPSIS) + 1)
    spans = _sentences(text, inner)
    start, end = _best(spans, [counts_of(text[slice(*span)], terms) for span in spans], inner)
    before = f"{ELLIPSIS} " if start > spans[0][0] else ""
    after = f" {ELLIPSIS}" if end < spans[-1][1] else ""
    return f"{before}{text[start:end].strip()}{after}"


def normal(text: str) -> str:
    """Return a text as it is compared with others: its words, in lower case; as it is where it has none."""
    return " ".join(_WORD.findall(text.casefold())) or text.strip()


def _sentences(text: str, most: int) -> list[tuple[int, int]]:
    """Return where sentences begin and end; those longer than `most` characters in pieces of half as many."""
    spans, start = list[tuple[int, int]](), 0
    # A closing quotation mark belongs to the sentence.
    ends = [(match.start() + len(match.group().rstrip()), match.end()) for match in _END.finditer(text)]
    for end, after in [*ends, (len(text), len(text))]:
        while end - start > most:
            cut = text.rfind(" ", start + 1, start + most // 2 + 1)
            # A text without spaces is cut anywhere.
            cut = cut if cut > 0 else start + most // 2
            spans.append((start, cut))
            start = cut
        if text[start:end].strip():
            spans.append((start, end))
        start = max(start, after)
    return _joined(spans, most)


def _joined(spans: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Return the sentences, short ones together with those after them as far as they fit."""
    joined = spans[:1]
    for start, end in spans[1:]:
        first, last = joined[-1]
        if last - first < _SHORT_SENTENCE and end - first <= most:
            joined[-1] = (first, end)
        else:
            joined.append((start, end))
    return joined


def _best(spans: list[tuple[int, int]], counts: list[Counter[str]], room: int) -> tuple[int, int]:
    """Return where the best run begins and ends, with what follows its words before what leads up to them."""
    best, first, last = -1, 0, 0
    held: Counter[str] = Counter()
    begin = 0
    found = 0
    for place, (_, end) in enumerate(spans):
        held.update(counts[place])
        is_same = not counts[place]
        while end - spans[begin][0] > room:
            held.subtract(counts[begin])
            is_same = is_same and not counts[begin]
            begin += 1
        if not is_same:
            found = sum(count > 0 for count in held.values())
        if found > best:
            best, first, last = found, begin, place
    while first < last and not counts[first]:
        first += 1
    if first and spans[last][1] - spans[first - 1][0] <= room:
        first -= 1
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= room:
        last += 1
    while first and spans[last][1] - spans[first - 1][0] <= room:
        first -= 1
    return spans[first][0], spans[last][1]


def ranked(texts: Iterable[tuple[str, str]], terms: frozenset[str], limit: int) -> list[tuple[str, float, int]]:
    """Return the ids of the texts that say most, each with its share and how many of the terms it holds, best first."""
    found = []
    for text_id, text in texts:
        counts = counts_of(text, terms)
        if counts:
            found.append((text_id, term_coverage(terms, counts), len(counts)))
    found.sort(key=lambda entry: (-entry[1], entry[0]))
    return found[:limit]
