from __future__ import annotations

import re

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from rich.console import Console

from skein_cluster.demo.scenario import find_trace, render_tree


def test_the_newest_trace_of_a_name_is_a_tree_in_order_of_time() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    for turn in ("old", "new"):
        with tracer.start_as_current_span("skein.gateway.v1.GatewayService/Recall", kind=SpanKind.SERVER):
            with tracer.start_as_current_span("skein.recall.v1.RecallService/Recall", kind=SpanKind.CLIENT):
                attributes = {"db.operation.name": "SELECT"}
                with tracer.start_as_current_span(f"search_{turn}", kind=SpanKind.CLIENT, attributes=attributes):
                    pass
            with tracer.start_as_current_span("embed"):
                pass
    provider.shutdown()

    root = find_trace(exporter.get_finished_spans(), "skein.gateway.v1.GatewayService/Recall")

    assert root is not None
    console = Console(width=100)
    with console.capture() as shown:
        console.print(render_tree(root))
    names = [re.sub(r"  [\d.]+ ms$", "", line).strip("│├└─ ") for line in shown.get().splitlines()]
    assert names == [
        "gateway GatewayService/Recall",
        "→ recall RecallService/Recall",
        "SQL SELECT search_new",
        "embed",
    ]


def test_a_name_that_was_never_traced_has_no_tree() -> None:
    assert find_trace([], "anything") is None
