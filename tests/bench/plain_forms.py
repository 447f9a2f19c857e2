"""`python tests/bench/plain_forms.py FORM up`: the `skein` command with one optimization replaced by its plain form.

For A/B runs alone (tests/bench/optimizations.py). Each entry of FORMS undoes one optimization, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_cluster.main import main
from skein_gateway.rate_limits import LeasedBucket
from skein_kit.access_log.writer import AccessLog
from skein_kit.database import named_queries
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Insert, Transaction
from skein_recall.quality.recent_queries import RecentQueries
from skein_recall.term_cache.cache import TermCache
from skein_recall.usage.store import SearchCounter
from skein_recall.vector_cache.cache import VectorCache
from skein_recall.vector_cache.codes import ExactCodes
from skein_recall.vector_cache.quantization import QuantizedQuery


def lease_each_call() -> None:
    """Ask tenancy's bucket for each call."""
    LeasedBucket.lease_size = lambda self, now, waiting_count: max(waiting_count, 1)  # type: ignore[method-assign]  # noqa: ARG005
    LeasedBucket.should_lease_early = lambda self, now: False  # type: ignore[method-assign]  # noqa: ARG005


def compare_every_fine_code() -> None:
    """Compare a query with every cached vector by both of its codes, without the shortlist by the first ones."""

    def every_row(
        self: ExactCodes, query: QuantizedQuery, rows: Any, hidden: NDArray[np.bool_] | None, wanted: int
    ) -> NDArray[np.intp]:
        import numpy  # noqa: ICN001, PLC0415 - the form alone needs it.

        numbers = numpy.arange(self.capacity)[rows]
        cosines = self.cosines(query, numbers, int(numbers.max()) + 1)
        if hidden is not None:
            cosines[hidden] = -numpy.inf
        return numpy.argpartition(-cosines, min(wanted, len(numbers) - 1))[: wanted + 1]

    ExactCodes._candidates = every_row  # type: ignore[method-assign]


def search_words_in_the_database() -> None:
    """Keep no tenant's words in memory."""
    TermCache.table = lambda self, tenant_id: None  # type: ignore[method-assign]  # noqa: ARG005


def search_vectors_in_the_database() -> None:
    """Keep no tenant's vectors in memory; words are kept."""

    async def nothing(self: VectorCache, *arguments: object, **options: object) -> None:
        """Propose nothing."""

    VectorCache.shortlist = nothing  # type: ignore[method-assign]


def reply_alone() -> None:
    """Do nothing after the hits of a search that its reply does not need: access events and counts."""

    async def call(self: AccessLog, method: Any, request: Any, context: Any, **_: Any) -> Any:  # noqa: ARG001
        context.is_recorded = True
        return await method(request, context)

    AccessLog.call_and_record = call  # type: ignore[method-assign]
    count_nothing()


def count_nothing() -> None:
    """Count no searches, and keep no query to compare models by."""
    SearchCounter.add = lambda self, *arguments, **options: None  # type: ignore[method-assign]  # noqa: ARG005
    RecentQueries.add = lambda self, tenant_id, text: None  # type: ignore[method-assign]  # noqa: ARG005


def float_weights() -> None:
    """Multiply by the model's own float32 weights."""
    from skein_recall.embedded_model import build_graph, encoder  # noqa: PLC0415 - the builder needs the onnx package.

    def multiply(self: build_graph.GraphBuilder, source: str, layer: str) -> str:
        inputs = [source, self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")]
        return self.node("Gemm", inputs, f"{layer}.rows", transB=1)

    build_graph.GraphBuilder.linear = multiply  # type: ignore[method-assign]
    encoder.graph_bytes = build_graph.graph_bytes
    encoder.is_quantized = lambda name: False  # noqa: ARG005


def insert_rows_as_values() -> None:
    """Insert rows by a statement for each number of them, and into each table apart."""
    named_queries.array_insert = lambda query: None  # type: ignore[assignment]  # noqa: ARG005


def insert_into_each_table() -> None:
    """Insert into each table by a statement of its own, and read by another."""

    async def insert_all(
        self: Transaction, tenant_id: UUID, inserts: Iterable[Insert], *, then: Query | None = None, **values: object
    ) -> list[Any]:
        for query, rows in inserts:
            await self.insert(query, tenant_id, rows)
        return [] if then is None else await self.rows(then, tenant_id=tenant_id, **values)

    Transaction.insert_all = insert_all  # type: ignore[method-assign]


def as_it_is() -> None:
    """Change nothing: what two equal clusters differ by is the noise."""


FORMS: dict[str, Callable[[], None]] = {
    "as-it-is": as_it_is,
    "insert-into-each-table": insert_into_each_table,
    "insert-rows-as-values": insert_rows_as_values,
    "lease-each-call": lease_each_call,
    "float-weights": float_weights,
    "no-vector-cache": search_vectors_in_the_database,
    "bit-codes": as_it_is,
    "reply-alone": reply_alone,
    "no-search-counts": count_nothing,
    "no-term-cache": search_words_in_the_database,
    "no-shortlist": compare_every_fine_code,
}
# Settings of a form.
SETTINGS = {
    # Three bits per dimension from so few chunks on.
    "bit-codes": {"SKEIN_ADVANCED_RECALL_CACHE_EXACT_CHUNKS": "1000"},
}

if __name__ == "__main__":
    FORMS[sys.argv.pop(1)]()
    main()
