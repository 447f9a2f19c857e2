"""Matches a query's words in texts without an index: coverage of a text, and its best excerpt. Pure.

Words are compared after Harman's S-stemmer ("How Effective Is Suffixing?", 1991): English plurals lose their ending,
and words of other languages nearly always stay unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from skein_kit.search_text.segmentation import joined_words, segment
from skein_kit.text.unicode_form import same_text

# BM25's saturation of term frequency.
K1 = 1.2
# Further terms of a query are ignored.
MAX_TERMS = 64
ELLIPSIS = "…"
# Shorter excerpts say too little.
MIN_EXCERPT_CHARACTERS = 80
# Shorter sentences join the next one, which bounds the work for texts full of punctuation.
_SHORT_SENTENCE = 10
_WORD = re.compile(r"\w+")
# Behind a letter; a digit or a sign before it may be a part of what is said.
_CLAUSE_END = re.compile(r"(?<=[^\W\d_])[.,;:](?=\s|$)")
# Ends of sentences: punctuation marks and line ends.
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_MIN_STEMMED_CHARACTERS = 4
# English stop words.
_ENGLISH = """
a about after again all also am an and any are as at be because been before being between both but by can could did do
does doing down during each few for from further had has have having he her here hers him his how i if in into is it its
just me more most my no nor not of off on once only or other our out over own same she should so some such than that the
their them then there these they this those through to too under until up us very was we were what when where which
while who whom why will with would you your
"""
_STOP_WORDS = frozenset(_ENGLISH.split())


def stem(word: str) -> str:
    """Return the stem of a word: "allergy" for "allergies", "kettle" for "kettles"."""
    if len(word) < _MIN_STEMMED_CHARACTERS or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith(("us", "ss")):
        return word
    return word[:-1]


def terms_of(query: str) -> frozenset[str]:
    """Return the stems of a query's words without stop words, unless it has no others."""
    joins = joined_words(query)
    words = [word for word in _WORD.findall(segment(query).casefold()) if word not in joins]
    content_words = [word for word in words if word not in _STOP_WORDS] or words
    return frozenset(list(dict.fromkeys(stem(word) for word in content_words))[:MAX_TERMS])


def counts_of(text: str, terms: frozenset[str]) -> Counter[str]:
    """Count the terms in a text; absent terms are left out."""
    return Counter(term for word in _WORD.findall(segment(text).casefold()) if (term := stem(word)) in terms)


def term_coverage(terms: frozenset[str], counts: Counter[str]) -> float:
    """Return the share of a query that a text covers, 0 to 1: BM25 relative to its upper bound.

    The mean over the terms of n / (n + K1). All terms weigh the same, because a few texts do not show which words are
    rare, and long texts get no penalty.
    """
    if not terms:
        return 0.0
    return sum(count / (count + K1) for count in counts.values()) / len(terms)


def excerpt(text: str, max_characters: int, terms: frozenset[str]) -> str:
    """Return the first run of whole sentences with most of the terms, of up to `max_characters` characters.

    An ellipsis marks omitted text at either end. A text that fits is returned unchanged; "" if less than
    MIN_EXCERPT_CHARACTERS would fit. A sentence that does not fit is cut between words.
    """
    if len(text) <= max_characters:
        return text
    if max_characters < MIN_EXCERPT_CHARACTERS:
        return ""
    limit = max_characters - 2 * (len(ELLIPSIS) + 1)
    spans = _sentences(text, limit)
    start, end = _best(spans, [counts_of(text[slice(*span)], terms) for span in spans], limit)
    prefix = f"{ELLIPSIS} " if start > spans[0][0] else ""
    suffix = f" {ELLIPSIS}" if end < spans[-1][1] else ""
    return f"{prefix}{text[start:end].strip()}{suffix}"


def normalize(text: str) -> str:
    """Return a text's words between single spaces, for comparison: as they are written, without the ends of clauses."""
    return " ".join(_CLAUSE_END.sub("", same_text(text)).split())


def _sentences(text: str, max_characters: int) -> list[tuple[int, int]]:
    """Return start and end of sentences; those longer than `max_characters` are split at half that length."""
    spans, start = list[tuple[int, int]](), 0
    # A closing quotation mark belongs to the sentence.
    ends = [(match.start() + len(match.group().rstrip()), match.end()) for match in _END.finditer(text)]
    for end, after in [*ends, (len(text), len(text))]:
        while end - start > max_characters:
            cut = text.rfind(" ", start + 1, start + max_characters // 2 + 1)
            # A text without spaces is cut anywhere.
            cut = cut if cut > 0 else start + max_characters // 2
            spans.append((start, cut))
            start = cut
        if text[start:end].strip():
            spans.append((start, end))
        start = max(start, after)
    return _join_short(spans, max_characters)


def _join_short(spans: list[tuple[int, int]], max_characters: int) -> list[tuple[int, int]]:
    """Return the sentences, with short ones joined to the next as far as they fit."""
    joined = spans[:1]
    for start, end in spans[1:]:
        first, last = joined[-1]
        if last - first < _SHORT_SENTENCE and end - first <= max_characters:
            joined[-1] = (first, end)
        else:
            joined.append((start, end))
    return joined


def _best(spans: list[tuple[int, int]], counts: list[Counter[str]], max_characters: int) -> tuple[int, int]:
    """Return start and end of the best run. Spare space goes to the text after its terms first."""
    best, first, last = -1, 0, 0
    counts_in_run: Counter[str] = Counter()
    run_start = 0
    term_count = 0
    for index, (_, end) in enumerate(spans):
        counts_in_run.update(counts[index])
        is_same = not counts[index]
        while end - spans[run_start][0] > max_characters:
            counts_in_run.subtract(counts[run_start])
            is_same = is_same and not counts[run_start]
            run_start += 1
        if not is_same:
            term_count = sum(count > 0 for count in counts_in_run.values())
        if term_count > best:
            best, first, last = term_count, run_start, index
    while first < last and not counts[first]:
        first += 1
    if first and spans[last][1] - spans[first - 1][0] <= max_characters:
        first -= 1
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= max_characters:
        last += 1
    while first and spans[last][1] - spans[first - 1][0] <= max_characters:
        first -= 1
    return spans[first][0], spans[last][1]


def rank_texts(texts: Iterable[tuple[str, str]], terms: frozenset[str], limit: int) -> list[tuple[str, float, int]]:
    """Return the ids of the best texts, each with its coverage and its number of terms, best first."""
    ranked = []
    for text_id, text in texts:
        counts = counts_of(text, terms)
        if counts:
            ranked.append((text_id, term_coverage(terms, counts), len(counts)))
    ranked.sort(key=lambda entry: (-entry[1], entry[0]))
    return ranked[:limit]
