"""What becomes known of each named query: its time, a span, and one line in the log when it was slow.

The line has the query's name and nothing of its values; Postgres's own log has the same name, as the comment that each
statement begins with.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import asyncpg
from opentelemetry import trace
from opentelemetry.semconv.attributes import db_attributes, error_attributes
from opentelemetry.trace import SpanKind
from prometheus_client import Counter

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import QUERY_TIME, TRACING, exemplar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from skein_kit.database.named_queries import Query

SLOW_SECONDS = 1.0
SLOW = Counter(
    "skein_database_slow_queries_total",
    "Named queries slower than SKEIN_SLOW_QUERY_SECONDS. Each is also a slow_query event in the log.",
    ["service", "query"],
)

log = logs.get("skein")


class QueryObserver:
    """Watches the queries of one service in one database."""

    def __init__(self, *, service: str, database: str, slow_seconds: float) -> None:
        """Log queries that take longer than `slow_seconds`; 0: none."""
        self._service = service
        self._database = database
        self._slow_seconds = slow_seconds
        self._timers: dict[str, Any] = {}

    def observe(self, query: Query, batch: int = 1) -> QueryRun:
        """Time a query (of a `batch` of rows) while the block runs and, when tracing is on, give it a span."""
        return QueryRun(self, query, batch)

    def start_span(self, query: Query, batch: int) -> AbstractContextManager[trace.Span] | None:
        """Return what a query's span is inside of; None while tracing is off."""
        if not TRACING.on:
            return None
        return TRACING.tracer.start_as_current_span(
            query.name,
            kind=SpanKind.CLIENT,
            attributes=self._attributes(query, batch),
            # The words of an error may quote values.
            record_exception=False,
            set_status_on_exception=False,
        )

    def record(self, query: Query, seconds: float, rows: int | None, outcome: str, led: dict[str, str] | None) -> None:
        """Count a query, and log it when it was slow; the call that it was for is known to the log."""
        timer = self._timers.get(query.name)
        if timer is None:
            timer = self._timers[query.name] = QUERY_TIME.labels(self._service, query.name)
        timer.observe(seconds, led)
        if not 0 < self._slow_seconds <= seconds:
            return
        SLOW.labels(self._service, query.name).inc()
        log.warning(
            "slow_query",
            service=self._service,
            query_name=query.name,
            milliseconds=round(seconds * 1000, 1),
            rows=rows,
            outcome=outcome,
        )

    def _attributes(self, query: Query, batch: int) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            db_attributes.DB_SYSTEM_NAME: "postgresql",
            db_attributes.DB_NAMESPACE: self._database,
            db_attributes.DB_OPERATION_NAME: query.operation,
            db_attributes.DB_QUERY_SUMMARY: query.name,
            db_attributes.DB_QUERY_TEXT: query.text,
        }
        if batch > 1:
            attributes[db_attributes.DB_OPERATION_BATCH_SIZE] = batch
        return attributes


class QueryRun:
    """One run of a query, from when its block begins until it ends."""

    __slots__ = ("_batch", "_observer", "_query", "_span", "_spanning", "_started", "rows")

    def __init__(self, observer: QueryObserver, query: Query, batch: int) -> None:
        """Tell `observer` of it."""
        self._observer = observer
        self._query = query
        self._batch = batch
        self._started = 0.0
        self._spanning: AbstractContextManager[trace.Span] | None = None
        self._span: trace.Span | None = None
        # That it returned or touched, as whoever runs it says.
        self.rows: int | None = None

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        self._spanning = self._observer.start_span(self._query, self._batch)
        if self._spanning is not None:
            self._span = self._spanning.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        seconds = time.perf_counter() - self._started
        outcome = "ok" if error is None else _kind(error)
        if self._spanning is None or self._span is None:
            self._observer.record(self._query, seconds, self.rows, outcome, None)
            return
        if error is not None:
            if isinstance(error, asyncpg.PostgresError):
                self._span.set_attribute(db_attributes.DB_RESPONSE_STATUS_CODE, outcome)
            self._span.set_attribute(error_attributes.ERROR_TYPE, outcome)
            self._span.set_status(trace.StatusCode.ERROR)
        try:
            self._observer.record(self._query, seconds, self.rows, outcome, exemplar(self._span))
        finally:
            self._spanning.__exit__(kind, error, at)


def _kind(error: BaseException) -> str:
    """Return the SQLSTATE of what Postgres refused, else the error's class."""
    return str(error.sqlstate) if isinstance(error, asyncpg.PostgresError) else type(error).__name__
