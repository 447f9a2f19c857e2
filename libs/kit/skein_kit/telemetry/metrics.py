"""Metrics and traces of a process. Metric children are looked up once; tracing that is off costs one comparison."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes
from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from skein_kit.telemetry.memory_spans import MemorySpans

# All distributions of the repository have the same version, and every installation has this one.
VERSION = version("skein-protos")
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# Fewer for each of several hundred queries: a process without callers exports less than three thousand samples.
_QUERY_BUCKETS = (0.005, 0.025, 0.1, 1.0)
# A third of all samples; Prometheus reads them only with an experimental feature.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUESTS = Counter("skein_rpc_requests_total", "Calls that ended, by status code.", ["service", "method", "code"])
LATENCY = Histogram(
    "skein_rpc_duration_seconds", "Duration of a unary call.", ["service", "method"], buckets=LATENCY_BUCKETS
)
IN_FLIGHT = Gauge("skein_rpc_in_flight", "Calls that are running.", ["service", "method"])
STREAM_MESSAGES = Counter(
    "skein_rpc_stream_messages_total",
    "Messages sent on streams. The duration of a stream is not measured.",
    ["service", "method"],
)
POOL_WAIT = Histogram(
    "skein_database_pool_wait_seconds",
    "Time that a transaction waited for a connection of the pool.",
    ["service"],
    buckets=LATENCY_BUCKETS,
)
POOL_SIZE = Gauge(
    "skein_database_pool_connections", "Open connections of the pool, by state: busy, idle.", ["service", "state"]
)
POOL_LIMIT = Gauge(
    "skein_database_pool_max_connections",
    "Maximum size of the pool; its saturation is busy connections divided by this.",
    ["service"],
)
REPLICA_READ_COUNT = Counter(
    "skein_database_replica_reads_total",
    "Reads that a replica may serve: served by it, or by the primary because the replica was behind or unavailable.",
    ["service", "outcome"],
)
QUERY_TIME = Histogram(
    "skein_database_query_duration_seconds", "Duration of a named query.", ["service", "query"], buckets=_QUERY_BUCKETS
)
EMBEDDER_TIME = Histogram(
    "skein_embedder_batch_duration_seconds", "Duration of one batch in the embedded model.", buckets=LATENCY_BUCKETS
)
EMBEDDER_WAIT = Histogram(
    "skein_embedder_wait_seconds", "Time that an embedding request waits for the model.", buckets=LATENCY_BUCKETS
)
EMBEDDER_TEXTS = Counter("skein_embedder_texts_total", "Texts that were embedded.")
EMBEDDER_FAILURES = Counter("skein_embedder_failed_documents_total", "Failed attempts to embed a document.")
EMBEDDER_QUEUE = Gauge("skein_embedder_queue_texts", "Texts that wait for the model.")
RECEIPTS_LOST = Counter(
    "skein_recall_receipts_lost_total", "Receipts of recalls and contexts that could not be signed or stored."
)
RECALL_SEARCHES = Counter("skein_recall_searches_total", "Searches, by the way their vectors were searched.", ["path"])
VECTOR_CACHE_BYTES = Gauge(
    "skein_vector_cache_bytes", "Size of the vector cache, which holds the tenants that search most."
)
RECALL_WORD_SEARCHES = Counter(
    "skein_recall_word_searches_total",
    "Searches of words, by what was searched: the term cache or the database.",
    ["path"],
)
TERM_CACHE_BYTES = Gauge("skein_term_cache_bytes", "Size of the term cache, which holds the tenants that search most.")
VECTOR_CACHE_TENANTS = Gauge(
    "skein_vector_cache_tenants",
    "Tenants in the vector cache, by the form of their codes: exact, approximate.",
    ["form"],
)
VECTOR_CACHE_LOADS = Counter(
    "skein_vector_cache_loads_total", "Tenants whose vectors were loaded, by the form of their codes.", ["form"]
)
VECTOR_CACHE_DEMOTIONS = Counter(
    "skein_vector_cache_demotions_total",
    "Tenants whose approximate codes were given up: they found too little when loaded.",
)
INDEX_DELAY = Histogram(
    "skein_index_delay_seconds",
    "Time from the creation of a memory, message or block until it has its vector.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0),
)
TASKS = Gauge("skein_event_loop_tasks", "Unfinished tasks of the event loop; flat under a flat load.")
LOOP_LAG = Histogram(
    "skein_event_loop_lag_seconds", "Delay of a timer of the event loop.", buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2.0)
)
READY = Gauge("skein_service_ready", "1 if the service is ready, else 0.", ["service"])
BUILD = Gauge(
    "skein_build_info",
    "Always 1; its labels are the version of Skein and the version of the schema that it needs.",
    ["version", "schema"],
)

_LAG_INTERVAL_SECONDS = 0.5
_IDS = RandomIdGenerator()


class _CallsOnly(Sampler):
    """Begins traces of calls that come in, a share of them, and none of work in the background.

    A process without callers polls its queues and tables all the time.
    """

    def __init__(self, ratio: float) -> None:
        self._of_calls = TraceIdRatioBased(ratio)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: trace.SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[trace.Link] | None = None,
        trace_state: trace.TraceState | None = None,
    ) -> SamplingResult:
        """Drop a root that is no server's."""
        sampler = self._of_calls if kind is trace.SpanKind.SERVER else ALWAYS_OFF
        return sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        """Return its name and share."""
        return f"CallsOnly{{{self._of_calls.rate}}}"


class Tracing:
    """The process's tracer. `on` is False until a processor is installed."""

    def __init__(self) -> None:
        """Start with tracing off."""
        self.on = False
        self.tracer: trace.Tracer = trace.NoOpTracer()
        self.memory_spans = MemorySpans.OFF
        self._provider: TracerProvider | None = None

    def start(
        self,
        processor: SpanProcessor,
        *,
        ratio: float = 1.0,
        name: str = "skein",
        memory_spans: MemorySpans = MemorySpans.OFF,
    ) -> None:
        """Pass spans to this processor too, as those of the service `name`; `ratio` is the share of traces, 0 to 1."""
        if self._provider is None:
            resource = Resource.create(
                {
                    SERVICE_NAME: name,
                    SERVICE_VERSION: VERSION,
                    SERVICE_INSTANCE_ID: f"{socket.gethostname()}:{os.getpid()}",
                }
            )
            self._provider = TracerProvider(resource=resource, sampler=ParentBased(_CallsOnly(ratio)))
            self.tracer = self._provider.get_tracer("skein")
        self._provider.add_span_processor(processor)
        self.on, self.memory_spans = True, memory_spans

    def export(self, endpoint: str, *, ratio: float, name: str, memory_spans: MemorySpans) -> None:
        """Send spans to an OTLP/gRPC endpoint, in batches."""
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - 0.2 s of imports.
            OTLPSpanExporter,
        )

        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"))
        self.start(BatchSpanProcessor(exporter), ratio=ratio, name=name, memory_spans=memory_spans)

    def flush(self) -> None:
        """Send the waiting spans."""
        if self._provider is not None:
            self._provider.force_flush(5000)

    def stop(self) -> None:
        """Send the waiting spans and turn tracing off."""
        if self._provider is not None:
            self._provider.shutdown()
        self.on, self.tracer, self._provider = False, trace.NoOpTracer(), None
        self.memory_spans = MemorySpans.OFF


TRACING = Tracing()
# Propagates the trace only: W3C baggage is arbitrary text of callers.
_PROPAGATOR = TraceContextTextMapPropagator()


def context_from(metadata: Mapping[str, str]) -> Context:
    """Read the W3C trace context of an incoming call."""
    return _PROPAGATOR.extract(metadata)


def exemplar(span: trace.Span) -> dict[str, str] | None:
    """Return the exemplar that links a latency to its trace; None when the trace is not recorded."""
    context = span.get_span_context()
    return {"trace_id": f"{context.trace_id:032x}"} if context.trace_flags.sampled else None


def links_to(metadata: Mapping[str, str]) -> list[trace.Link]:
    """Return a link to the caller's span; empty without one."""
    caller = trace.get_current_span(context_from(metadata)).get_span_context()
    return [trace.Link(caller)] if caller.is_valid else []


def inject(metadata: dict[str, str]) -> None:
    """Add the current W3C trace context to an outgoing call."""
    _PROPAGATOR.inject(metadata)


@contextmanager
def without_tracing() -> Iterator[None]:
    """Record no spans while the block runs, for polling that would hide every other trace.

    The calls still have a trace id, by which the log lines of all services can be found.
    """
    context = trace.SpanContext(trace_id=_IDS.generate_trace_id(), span_id=_IDS.generate_span_id(), is_remote=False)
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield


@asynccontextmanager
async def measure_event_loop() -> AsyncIterator[None]:
    """Measure the event loop's lag while the block runs."""

    async def measure() -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            LOOP_LAG.observe(max(0.0, loop.time() - due))
            TASKS.set(len(asyncio.all_tasks()))

    task = asyncio.create_task(measure())
    try:
        yield
    finally:
        task.cancel()
