"""Which calls are recorded, and what leads from a measured time to a trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skein_kit.telemetry.metrics import Tracing, context_from, exemplar, without_tracing

SAMPLED = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
UNSAMPLED = {"traceparent": f"00-{'c' * 32}-{'d' * 16}-00"}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture(params=[0.0, 1.0])
def tracing(request: pytest.FixtureRequest, exporter: InMemorySpanExporter) -> Iterator[tuple[float, Tracing]]:
    made = Tracing()
    made.start(SimpleSpanProcessor(exporter), ratio=request.param)
    yield request.param, made
    made.stop()


def test_a_share_of_new_traces_is_recorded_and_begun_ones_follow_their_parent(
    tracing: tuple[float, Tracing], exporter: InMemorySpanExporter
) -> None:
    ratio, made = tracing

    for name, context in (("new", None), ("theirs", context_from(SAMPLED)), ("nobody's", context_from(UNSAMPLED))):
        with made.tracer.start_as_current_span(name, context=context, kind=trace.SpanKind.SERVER):
            pass

    names = [span.name for span in exporter.get_finished_spans()]
    assert names == (["new", "theirs"] if ratio else ["theirs"])


def test_work_without_a_caller_begins_no_trace(tracing: tuple[float, Tracing], exporter: InMemorySpanExporter) -> None:
    _, made = tracing

    for kind in (trace.SpanKind.CLIENT, trace.SpanKind.INTERNAL):
        with made.tracer.start_as_current_span("poll", kind=kind), made.tracer.start_as_current_span("query"):
            pass

    assert exporter.get_finished_spans() == ()


def test_only_what_is_recorded_is_an_example(tracing: tuple[float, Tracing]) -> None:
    ratio, made = tracing

    with made.tracer.start_as_current_span("new", kind=trace.SpanKind.SERVER) as span:
        result = exemplar(span)

    assert result == ({"trace_id": f"{span.get_span_context().trace_id:032x}"} if ratio else None)


def test_untraced_work_is_never_recorded_and_has_an_id_of_its_own_for_the_log(
    tracing: tuple[float, Tracing], exporter: InMemorySpanExporter
) -> None:
    _, made = tracing

    seen = set()
    for _ in range(2):
        with without_tracing(), made.tracer.start_as_current_span("inside") as span:
            assert span.get_span_context().is_valid
            seen.add(span.get_span_context().trace_id)
            assert trace.get_current_span().get_span_context().trace_id in seen

    assert len(seen) == 2
    assert exporter.get_finished_spans() == ()
