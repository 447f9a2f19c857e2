"""A corpus with its vectors, and how a store's searches of it are measured. Runs in the peers' environment too.

Nothing of Skein but the embedded model is imported here, since the peers' environment holds nothing else of it.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bench.dialogues import Population, Question
from bench.figures import Figures
from bench.load import Limits, measured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray

    # Takes the number of a question, and returns the numbers of entries within its tenant, best first.
    Search = Callable[[int], Awaitable[Sequence[int]]]

TEXT, VECTOR, HYBRID = "text", "vector", "hybrid"
MODES = (TEXT, VECTOR, HYBRID)
DEPTH = 10
# Calls in flight, for latencies and for throughput.
ALONE, LOADED = 1, 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """A population with its vectors, which are float32 arrays of unit rows (texts, dimensions)."""

    population: Population
    # For each tenant.
    entries: Sequence[NDArray[np.float32]]
    # For each question.
    questions: NDArray[np.float32]

    def save(self, folder: Path) -> None:
        """Write the corpus into a folder, for `load`."""
        (folder / "population.json").write_text(json.dumps(asdict(self.population)), "utf-8")
        np.save(folder / "entries.npy", np.concatenate(self.entries))
        np.save(folder / "questions.npy", self.questions)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        data = json.loads((folder / "population.json").read_text("utf-8"))
        population = Population(data["tenants"], [Question(**each) for each in data["questions"]])
        ends = list(itertools.accumulate(map(len, population.tenants)))
        entries = np.split(np.load(folder / "entries.npy"), ends[:-1])
        return cls(population=population, entries=entries, questions=np.load(folder / "questions.npy"))

    def exact(self, number: int) -> set[int]:
        """Return the entries of the question's tenant that are nearest to it, as numbers within the tenant."""
        similarities = self.entries[self.population.questions[number].tenant] @ self.questions[number]
        return set(np.argsort(-similarities, kind="stable")[:DEPTH].tolist())


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A store that holds the corpus."""

    name: str
    searches: Mapping[str, Search]
    # Processor time of the other processes that serve a search.
    server_cpu: Callable[[], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What was measured of one store in one mode."""

    engine: str
    mode: str
    p50_ms: float
    p95_ms: float
    # Milliseconds of processor time of all processes, the caller's too, for one search with 8 in flight.
    cpu_ms: float
    # With 8 in flight.
    per_second: float
    # Of a given vector alone; the other modes have no exact order.
    recall: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the row for a program."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """How many searches of each mode are made."""

    warm_up: int = 40
    alone: int = 200
    loaded: int = 400

    @property
    def questions(self) -> int:
        """How many questions are needed, so that none is asked twice."""
        return len(MODES) * (self.warm_up + self.alone + self.loaded)


async def measure(engine: Engine, corpus: Corpus, calls: Calls) -> list[Row]:
    """Search in every mode that the store has, alone and with others in flight."""
    numbers = itertools.count()
    rows: list[Row] = []
    for mode in MODES:
        if mode not in engine.searches:
            continue
        search = engine.searches[mode]
        found: dict[int, set[int]] = {}

        async def call(number: int, search: Search = search, found: dict[int, set[int]] = found) -> None:
            found[number] = set(await search(number))

        async def go(in_flight: int, count: int, call: Callable[[int], Awaitable[object]] = call) -> Figures:
            return await measured(
                call,
                numbers,
                in_flight=in_flight,
                limits=Limits(calls=count, seconds=float("inf")),
                server_cpu=engine.server_cpu,
                serves_itself=True,
            )

        await go(LOADED, calls.warm_up)
        alone = await go(ALONE, calls.alone)
        loaded = await go(LOADED, calls.loaded)
        rows.append(
            Row(
                engine=engine.name,
                mode=mode,
                p50_ms=alone.p50,
                p95_ms=alone.p95,
                cpu_ms=loaded.server_cpu_per_thousand,
                per_second=loaded.per_second,
                recall=recall(found, corpus) if mode == VECTOR else None,
            )
        )
    return rows


def recall(found: Mapping[int, set[int]], corpus: Corpus) -> float:
    """Return the mean share of the exact first ten that was found."""
    shares = []
    for number, entries in found.items():
        exact = corpus.exact(number)
        shares.append(len(entries & exact) / len(exact))
    return sum(shares) / len(shares) if shares else 0.0
