"""Reads the text of a query: the names in it that have other names, and the words that are no typos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from skein_recall.search.expansion import words_of
from skein_recall.search.model import Query
from skein_recall.search.name_cache import NameCache


class QueryReader:
    """Adds to queries what their texts mean."""

    def __init__(self, names: NameCache, has_word: Callable[[str], bool]) -> None:
        """`has_word` is a dictionary of lower-case words: these are no typos, even if no item has them."""
        self._names = names
        self._has_word = has_word

    async def read(self, tenant_id: UUID, query: Query, at: datetime) -> Query:
        """Return the query with the mentions and the known words of its text, if these are searched."""
        if not query.reads_names:
            return query
        return replace(
            query,
            mentions=await self._names.read_mentions(
                tenant_id, query.text, query.name_condition, at, as_of_time=query.as_of_time
            ),
            known_words=frozenset(filter(self._has_word, words_of(query.text))),
        )
