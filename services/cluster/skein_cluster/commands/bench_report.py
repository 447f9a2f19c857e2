"""Figures of `skein bench` as a document and as tables, whichever file the questions are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from skein_cluster.bench.measures import MEASURES, Mean, ScoredQuestion, summary
from skein_cluster.cli import output

# Of resamples, so that a run's intervals are the same again.
SEED = 5


def measures_document(questions: Sequence[ScoredQuestion], measures: Sequence[str] = MEASURES) -> dict[str, Any]:
    """Return the number of some questions, and the mean of each measure with its interval."""
    means: Mapping[str, Mean] = summary(questions, seed=SEED, measures=measures)
    return {"questions": len(questions), **{name: mean.as_json() for name, mean in means.items()}}


def answer_figures(model: str, degraded: int, seconds: Sequence[float]) -> dict[str, Any]:
    """Return the model, the degraded answers, and percentiles of the seconds that the answers took."""
    return {
        "model": model,
        "degraded_answers": degraded,
        "latency_ms": {"p50": percentile(seconds, 0.5), "p95": percentile(seconds, 0.95)},
    }


def percentile(seconds: Sequence[float], share: float) -> float:
    """Return milliseconds below which a share of the seconds lies; 0 without any."""
    ordered = sorted(seconds)
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1e3, 2) if ordered else 0.0


def print_measures(document: Mapping[str, Any], measures: Sequence[str], title: str) -> None:
    """Print a table of measures by category, if there are any."""
    if not measures:
        return
    parts = {**document["categories"], "all": document["overall"]}
    lines = [
        (name, part["questions"], *(interval(part[measure], "{:.3f}") for measure in measures))
        for name, part in parts.items()
        if part["questions"]
    ]
    table = output.table("category", "questions", *measures, title=title, numbers=("questions", *measures))
    output.print_table(table, lines, empty="There were no questions.")


def print_circumstances(document: Mapping[str, Any], items: str) -> None:
    """Print the model, the times and the degraded answers."""
    latency = document["latency_ms"]
    output.stdout_console().print(
        Text(
            f"{items}, {document['model']}. Recall p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms, one at a "
            "time."
        )
    )
    if document["degraded_answers"]:
        message = f"{document['degraded_answers']} answers lacked semantic search or a branch: repeat the run."
        output.stderr_console().print(Text(message, style="red"))


def interval(mean: Mapping[str, float], form: str) -> str:
    """Return a mean with its interval in brackets, each number in one form."""
    value, low, high = (form.format(mean[name]) for name in ("value", "low", "high"))
    return f"{value} [{low} {high}]"
