"""What becomes of a person's texts: written one by one, found, found again after a restart, deleted. For any store.

Nothing of Skein is imported here, since the environments of other stores hold nothing of it.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from bench.searches import Corpus

# Texts of the person, and the tenant of the corpus that they come from: the largest one.
TEXTS, TENANT = 200, 0


class Store(Protocol):
    """A store that holds texts of one person with given vectors."""

    async def write(self, number: int) -> None:
        """Store a text of the corpus with its vector."""

    async def search(self, number: int) -> int | None:
        """Return the number of the nearest text to the vector of a text; None for no hit."""

    async def delete(self) -> None:
        """Delete all of the person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """Before the restart."""

    write_ms: float
    search_ms: float
    # Texts that a search found as soon as their write had returned, of those written.
    found: int

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a program."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class After:
    """After the restart."""

    # Texts that were found, of those written.
    found: int
    delete_ms: float
    # Texts that were found after the deletion.
    remaining: int

    def as_json(self) -> dict[str, Any]:
        """Return the figures for a program."""
        return asdict(self)


def numbers(corpus: Corpus) -> range:
    """Return the numbers of the texts that are written."""
    return range(min(TEXTS, len(corpus.population.tenants[TENANT])))


async def write_and_search(store: Store, corpus: Corpus) -> Before:
    """Write each text and search for it, one after the other."""
    writes: list[float] = []
    searches: list[float] = []
    found = 0
    for number in numbers(corpus):
        start = time.perf_counter()
        await store.write(number)
        between = time.perf_counter()
        found += await store.search(number) == number
        writes.append(between - start)
        searches.append(time.perf_counter() - between)
    return Before(write_ms=1000 * statistics.median(writes), search_ms=1000 * statistics.median(searches), found=found)


async def search_and_delete(store: Store, corpus: Corpus) -> After:
    """Search for each text, delete all, and search again."""
    found = [await store.search(number) == number for number in numbers(corpus)]
    start = time.perf_counter()
    await store.delete()
    seconds = time.perf_counter() - start
    remaining = [await store.search(number) is not None for number in numbers(corpus)]
    return After(found=sum(found), delete_ms=1000 * seconds, remaining=sum(remaining))
