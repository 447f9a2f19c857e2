"""`skein bench`: recall quality of a running cluster, in comparable figures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from skein_cluster.api.client import operator_connection
from skein_cluster.bench.conversations import read_conversations
from skein_cluster.bench.measures import MEASURES, ablation_loss, by_category, summary
from skein_cluster.bench.run import Form, ask_questions, run_ablations, temporary_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.commands.import_export import progress
from skein_importers.records import RecordInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skein_cluster.bench.conversations import Conversation
    from skein_cluster.bench.measures import Mean, ScoredQuestion

_SEED = 5


@dataclass(slots=True)
class _BenchRun:
    """Questions, results and times so far."""

    scored_questions: list[ScoredQuestion] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    items: int = 0
    degraded: int = 0
    model: str = ""
    conversations: list[dict[str, Any]] = field(default_factory=list)
    # For each signal: the questions with all signals, and without it.
    without: dict[str, tuple[list[ScoredQuestion], list[ScoredQuestion]]] = field(default_factory=dict)


@click.group()
def bench_command() -> None:
    """Measure the recall quality of the cluster (as the operator, in temporary tenants)."""


@bench_command.command("locomo")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@click.option("--conversations", type=click.IntRange(min=1), help="Only this many conversations.")
@click.option(
    "--form",
    type=click.Choice(["memories", "messages"]),
    default="memories",
    show_default=True,
    help="Store each turn as a memory with the speaker in its text, or as a message with the speaker as name.",
)
@click.option("--ablation/--no-ablation", default=True, help="Also measure without each signal; the default.")
@click.option("--keep", is_flag=True, help="Keep the temporary tenants.")
@options.cluster_options
@options.json_option
def locomo(
    file: Path,
    conversations: int | None,
    form: Form,
    environment: dict[str, str],
    *,
    ablation: bool,
    keep: bool,
    as_json: bool,
) -> None:
    """Measure how much evidence recall finds for the questions of FILE, in LoCoMo's format.

    Each conversation gets its own tenant, each turn becomes one item, and each question is one query. Recall@k is the
    share of a question's evidence among its first k hits, averaged over all questions, with 95 % intervals.
    """
    try:
        selected_conversations = read_conversations(file)[:conversations]
    except RecordInvalid as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    run = asyncio.run(_run(environment, selected_conversations, form, ablation=ablation, keep=keep))
    document = _document(file, form, run)
    if as_json:
        output.print_json(document)
    else:
        _print(document)


async def _run(
    environment: Mapping[str, str], conversations: Sequence[Conversation], form: Form, *, ablation: bool, keep: bool
) -> _BenchRun:
    run = _BenchRun()
    connection = operator_connection(environment)
    for conversation in conversations:
        async with temporary_tenant(connection, conversation, form, keep=keep) as api:
            with progress(f"querying {conversation.name}", 0) as on_progress:
                answers = await ask_questions(api, conversation.questions, form)
                signals = sorted(answers.signals) if ablation else []
                without = await run_ablations(api, conversation.questions, form, signals, on_progress)
        run.scored_questions += answers.scored_questions
        run.seconds += answers.seconds
        run.items += len(conversation.memories)
        run.degraded += answers.degraded
        run.model = run.model or answers.model
        for signal, ablated_questions in without.items():
            all_signals, ablated = run.without.setdefault(signal, ([], []))
            all_signals += answers.scored_questions
            ablated += ablated_questions
        run.conversations.append(
            {"name": conversation.name, form: len(conversation.memories), **_measures(answers.scored_questions)}
        )
    return run


def _document(file: Path, form: Form, run: _BenchRun) -> dict[str, Any]:
    return {
        "file": file.name,
        "model": run.model,
        "form": form,
        form: run.items,
        "degraded_answers": run.degraded,
        "latency_ms": {"p50": _percentile(run.seconds, 0.5), "p95": _percentile(run.seconds, 0.95)},
        "overall": _measures(run.scored_questions),
        "categories": {name: _measures(questions) for name, questions in by_category(run.scored_questions).items()},
        "conversations": run.conversations,
        "ablation": {
            signal: {name: mean.as_json() for name, mean in ablation_loss(all_signals, ablated, seed=_SEED).items()}
            for signal, (all_signals, ablated) in sorted(run.without.items())
        },
    }


def _measures(questions: Sequence[ScoredQuestion]) -> dict[str, Any]:
    means: Mapping[str, Mean] = summary(questions, seed=_SEED)
    return {"questions": len(questions), **{name: mean.as_json() for name, mean in means.items()}}


def _percentile(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds)
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1e3, 2) if ordered else 0.0


def _print(document: Mapping[str, Any]) -> None:
    parts = {**document["categories"], "all": document["overall"]}
    lines = [
        (name, part["questions"], *(_interval(part[measure], "{:.3f}") for measure in MEASURES if measure in part))
        for name, part in parts.items()
    ]
    table = output.table("category", "questions", *MEASURES, title="Evidence found", numbers=("questions", *MEASURES))
    output.print_table(table, lines, empty="There were no questions.")
    if document["ablation"]:
        table = output.table("without", *MEASURES, title="Lost without a signal", numbers=MEASURES)
        losses = document["ablation"].items()
        rows = [(name, *(_interval(part[measure], "{:+.3f}") for measure in MEASURES)) for name, part in losses]
        output.print_table(table, rows, empty="")
    latency, form = document["latency_ms"], document["form"]
    output.stdout_console().print(
        Text(
            f"{document[form]} {form} in {len(document['conversations'])} tenants, {document['model']}. Recall "
            f"p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms, one at a time."
        )
    )
    if document["degraded_answers"]:
        message = f"{document['degraded_answers']} answers lacked semantic search or an arm: repeat the run."
        output.stderr_console().print(Text(message, style="red"))


def _interval(mean: Mapping[str, float], form: str) -> str:
    value, low, high = (form.format(mean[name]) for name in ("value", "low", "high"))
    return f"{value} [{low} {high}]"
