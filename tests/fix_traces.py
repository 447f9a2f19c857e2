"""A place that traces are sent to: OTLP over gRPC, as a collector takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from grpc import aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True, kw_only=True)
class ReceivedSpan:
    """A span and the attributes of the process that sent it."""

    resource: Mapping[str, Any]
    span: Span

    @property
    def service(self) -> str:
        return str(self.resource["service.name"])

    @property
    def attributes(self) -> dict[str, Any]:
        return {pair.key: _value(pair.value) for pair in self.span.attributes}

    def __str__(self) -> str:
        return f"{self.service}: {self.span.name}"


@dataclass
class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Every span that came in."""

    spans: list[ReceivedSpan] = field(default_factory=list)
    endpoint: str = ""
    _more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: object
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        async with self._more:
            for resource in request.resource_spans:
                sender = {pair.key: _value(pair.value) for pair in resource.resource.attributes}
                self.spans += [
                    ReceivedSpan(resource=sender, span=span) for scope in resource.scope_spans for span in scope.spans
                ]
            self._more.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    async def trace(
        self, trace_id: bytes, complete: Callable[[Sequence[ReceivedSpan]], bool], seconds: float = 60.0
    ) -> list[ReceivedSpan]:
        """Wait until the spans of a trace are complete; fail with what there is when they never are."""

        def spans_of_trace() -> list[ReceivedSpan]:
            return [each for each in self.spans if each.span.trace_id == trace_id]

        try:
            async with asyncio.timeout(seconds), self._more:
                await self._more.wait_for(lambda: complete(spans_of_trace()))
        except TimeoutError:
            message = f"the trace stays incomplete: {[str(each) for each in spans_of_trace()]}"
            raise AssertionError(message) from None
        return spans_of_trace()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Listen for spans until the block ends."""
    receiver = Receiver()
    server = aio.server()
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server  # It carries no types.
    add(receiver, server)
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield receiver
    finally:
        await server.stop(0)


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
