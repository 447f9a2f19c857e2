"""The demo: import the sample household, query it, learn from a conversation, and show hits, facts and one trace."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein_client.client import Client
from skein_client.connection import Connection, read_ca_file
from skein_cluster.api.client import open_client
from skein_cluster.cli import output
from skein_cluster.cli.error_messages import error_sentence
from skein_cluster.cli.recall_hits import format_components, hit_kind, hit_name, hit_text, hit_time
from skein_cluster.demo.learning import show_learning
from skein_cluster.demo.trace_tree import find_trace, render_tree
from skein_cluster.processes.single_process import LocalCluster
from skein_importers.importer import Importer, Report
from skein_importers.records import Kind, read_jsonl

_SHOWN = 3
# Largest batch that is embedded before the reply.
_EMBEDDED_AT_ONCE = 16
_TEXT = 110
_RECALL = "skein.gateway.v1.GatewayService/Recall"


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
            output.shorten(hit_text(hit), _TEXT),
        )
        for hit in response.hits
    ]
    table = output.table("", "score", "components", "kind", "when", "text", numbers=("score",))
    output.print_table(table, lines, empty="Nothing was found.")
    out.print(Text(f"   expected: {question.answer}  ({milliseconds:.0f} ms)", style="dim"))
    return any(hit_name(hit) in question.evidence for hit in response.hits)
