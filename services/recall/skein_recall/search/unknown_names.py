"""Names in a query that no document has: what asks for a person whom nothing mentions is answered by nothing. Pure."""

from __future__ import annotations

import re
from typing import Final

from skein_kit.dates.date_words import LANGUAGES
from skein_recall.search.expansion import word_of_stem
from skein_recall.search.query_terms import QueryTerms

# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000
# A capital within a sentence.
_NAME: Final = re.compile(r"(?:(?<=[^\W\d_] )|(?<=[,;:] ))[A-Z\u00c0-\u00de][^\W\d_]{2,}")
_DATE_WORDS: Final = frozenset(word for language in LANGUAGES for word in (*language.months, *language.weekdays))
# Languages that write each noun with a capital.
_WITH_CAPITALS: Final = frozenset({"german"})


def names_in(text: str) -> set[str]:
    """Return the names in a query, in lower case: words with a capital within a sentence but days and months."""
    return {match.casefold() for match in _NAME.findall(text[:_READ_CHARACTERS])} - _DATE_WORDS


def unknown_name_share(text: str, terms: QueryTerms, language: str) -> float:
    """Return the share, 0 to 1, of the names in a query that no document of the tenant has; 0 without a name.

    `terms` are those of the text. A name with an alias that a document has is known, and a likely typo is not. In a
    `language` with capital nouns, none is taken for a name.
    """
    if language in _WITH_CAPITALS:
        return 0.0
    names = names_in(text)
    if not names:
        return 0.0
    known = [
        term.documents > 0 and not term.is_corrected
        for term in terms.terms
        if word_of_stem(term.term, text).casefold() in names
    ]
    return known.count(False) / max(1, len(known))
