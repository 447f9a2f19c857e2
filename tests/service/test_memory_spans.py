"""Operations on memories are spans of the GenAI conventions where the operator wants them, and with content if so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from fix_cluster import refused
from fix_memory import MemoryServer
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from skein.memory.v1 import blocks_pb2, memory_pb2_grpc
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_kit.rpc.declarations import memory_operation
from skein_kit.telemetry.memory_spans import MemorySpans, record_request, record_response
from skein_kit.telemetry.metrics import TRACING

CONTENT = "Marta prefers the quetzal tea"


@contextmanager
def recorded(memory_spans: MemorySpans) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    TRACING.start(SimpleSpanProcessor(exporter), memory_spans=memory_spans)
    try:
        yield exporter
    finally:
        TRACING.stop()


def operations(exporter: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    spans = [span for span in exporter.get_finished_spans() if "gen_ai.operation.name" in (span.attributes or {})]
    return [(span.name, dict(span.attributes or {})) for span in spans]


def everything(spans: tuple[ReadableSpan, ...]) -> str:
    return " ".join(span.to_json() for span in spans)


async def use_memories(memory_server: MemoryServer) -> list[str]:
    """Create three memories, list and change them, delete two, and fail once; return their ids."""
    async with memory_server.serving(), memory_server.channel() as channel:
        memory = memory_pb2_grpc.MemoryServiceStub(channel)
        one = await memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content=CONTENT)))
        more = await memory.BatchCreateMemories(
            pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=f"{CONTENT} {n}") for n in range(2)])
        )
        ids = [one.memory.memory_id, *(each.memory_id for each in more.memories)]
        await memory.ListMemories(pb.ListMemoriesRequest())
        request = pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=ids[0], content=f"{CONTENT} no more"))
        request.update_mask.paths.append("content")
        await memory.UpdateMemory(request)
        await memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=ids[0]))
        selection = pb.MemorySelection(memory_ids=ids[1:])
        await memory.DeleteMemories(pb.DeleteMemoriesRequest(selection=selection))
        with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
            await memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=ids[0][:-1] + "0"))
    return ids


@pytest.mark.system
async def test_each_operation_is_a_span_without_content(memory_server: MemoryServer) -> None:
    with recorded(MemorySpans.ON) as exporter:
        ids = await use_memories(memory_server)

    found = operations(exporter)
    counts = [(name, attributes.get("gen_ai.memory.record.count")) for name, attributes in found]
    assert counts == [
        ("create_memory", 1),
        ("create_memory", 2),
        ("search_memory", 3),
        ("update_memory", 1),
        ("delete_memory", 1),
        ("delete_memory", 2),
        ("delete_memory", 1),
    ]
    assert [found[index][1].get("gen_ai.memory.record.id") for index in (0, 1, 3, 4)] == [ids[0], None, ids[0], ids[0]]
    assert {attributes["gen_ai.memory.store.id"] for _, attributes in found} == {str(memory_server.tenant_id)}
    assert {attributes["gen_ai.provider.name"] for _, attributes in found} == {"skein"}
    failed = [
        (span.name, (span.attributes or {})["error.type"])
        for span in exporter.get_finished_spans()
        if span.name == "delete_memory" and span.status.status_code is StatusCode.ERROR
    ]
    assert failed == [("delete_memory", "NOT_FOUND")]
    assert "quetzal" not in everything(exporter.get_finished_spans())


@pytest.mark.system
async def test_content_is_recorded_only_where_it_is_wanted(memory_server: MemoryServer) -> None:
    with recorded(MemorySpans.CONTENT) as exporter:
        ids = await use_memories(memory_server)

    found = operations(exporter)
    created, searched = (json.loads(found[index][1]["gen_ai.memory.records"]) for index in (0, 2))
    assert created == [{"id": ids[0], "content": CONTENT}]
    assert {record["content"] for record in searched} == {CONTENT, f"{CONTENT} 0", f"{CONTENT} 1"}


@pytest.mark.system
async def test_there_are_none_unless_the_operator_turns_them_on(memory_server: MemoryServer) -> None:
    with recorded(MemorySpans.OFF) as exporter:
        await use_memories(memory_server)

    assert exporter.get_finished_spans()
    assert operations(exporter) == []


def test_a_search_records_its_query_and_its_hits() -> None:
    operation = memory_operation("/skein.recall.v1.RecallService/Recall")
    request = recall_pb2.RecallRequest(query="what does Marta drink")
    memory_hit = recall_pb2.Hit(
        kind=recall_pb2.ITEM_KIND_MEMORY, item_id="m1", score=0.5, memory=pb.Memory(content=CONTENT)
    )
    response = recall_pb2.RecallResponse(
        hits=[memory_hit, recall_pb2.Hit(item_id="b1", block=blocks_pb2.Block(value="a block"))]
    )

    with recorded(MemorySpans.CONTENT) as exporter:
        with TRACING.tracer.start_as_current_span("search_memory", kind=SpanKind.SERVER) as span:
            assert operation is not None
            record_request(span, operation, request, with_content=True)
            record_response(span, operation, request, response, with_content=True)
        (attributes,) = (dict(span.attributes or {}) for span in exporter.get_finished_spans())

    assert attributes["gen_ai.memory.query.text"] == "what does Marta drink"
    assert attributes["gen_ai.memory.record.count"] == 2
    assert json.loads(str(attributes["gen_ai.memory.records"])) == [
        {"id": "m1", "score": 0.5, "content": CONTENT},
        {"id": "b1", "score": 0.0, "content": "a block"},
    ]


@pytest.mark.parametrize(
    "path", ["/skein.memory.v1.MemoryService/GetMemory", "/skein.gateway.v1.GatewayService/Recall"]
)
def test_a_method_that_only_passes_on_is_no_operation_of_its_own(path: str) -> None:
    assert memory_operation(path) is None
