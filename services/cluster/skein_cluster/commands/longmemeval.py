"""`skein bench longmemeval`: whether recall finds the sessions that answer LongMemEval's questions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from skein_cluster.api.client import operator_connection
from skein_cluster.bench.longmemeval import read_haystacks
from skein_cluster.bench.measures import SESSION_MEASURES, by_category
from skein_cluster.bench.run import BenchItems, ask_questions, temporary_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.commands.bench_report import (
    SEED,
    answer_figures,
    measures_document,
    print_circumstances,
    print_measures,
)
from skein_cluster.commands.import_export import progress
from skein_importers.records import RecordInvalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from skein_cluster.bench.longmemeval import Haystack
    from skein_cluster.bench.measures import ScoredQuestion
    from skein_cluster.bench.run import BenchResult

# Hits of an answer: ten sessions need more turns than ten.
_LIMIT = 50
_MAX_LIMIT = 100


@dataclass(slots=True)
class _SessionRun:
    """Answers and times so far."""

    # In order, with the id of each question.
    answers: list[tuple[str, ScoredQuestion]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    messages: int = 0
    degraded: int = 0
    model: str = ""

    def add(self, haystack: Haystack, result: BenchResult) -> None:
        """Add the answer to the question of one haystack."""
        (scored,) = result.scored_questions
        self.answers.append((haystack.question.question_id, haystack.by_session(scored.hit_ids)))
        self.seconds += result.seconds
        self.messages += len(haystack.messages)
        self.degraded += result.degraded
        self.model = self.model or result.model


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@click.option("--sample", type=click.IntRange(min=1), help="Only this many questions, drawn the same at each run.")
@click.option(
    "--limit",
    type=click.IntRange(1, _MAX_LIMIT),
    default=_LIMIT,
    show_default=True,
    help="Hits of each answer; their sessions are counted.",
)
@options.cluster_options
@options.json_option
@options.asynchronous
async def longmemeval_command(
    file: Path, sample: int | None, limit: int, environment: dict[str, str], *, as_json: bool
) -> None:
    """Measure whether recall finds the sessions that answer the questions of FILE, in LongMemEval's format.

    Each question has a haystack of sessions, which gets a tenant of its own that is deleted afterwards; each turn
    becomes a message. A hit finds its session. recall_any@k is the share of the questions with an answering session
    among the first k sessions found, recall_all@k that with all of them, with 95 % intervals. Questions that nothing
    answers (_abs) count apart.
    """
    try:
        numbers = _drawn(sum(1 for _ in read_haystacks(file)), sample)
    except RecordInvalid as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    run = _SessionRun()
    connection = operator_connection(environment)
    with progress("asking", len(numbers)) as on_progress:
        for number, haystack in enumerate(read_haystacks(file)):
            if number not in numbers:
                continue
            question = haystack.question
            items = BenchItems(messages=haystack.messages)
            async with temporary_tenant(connection, question.question_id, items) as api:
                run.add(haystack, await ask_questions(api, [question], "messages", limit=limit))
            on_progress(1)
    document = _document(file, limit, run)
    if as_json:
        output.print_json(document)
    else:
        _print(document)


def _drawn(count: int, sample: int | None) -> Collection[int]:
    """Return the places of the questions to ask."""
    places = range(count)
    if sample is None or sample >= count:
        return places
    return frozenset(random.Random(SEED).sample(places, sample))  # noqa: S311 - no secret.


def _document(file: Path, limit: int, run: _SessionRun) -> dict[str, Any]:
    answerable = [answer for _, answer in run.answers if answer.evidence]
    without_answer = [answer for _, answer in run.answers if not answer.evidence]
    return {
        "file": file.name,
        "limit": limit,
        "messages": run.messages,
        **answer_figures(run.model, run.degraded, run.seconds),
        "overall": measures_document(answerable, SESSION_MEASURES),
        "categories": {
            name: measures_document(questions, SESSION_MEASURES) for name, questions in by_category(answerable).items()
        },
        "unanswerable": {
            "questions": len(without_answer),
            "with_hits": sum(bool(answer.hit_ids) for answer in without_answer),
        },
        "answers": [
            {
                "id": question_id,
                "category": answer.category,
                "expected_session_ids": sorted(answer.evidence),
                "session_ids": list(answer.hit_ids),
            }
            for question_id, answer in run.answers
        ],
    }


def _print(document: Mapping[str, Any]) -> None:
    print_measures(document, SESSION_MEASURES, "Questions whose sessions are found")
    unanswerable = document["unanswerable"]
    if unanswerable["questions"]:
        text = f"Without an answer: {unanswerable['questions']}, with hits: {unanswerable['with_hits']}."
        output.stdout_console().print(Text(text))
    print_circumstances(document, f"{document['messages']} messages in {len(document['answers'])} tenants")
