"""`python tests/bench/vectors.py`: recall by vectors for every one of many tenants, through the gateway.

Nothing here is asserted. A `skein up` of its own gets the entries of `population`, written past the services; then the
questions are asked with each tenant's own API key, of memories alone. `exact` says what the nearest neighbours are. The
load client, the cluster and its Postgres share this machine's cores, and the table says how many there are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/vectors.py` is how it is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import uvloop
from bench import plain, report, sizes, tables, writing
from bench.asking import FILTERS, HYBRID, TEXT, VECTOR, Answer, Asking, Form, Heard
from bench.exact import mean, truth
from bench.figures import Figures, percentile
from bench.load import Limits, measured
from bench.population import zipf_sizes
from bench.staging import EMBEDDED_DIMENSIONS, QUESTIONS, staged
from bench.subject import DidNotStart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.exact import Truth
    from bench.population import Question
    from bench.staging import Stage
    from rich.console import Console

IN_FLIGHT = 8
# The tenant whose size stays the same while the others grow.
OWN = 1000
_UNBOUNDED = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What to measure."""

    entries: int
    tenants: int
    dimensions: int
    seconds: float
    writes: bool
    baseline: bool


@click.command()
@click.option("--entries", default=100_000, show_default=True)
@click.option("--tenants", default=100, show_default=True, help="Of Zipf's sizes.")
@click.option("--dimensions", default=EMBEDDED_DIMENSIONS, show_default=True, help="384: the embedded model's.")
@click.option("--seconds", default=5.0, show_default=True, help="How long calls in flight are made for each figure.")
@click.option("--baseline", is_flag=True, help="Also plain pgvector on the same vectors.")
@click.option("--writes", is_flag=True, help="Also what is saved in a second, and the same rows by SQL directly.")
@click.option("--growth", is_flag=True, help="Instead: one tenant's figures while the others grow.")
@click.option(
    "--growth-entries",
    multiple=True,
    default=(10_000, 100_000, 1_000_000),
    show_default=True,
    help="In all; repeatable.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
def main(*, growth: bool, growth_entries: Sequence[int], json_file: Path | None, **wished: Any) -> None:
    """Print latencies, rates, and how much of the exact answer comes back."""
    wish = Wish(**wished)
    out = report.console()
    out.print(f"Load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.", style="dim")
    document: dict[str, Any] = {
        "entries": wish.entries,
        "tenants": wish.tenants,
        "dimensions": wish.dimensions,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
    }
    try:
        uvloop.run(_growth(document, out, wish, growth_entries) if growth else _bench(document, out, wish))
    except DidNotStart as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.Abort from None
    finally:
        # What was measured before something went wrong is not lost.
        for line in tables.lines(document):
            out.print(line, soft_wrap=True, markup=False)
        if json_file is not None:
            json_file.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


async def _bench(document: dict[str, Any], out: Console, wish: Wish) -> None:
    shares = zipf_sizes(wish.entries, wish.tenants)
    document["largest_tenant"] = shares[0]
    async with staged(out, shares, wish.dimensions) as stage:
        rows = document["rows"] = []
        await _rows(rows, out, stage, wish)
        if wish.baseline:
            rows.append(await _plain(out, stage, wish))
        if wish.writes:
            document["writes"] = await writing.measured_writes(stage, in_flight=IN_FLIGHT, seconds=wish.seconds)


async def _growth(document: dict[str, Any], out: Console, wish: Wish, all_entries: Sequence[int]) -> None:
    """Measure one tenant while the others grow: each case is a cluster of its own."""
    cases = document["growth"] = []
    for entries in all_entries:
        own = min(OWN, entries // 2)
        shares = [own, *zipf_sizes(entries - own, wish.tenants - 1)]
        async with staged(out, shares, wish.dimensions, asked=[0] * QUESTIONS) as stage:
            # Before anybody asks, because recalls are logged.
            on_disk = await sizes.per_entry(stage.subject.database_url, entries, empty=stage.empty_bytes)
            limits = Limits(calls=QUESTIONS * 3, seconds=wish.seconds * 2)
            rows = [await _row(stage, form, form.title, stage.questions, limits, wish) for form in (VECTOR, HYBRID)]
            cases.append({"entries": entries, "own": own, "rows": rows, **on_disk})


async def _rows(found: list[dict[str, Any]], out: Console, stage: Stage, wish: Wish) -> None:
    """Measure every row of the table, into `found`."""
    largest = stage.population.questions([0] * QUESTIONS, stage.kept)
    wanted: list[tuple[Form, str, list[Question]]] = [
        (VECTOR, VECTOR.title, stage.questions),
        (VECTOR, f"{VECTOR.title}, largest tenant", largest),
        (HYBRID, HYBRID.title, stage.questions),
        (HYBRID, f"{HYBRID.title}, largest tenant", largest),
        *([(TEXT, TEXT.title, stage.questions)] if wish.dimensions == EMBEDDED_DIMENSIONS else []),
        *[(form, form.title, stage.questions) for form in FILTERS],
    ]
    limits = Limits(calls=len(stage.questions) * 3, seconds=wish.seconds * 2)
    for form, title, questions in wanted:
        found.append(await _row(stage, form, title, questions, limits, wish))
        row = found[-1]
        out.print(f"  {title}: p50 {row['p50_ms']} ms, recall {row['recall']}, {row['rows']} rows", style="dim")


async def _row(
    stage: Stage, form: Form, title: str, questions: Sequence[Question], limits: Limits, wish: Wish
) -> dict[str, Any]:
    asking = Asking(stage.channel, stage.members)
    # Every question once, not timed: what comes back is judged, and keys, plans and pages are known afterwards.
    answers = [await asking.ask(form, question, next(stage.numbers)) for question in questions]
    heard = Heard()
    alone = await measured(
        heard.calling(asking, form, questions), stage.numbers, in_flight=1, limits=limits, server_cpu=stage.cpu
    )
    together = await measured(
        Heard().calling(asking, form, questions),
        stage.numbers,
        in_flight=IN_FLIGHT,
        limits=Limits(calls=_UNBOUNDED, seconds=wish.seconds),
        server_cpu=stage.cpu,
    )
    truths = [
        truth(question, stage.kept[question.tenant], filter_name=form.filter_name) if form.is_judged else None
        for question in questions
    ]
    return {
        "title": title,
        **_speed(alone, together),
        **_judged(answers, truths),
        "paths": _paths([answer.path for answer in heard.answers.values()], alone.latencies),
    }


def _judged(answers: Sequence[Answer], truths: Sequence[Truth | None]) -> dict[str, Any]:
    """Say how much of the truth the answers hold, as far as there is one."""
    known = [(answer.ids, one) for answer, one in zip(answers, truths, strict=True) if one is not None]
    recalls = [one.recall(ids) for ids, one in known]
    return {
        "rows": round(mean([len(answer.ids) for answer in answers]), 2),
        "possible_rows": round(mean([one.count for _, one in known]), 2) if known else None,
        "short_answers": sum(one.is_short(ids) for ids, one in known) if known else None,
        "recall": round(mean(recalls), 4) if known else None,
        "worst_recall": round(min(recalls), 2) if known else None,
    }


def _speed(alone: Figures, together: Figures) -> dict[str, Any]:
    return {
        "p50_ms": round(alone.p50, 2),
        "p95_ms": round(alone.p95, 2),
        "per_second": round(together.per_second, 1),
        "by_second": list(together.by_second),
        "in_flight_p95_ms": round(together.p95, 2),
        "server_cpu_ms": round(alone.server_cpu_per_thousand, 2),
        "client_cpu_ms": round(alone.client_cpu_per_thousand, 2),
    }


def _paths(paths: Sequence[str], latencies: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return how many calls each path served, and how fast; the paths are those of the latencies, in order."""
    by: dict[str, list[float]] = {}
    for path, latency in zip(paths, latencies, strict=True):
        by.setdefault(path or "not told", []).append(latency)
    return {
        path: {
            "calls": len(some),
            "p50_ms": round(percentile(some, 0.5) * 1e3, 2),
            "p95_ms": round(percentile(some, 0.95) * 1e3, 2),
        }
        for path, some in sorted(by.items())
    }


async def _plain(out: Console, stage: Stage, wish: Wish) -> dict[str, Any]:
    """Measure plain pgvector with the same questions."""
    tenants = [member.tenant_id for member in stage.members]
    started = time.perf_counter()
    await plain.loaded(stage.subject.database_url, tenants, stage.population.blocks(), wish.dimensions)
    out.print(f"  plain pgvector: loaded and indexed in {time.perf_counter() - started:.0f} s", style="dim")
    truths = [truth(question, stage.kept[question.tenant]) for question in stage.questions]
    async with plain.asking(stage.subject.database_url, tenants, in_flight=IN_FLIGHT) as asked:

        async def search(number: int) -> None:
            await asked.search(stage.questions[number % len(stage.questions)])

        answers = [Answer(await asked.search(question), "") for question in stage.questions]
        limits = Limits(calls=len(stage.questions) * 3, seconds=wish.seconds * 2)
        alone = await measured(search, stage.numbers, in_flight=1, limits=limits, server_cpu=stage.cpu)
        limits = Limits(calls=_UNBOUNDED, seconds=wish.seconds)
        together = await measured(search, stage.numbers, in_flight=IN_FLIGHT, limits=limits, server_cpu=stage.cpu)
    await plain.dropped(stage.subject.database_url)
    return {
        "title": "plain pgvector: shared HNSW, planner's choice, raw driver",
        **_speed(alone, together),
        **_judged(answers, truths),
        "paths": {},
    }


if __name__ == "__main__":
    main()
