"""What becomes known of each named query: its time, a span, and one line in the log when it was slow.

The line has the query's name and nothing of its values; Postgres's own log has the same name, as the comment that each
statement begins with.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from opentelemetry import trace
from opentelemetry.semconv.attributes import db_attributes, error_attributes
from opentelemetry.trace import SpanKind
from prometheus_client import Counter

from skein_kit import logs
from skein_kit.telemetry import QUERY_TIME, TRACING, exemplar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skein_kit.sql import Query

SLOW_SECONDS = 1.0
SLOW = Counter("skein_slow_queries_total", "Named queries that took longer than the limit.", ["service", "query"])

log = logs.get("skein")


@dataclass(slots=True)
class Seen:
    """What whoever runs a query says about it."""

    # That it returned or touched.
    rows: int | None = None


class Observer:
    """Watches the queries of one service in one database."""

    def __init__(self, *, service: str, database: str, slow_seconds: float) -> None:
        """Log queries that take longer than `slow_seconds`; 0: none."""
        self._service = service
        self._database = database
        self._slow_seconds = slow_seconds
        self._timers: dict[str, Any] = {}

    @contextmanager
    def observed(self, query: Query, batch: int = 1) -> Iterator[Seen]:
        """Time a query (of a `batch` of rows) and, when tracing is on, give it a span."""
        timer = self._timers.get(query.name)
        if timer is None:
            timer = self._timers[query.name] = QUERY_TIME.labels(self._service, query.name)
        seen = Seen()
        started = time.perf_counter()
        if not TRACING.on:
            outcome = "ok"
            try:
                yield seen
            except BaseException as error:
                outcome = _kind(error)
                raise
            finally:
                seconds = time.perf_counter() - started
                timer.observe(seconds)
                self._judge(query, seconds, seen, outcome)
            return
        with TRACING.tracer.start_as_current_span(
            query.name,
            kind=SpanKind.CLIENT,
            attributes=self._attributes(query, batch),
            # The words of an error may quote values.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            outcome = "ok"
            try:
                yield seen
            except BaseException as error:
                outcome = _kind(error)
                if isinstance(error, asyncpg.PostgresError):
                    span.set_attribute(db_attributes.DB_RESPONSE_STATUS_CODE, outcome)
                span.set_attribute(error_attributes.ERROR_TYPE, outcome)
                span.set_status(trace.StatusCode.ERROR)
                raise
            finally:
                seconds = time.perf_counter() - started
                timer.observe(seconds, exemplar(span))
                self._judge(query, seconds, seen, outcome)

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

    def _judge(self, query: Query, seconds: float, seen: Seen, outcome: str) -> None:
        """Log a query that was slow; the call that it was for is known to the log."""
        if not 0 < self._slow_seconds <= seconds:
            return
        SLOW.labels(self._service, query.name).inc()
        log.warning(
            "slow_query",
            service=self._service,
            query_name=query.name,
            milliseconds=round(seconds * 1000, 1),
            rows=seen.rows,
            outcome=outcome,
        )


def _kind(error: BaseException) -> str:
    """Return the SQLSTATE of what Postgres refused, else the error's class."""
    return str(error.sqlstate) if isinstance(error, asyncpg.PostgresError) else type(error).__name__
