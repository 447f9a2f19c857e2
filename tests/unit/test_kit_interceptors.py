"""What each interceptor alone promises its callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from fix_catalogue import over
from fix_metrics import sample
from grpc import aio
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import TraceFlags
from structlog.testing import capture_logs

from skein_kit import errors
from skein_kit.calls.call import Call, CallAborted
from skein_kit.rpc import interceptors
from skein_kit.rpc.interceptors import Method
from skein_kit.telemetry.metrics import TRACING, inject

CALLERS_TRACE = "0af7651916cd43dd8448eb211c80319c"


async def answer(_request: object, _call: Call) -> None:
    """Do nothing."""


METHOD = Method(path="/skein.x.v1.X/Y", handler=answer, deserializer=None, serializer=None)


def call(*, seconds: float | None = None, **metadata: str) -> Call:
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    return Call(path=METHOD.path, metadata=metadata, deadline=deadline, peer="")


@over(("requested", "expected"), [(None, 30.0), (10.0, 10.0), (300.0, 300.0), (1e9, 300.0)])
async def test_a_call_gets_the_time_it_asks_for_up_to_a_limit(requested: float | None, expected: float) -> None:
    asking = call(seconds=requested)

    await interceptors.deadline(30.0, 300.0, answer)(None, asking)

    assert asking.remaining_seconds() == pytest.approx(expected, abs=1.0)


@over(
    ("code", "details", "refusal"),
    [
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "SERVER: Received message larger than max (70000000 vs. 67108864)",
            errors.MessageTooLarge,
        ),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "CLIENT: Sent message larger than max (70000000 vs. 67108864)",
            errors.MessageTooLarge,
        ),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!", errors.ServiceUnavailable),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, None, errors.ServiceUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, None, errors.DeadlineExceeded),
        (grpc.StatusCode.UNIMPLEMENTED, None, errors.MethodNotFound),
        (grpc.StatusCode.INTERNAL, "a stack trace", errors.ServiceUnavailable),
    ],
)
def test_an_error_of_another_service_keeps_its_meaning(
    code: grpc.StatusCode, details: str | None, refusal: type[errors.RpcError]
) -> None:
    error = aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details=details)

    assert type(interceptors.translate_upstream(error, service="memory")) is refusal


def numbered_call() -> Call:
    return Call(path=METHOD.path, metadata={"skein-request-id": "r1"}, deadline=None, peer="")


def counted(method: Method, code: str) -> float | None:
    labels = {"service": method.service, "method": method.name, "code": code}
    return sample("skein_rpc_requests_total", **labels)


def test_a_method_without_a_call_has_no_samples() -> None:
    method = Method(path="/skein.x.v1.X/Uncalled", handler=answer, deserializer=None, serializer=None)

    interceptors.metrics(method, answer)

    assert counted(method, "OK") is None
    assert sample("skein_rpc_duration_seconds_count", service="skein.x.v1.X", method="Uncalled") is None


@over(("remaining", "code"), [(0.1, "DEADLINE_EXCEEDED"), (300.0, "CANCELLED")])
async def test_a_call_cancelled_at_its_deadline_counts_as_late(remaining: float, code: str) -> None:
    async def hang(_request: object, _call: Call) -> None:
        await asyncio.Event().wait()

    before = counted(METHOD, code) or 0.0
    answering = asyncio.ensure_future(interceptors.metrics(METHOD, hang)(None, call(seconds=remaining)))
    await asyncio.sleep(0)
    answering.cancel()
    await asyncio.wait({answering})

    assert counted(METHOD, code) == before + 1


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    TRACING.start(SimpleSpanProcessor(exporter), ratio=0.0)
    yield exporter
    TRACING.stop()


async def traced(*, continues: bool, sampled: bool) -> dict[str, str]:
    """Answer a call of a caller who traces; return what a call made meanwhile carries."""
    carried: dict[str, str] = {}

    async def calling(_request: Any, _call: Call) -> None:
        inject(carried)

    traceparent = f"00-{CALLERS_TRACE}-b7ad6b7169203331-{int(sampled):02}"
    asking = call(traceparent=traceparent, baggage="name=Marta")
    await interceptors.trace(METHOD, calling, continues=continues)(None, asking)
    return carried


def trace_ids(spans: tuple[ReadableSpan, ...]) -> list[str]:
    return [f"{span.context.trace_id:032x}" for span in spans if span.context is not None]


async def test_a_caller_of_the_edge_cannot_have_its_trace_recorded(spans: InMemorySpanExporter) -> None:
    carried = await traced(continues=False, sampled=True)

    assert spans.get_finished_spans() == ()
    assert not int(carried["traceparent"][-2:], 16) & TraceFlags.SAMPLED
    assert CALLERS_TRACE not in carried["traceparent"]


async def test_a_trace_that_begins_at_the_edge_is_linked_to_the_caller_s() -> None:
    exporter = InMemorySpanExporter()
    TRACING.start(SimpleSpanProcessor(exporter))
    try:
        await traced(continues=False, sampled=False)
    finally:
        TRACING.stop()

    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert trace_ids((span,)) != [CALLERS_TRACE]
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [CALLERS_TRACE]


async def test_between_services_the_caller_s_trace_goes_on(spans: InMemorySpanExporter) -> None:
    carried = await traced(continues=True, sampled=True)

    assert trace_ids(spans.get_finished_spans()) == [CALLERS_TRACE]
    assert CALLERS_TRACE in carried["traceparent"]


@pytest.mark.parametrize("continues", [True, False])
async def test_baggage_goes_no_further(spans: InMemorySpanExporter, continues: bool) -> None:  # noqa: FBT001
    carried = await traced(continues=continues, sampled=True)

    assert set(carried) == {"traceparent"}
    assert spans is not None


async def test_a_server_span_has_the_request_s_id() -> None:
    exporter = InMemorySpanExporter()
    TRACING.start(SimpleSpanProcessor(exporter))
    try:
        await interceptors.trace(METHOD, answer, continues=False)(None, numbered_call())
    finally:
        TRACING.stop()

    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {})["skein.request_id"] == "r1"


async def test_a_failed_call_is_one_line_with_its_ids_where_it_comes_in() -> None:
    method = Method(path="/skein.x.v1.X/Failing", handler=answer, deserializer=None, serializer=None)

    async def fail(_request: object, failing: Call) -> None:
        failing.trace_id = CALLERS_TRACE
        raise CallAborted(errors.ServiceUnavailable().status())

    async def refuse(_request: object, _call: Call) -> None:
        raise CallAborted(errors.FieldInvalid(violations=[("name", "is empty")]).status())

    with capture_logs() as lines:
        for handler, is_edge in ((fail, False), (refuse, True), (answer, True), (fail, True), (fail, True)):
            with suppress(CallAborted):
                asking = numbered_call()
                await interceptors.metrics(method, handler, is_edge=is_edge)(None, asking)

    (line,) = lines
    assert line.pop("milliseconds") >= 0
    assert line == {
        "event": "call_failed",
        "log_level": "warning",
        "method": "skein.x.v1.X/Failing",
        "code": "UNAVAILABLE",
        "request_id": "r1",
        "trace_id": CALLERS_TRACE,
    }


async def test_a_slow_call_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptors, "SLOW_CALL_SECONDS", 0.0)
    method = Method(path="/skein.x.v1.X/Slow", handler=answer, deserializer=None, serializer=None)

    with capture_logs() as lines:
        await interceptors.metrics(method, answer, is_edge=True)(None, call())

    assert [(line["event"], line["code"]) for line in lines] == [("slow_call", "OK")]
