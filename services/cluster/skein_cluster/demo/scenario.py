"""The demo: import the sample household, query it, learn from a conversation, and show hits, facts and one trace."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv.attributes import db_attributes
from opentelemetry.trace import SpanKind
from rich.console import Console
from rich.rule import Rule
from rich.text import Text
from rich.tree import Tree

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client.client import Client
from skein_client.connection import Connection, read_ca_file
from skein_cluster.api.client import open_client
from skein_cluster.cli import output
from skein_cluster.cli.error_messages import error_sentence
from skein_cluster.cli.recall_hits import format_components, hit_kind, hit_name, hit_text, hit_time
from skein_cluster.commands.policy import EFFECT_SECONDS
from skein_cluster.processes.single_process import LocalCluster
from skein_importers.importer import Importer, Report
from skein_importers.records import Kind, read_jsonl

_SHOWN = 3
# Largest batch that is embedded before the reply.
_EMBEDDED_AT_ONCE = 16
_TEXT = 110
_RECALL = "skein.gateway.v1.GatewayService/Recall"
_NANOS_PER_MS = 1e6
CONVERSATION = (
    "Hi! I'm allergic to peanuts, and I live in Porto. My birthday is on 3 May.",
    "No, I meant I live in Lisbon.",
)
# What the conversation says: three facts, and the correction of one.
FACTS = 4
_POLL_SECONDS = 0.1
_LIMIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question about the sample, and the records with its answer."""

    question: str
    answer: str
    evidence: frozenset[str]


def questions() -> list[SampleQuestion]:
    """Return the sample's questions for the demo."""
    entries: list[dict[str, Any]] = json.loads(
        (files("skein_cluster") / "sample" / "questions.json").read_text("utf-8")
    )
    return [
        SampleQuestion(entry["question"], entry["answer"], frozenset(entry["evidence"]))
        for entry in entries
        if entry.get("demo")
    ]


async def run_demo(cluster: LocalCluster, spans: InMemorySpanExporter) -> None:
    """Import, query and print, through the gateway, as any client."""
    out = output.stdout_console()
    credentials = cluster.credentials
    connection = Connection(
        endpoint=credentials.endpoint, api_key=credentials.api_key, ca_file=read_ca_file(os.environ), timeout=30.0
    )
    async with open_client(connection) as api:
        await _import(api, out)
        spans.clear()
        answered_count = 0
        for number, question in enumerate(questions(), start=1):
            answered_count += await _query(api, out, number, question)
        share = f"{answered_count} of {len(questions())}"
        out.print(Text(f"{share} questions have their evidence (✓) among the first {_SHOWN} hits."))
        await show_learning(api, out)
    trace = find_trace(spans.get_finished_spans(), _RECALL)
    out.print(Rule("Trace of one recall", align="left"))
    if trace is not None:
        out.print(render_tree(trace))


async def _import(api: Client, out: Console) -> None:
    out.print(Rule("The sample conversation", align="left"))
    report, started = Report(describe_error=error_sentence), time.monotonic()
    with as_file(files("skein_cluster") / "sample" / "household.jsonl") as path:
        await Importer(api, report, lambda _count: None, batch=_EMBEDDED_AT_ONCE).run(read_jsonl(path))
    names = {Kind.SESSION: "sessions", Kind.MESSAGE: "messages", Kind.MEMORY: "memories", Kind.LINK: "links"}
    counts = ", ".join(f"{report.written[kind]} {name}" for kind, name in names.items())
    out.print(Text(f"Seven weeks of a household with its voice assistant: {counts}"))
    seconds = time.monotonic() - started
    out.print(Text(f"imported through the gateway in {seconds:.1f} s; {report.pending} await embedding."))
    for refusal in report.refused:
        out.print(Text(f"{refusal.where} was refused: {refusal.reason}", style="red"))


async def _query(api: Client, out: Console, number: int, question: SampleQuestion) -> bool:
    started = time.perf_counter()
    response = await api.gateway.Recall(gateway_pb2.RecallRequest(query=question.question, limit=_SHOWN))
    milliseconds = (time.perf_counter() - started) * 1000
    out.print(Rule(Text(f"{number}. {question.question}"), align="left"))
    lines = [
        (
            Text("✓" if hit_name(hit) in question.evidence else "", style="green"),
            f"{hit.score:.2f}",
            format_components(hit),
            hit_kind(hit),
            output.format_time(hit_time(hit)),
            output.shorten(_text(hit), _TEXT),
        )
        for hit in response.hits
    ]
    table = output.table("", "score", "components", "kind", "when", "text", numbers=("score",))
    output.print_table(table, lines, empty="Nothing was found.")
    out.print(Text(f"   expected: {question.answer}  ({milliseconds:.0f} ms)", style="dim"))
    return any(hit_name(hit) in question.evidence for hit in response.hits)


def _text(hit: recall_pb2.Hit) -> str:
    # The demo's own key wrote every message: beside each name it would say nothing.
    name = hit.message.name
    return f"{name}: {hit.message.content}" if name else hit_text(hit)


@dataclass(frozen=True, slots=True)
class SpanNode:
    """A span and its children, in order of time."""

    span: ReadableSpan
    children: tuple[SpanNode, ...]


def find_trace(spans: Iterable[ReadableSpan], name: str) -> SpanNode | None:
    """Return the newest trace whose root has this name; None when there is none."""
    finished = [span for span in spans if span.context is not None]
    roots = [span for span in finished if span.parent is None and span.name == name]
    if not roots:
        return None
    root = max(roots, key=lambda span: span.start_time or 0)
    return _node(root, [span for span in finished if span.context.trace_id == root.context.trace_id])


def render_tree(root: SpanNode) -> Tree:
    """Return the trace as a tree to print."""
    tree = Tree(_label(root.span))
    _grow(tree, root)
    return tree


def _node(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> SpanNode:
    children = [child for child in spans if child.parent is not None and child.parent.span_id == span.context.span_id]
    children.sort(key=lambda child: child.start_time or 0)
    return SpanNode(span, tuple(_node(child, spans) for child in children))


def _grow(tree: Tree, node: SpanNode) -> None:
    for child in node.children:
        _grow(tree.add(_label(child.span)), child)


def _label(span: ReadableSpan) -> Text:
    milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / _NANOS_PER_MS
    attributes = span.attributes or {}
    operation = attributes.get(db_attributes.DB_OPERATION_NAME)
    if operation is not None:
        name, style = f"SQL {operation} {span.name}", "cyan"
    elif span.kind is SpanKind.CLIENT:
        name, style = f"→ {_short(span.name)}", "dim"
    else:
        name, style = _short(span.name), "bold"
    return Text.assemble((name, style), (f"  {milliseconds:.2f} ms", "green"))


def _short(name: str) -> str:
    """Shorten "skein.recall.v1.RecallService/Recall" to "recall RecallService/Recall"."""
    parts = name.split(".")
    return f"{parts[1]} {parts[-1]}" if len(parts) > 1 and parts[0] == "skein" else name


async def show_learning(api: Client, out: Console) -> None:
    """Append a conversation, wait for its facts, and print them. Raises TimeoutError."""
    out.print(Rule("Facts out of a conversation", align="left"))
    policy = subjects_pb2.Policy(extraction="rules", extraction_messages=1)
    await api.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=policy, update_mask=FieldMask(paths=["extraction", "extraction_messages"])
        )
    )
    await asyncio.sleep(EFFECT_SECONDS)
    said = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in CONVERSATION]
    response = await api.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id="demo-facts", subject_id="mira", messages=said, create_session=True
        )
    )
    texts = {message.message_id: message.content for message in response.messages}
    for message in response.messages:
        out.print(Text(f"mira: {message.content}"))
    facts = await _wait_for_facts(api)
    lineage = await api.curation.GetLineage(
        curation_pb2.GetLineageRequest(memory_ids=[fact.memory_id for fact in facts])
    )
    by_id = {fact.memory_id: fact for fact in facts}
    order = list(texts)
    quotes = sorted(
        (order.index(source.id), edge.start_character, edge.end_character, lineage.nodes[edge.memory_number].id)
        for edge in lineage.edges
        if (source := lineage.nodes[edge.source_number]).id in texts
    )
    lines = [
        (
            # A superseded fact has no key any more.
            json.loads(by_id[memory_id].metadata_json)["extracted"]["predicate"],
            f"“{texts[order[number]][start:end]}”",
            "superseded" if by_id[memory_id].HasField("valid_to_time") else "current",
        )
        for number, start, end, memory_id in quotes
    ]
    output.print_table(output.table("fact", "quote", "state"), lines, empty="No fact was found.")


async def _wait_for_facts(api: Client) -> list[memory_pb2.Memory]:
    """Return the facts of the conversation once the worker has found them, oldest first."""
    request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(subject_id="mira"))
    async with asyncio.timeout(_LIMIT_SECONDS):
        while len(facts := (await api.memories.ListMemories(request)).memories) < FACTS:  # noqa: ASYNC110 - no event marks them.
            await asyncio.sleep(_POLL_SECONDS)
    return list(reversed(facts))
