"""`skein bench longmemeval` and `skein bench beam`: whether recall finds what answers their questions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from skein_client.client import Client
from skein_cluster.api.client import operator_connection
from skein_cluster.bench.answers import Judge, JudgedAnswer
from skein_cluster.bench.haystacks import DATASETS, Dataset, Haystack
from skein_cluster.bench.measures import ScoredQuestion, by_category
from skein_cluster.bench.run import BenchItems, ask_questions, temporary_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.commands.bench_judge import judge_options, judged_document, print_judged
from skein_cluster.commands.bench_report import (
    SEED,
    answer_figures,
    measures_document,
    print_circumstances,
    print_measures,
)
from skein_cluster.commands.import_export import progress
from skein_importers.records import RecordInvalid

_MAX_LIMIT = 100


@dataclass(slots=True)
class _HaystackRun:
    """Answers and times so far."""

    dataset: Dataset
    limit: int
    judge: Judge | None
    # In order, with the id of each question.
    answers: list[tuple[str, ScoredQuestion]] = field(default_factory=list)
    judged: list[JudgedAnswer] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    haystacks: int = 0
    messages: int = 0
    degraded: int = 0
    model: str = ""

    async def ask(self, api: Client, haystack: Haystack) -> None:
        """Ask the questions of one haystack and add the answers."""
        result = await ask_questions(api, haystack.questions, "messages", limit=self.limit)
        for question, scored in zip(haystack.questions, result.scored_questions, strict=True):
            self.answers.append((question.question_id, haystack.by_unit(question, scored.hit_ids)))
        self.seconds += result.seconds
        self.haystacks += 1
        self.messages += len(haystack.messages)
        self.degraded += result.degraded
        self.model = self.model or result.model
        if self.judge is not None:
            self.judged += await self.judge.judged(api, haystack.questions)


def _haystack_options(command: options.Decorated) -> options.Decorated:
    for option in (
        click.option(
            "--limit",
            type=click.IntRange(1, _MAX_LIMIT),
            help="Hits of each answer; without it what the measures need.",
        ),
        click.option(
            "--sample", type=click.IntRange(min=1), help="Only so many haystacks, drawn the same at each run."
        ),
        judge_options,
        options.cluster_options,
        options.json_option,
    ):
        command = option(command)
    return command


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@_haystack_options
def longmemeval_command(file: Path, **arguments: Any) -> None:
    """Measure whether recall finds the sessions that answer the questions of FILE, in LongMemEval's format.

    Each question has a haystack of sessions, which gets a tenant of its own that is deleted afterwards; each turn
    becomes a message. A hit finds its session. recall_any@k is the share of the questions with an answering session
    among the first k sessions found, recall_all@k that with all of them, with 95 % intervals. Questions that nothing
    answers (_abs) count apart.
    """
    asyncio.run(_measure(DATASETS["longmemeval"], file, **arguments))


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, readable=True, path_type=Path))
@_haystack_options
def beam_command(folder: Path, **arguments: Any) -> None:
    """Measure how much evidence recall finds for the questions of FOLDER, one of BEAM's sizes, such as chats/100K.

    Each chat gets a tenant of its own that is deleted afterwards; each turn becomes a message. Recall@k is the share of
    a question's source messages among its first k hits, with 95 % intervals. Questions without source messages count
    apart.
    """
    asyncio.run(_measure(DATASETS["beam"], folder, **arguments))


async def _measure(
    dataset: Dataset,
    path: Path,
    *,
    sample: int | None,
    limit: int | None,
    judge: Judge | None,
    environment: dict[str, str],
    as_json: bool,
) -> None:
    try:
        numbers = _drawn(sum(1 for _ in dataset.read(path)), sample)
    except RecordInvalid as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    run = _HaystackRun(dataset, limit or dataset.limit, judge)
    connection = operator_connection(environment)
    with progress("asking", len(numbers)) as on_progress:
        for number, haystack in enumerate(dataset.read(path)):
            if number not in numbers:
                continue
            async with temporary_tenant(connection, haystack.name, BenchItems(messages=haystack.messages)) as api:
                await run.ask(api, haystack)
            on_progress(1)
    document = _document(path, run)
    if as_json:
        output.print_json(document)
    else:
        _print(document, dataset)


def _drawn(count: int, sample: int | None) -> Collection[int]:
    """Return the places of the haystacks to ask."""
    places = range(count)
    if sample is None or sample >= count:
        return places
    return frozenset(random.Random(SEED).sample(places, sample))  # noqa: S311 - no secret.


def _document(path: Path, run: _HaystackRun) -> dict[str, Any]:
    measures = run.dataset.measures
    answerable = [answer for _, answer in run.answers if answer.evidence]
    without_answer = [answer for _, answer in run.answers if not answer.evidence]
    return {
        "file": path.name,
        "limit": run.limit,
        "haystacks": run.haystacks,
        "messages": run.messages,
        **answer_figures(run.model, run.degraded, run.seconds),
        "overall": measures_document(answerable, measures),
        "categories": {
            name: measures_document(questions, measures) for name, questions in by_category(answerable).items()
        },
        "unanswerable": {
            "questions": len(without_answer),
            "with_hits": sum(bool(answer.hit_ids) for answer in without_answer),
        },
        "judged": judged_document(run.judge, run.judged),
        "answers": [
            {
                "id": question_id,
                "category": answer.category,
                "expected_ids": sorted(answer.evidence),
                "hit_ids": list(answer.hit_ids),
            }
            for question_id, answer in run.answers
        ],
    }


def _print(document: Mapping[str, Any], dataset: Dataset) -> None:
    print_measures(document, dataset.measures, "Evidence found")
    unanswerable = document["unanswerable"]
    if unanswerable["questions"]:
        text = f"Without an answer: {unanswerable['questions']}, with hits: {unanswerable['with_hits']}."
        output.stdout_console().print(Text(text))
    print_judged(document["judged"])
    print_circumstances(document, f"{document['messages']} messages in {document['haystacks']} tenants")
