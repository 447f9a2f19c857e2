"""Options and figures of answers that a model gives and a model judges, for the commands of `skein bench`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click
from rich.text import Text

from skein_cluster.bench.answers import REQUEST_SECONDS, Judge, JudgedAnswer, read_prompts
from skein_cluster.bench.measures import by_category, means
from skein_cluster.cli import output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.options import Decorated
from skein_cluster.commands.bench_report import SEED, interval, percentile
from skein_importers.records import RecordInvalid
from skein_kit.language_model.chat_client import ChatClient, Endpoint
from skein_kit.settings import SettingInvalid

_SERVICE = "bench"


def judge_options(command: Decorated) -> Decorated:
    """Add --prompts and the model's options; the command gets a Judge as `judge`, or None without --prompts."""

    @functools.wraps(command)
    def run(
        prompts: Path | None,
        endpoint: str,
        answering_model: str,
        judging_model: str,
        key_file: Path | None,
        token_budget: int,
        **arguments: Any,
    ) -> None:
        judge = None
        if prompts is not None:
            key = key_file.read_text("utf-8").strip() if key_file else ""
            answering, judging = (
                Endpoint(url=endpoint, model=model, key=key, seconds=REQUEST_SECONDS)
                for model in (answering_model, judging_model or answering_model)
            )
            try:
                answering.check("--endpoint")
                judge = Judge(
                    prompts=read_prompts(prompts),
                    answering=ChatClient(answering, service=_SERVICE),
                    judging=ChatClient(judging, service=_SERVICE),
                    token_budget=token_budget,
                )
            except (RecordInvalid, SettingInvalid) as error:
                raise CommandError(str(error), ExitCode.REFUSED) from error
        command(judge=judge, **arguments)

    for option in (
        click.option(
            "--token-budget", type=click.IntRange(1, 100_000), default=4000, show_default=True, help="Of a context."
        ),
        click.option(
            "--model-key-file",
            "key_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with the key of the endpoint.",
        ),
        click.option("--judge-model", "judging_model", default="", help="The model that judges; --model by default."),
        click.option("--model", "answering_model", default="", help="The model that answers from contexts."),
        click.option(
            "--endpoint", default="http://127.0.0.1:11434/v1", show_default=True, help="OpenAI-compatible API of both."
        ),
        click.option(
            "--prompts",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Also let a model answer, and a model judge, by the prompts of this file (docs/guides/measuring.md).",
        ),
    ):
        run = option(run)
    return cast("Decorated", run)


def judged_document(judge: Judge | None, answers: Sequence[JudgedAnswer]) -> dict[str, Any] | None:
    """Return the figures of judged answers; None without a judge."""
    if judge is None:
        return None
    seconds = [answer.seconds for answer in answers if not answer.failure]
    count = max(len(answers), 1)
    return {
        "answering_model": judge.answering.endpoint.model,
        "judging_model": judge.judging.endpoint.model,
        "overall": _scores(answers),
        "categories": {name: _scores(some) for name, some in by_category(answers).items()},
        "failures": sorted(answer.failure for answer in answers if answer.failure),
        "tokens_per_question": {
            name: round(sum(getattr(answer, f"{name}_tokens") for answer in answers) / count)
            for name in ("context", "answer", "judge")
        },
        "latency_ms": {"p50": percentile(seconds, 0.5), "p95": percentile(seconds, 0.95)},
    }


def _scores(answers: Sequence[JudgedAnswer]) -> dict[str, Any]:
    scores = [[answer.score] for answer in answers if answer.score is not None]
    figures: dict[str, Any] = {"questions": len(scores)}
    for mean in means(scores, seed=SEED):
        figures["score"] = mean.as_json()
    return figures


def print_judged(document: Mapping[str, Any] | None) -> None:
    """Print the scores of judged answers by category, their tokens and times."""
    if document is None:
        return
    parts = {**document["categories"], "all": document["overall"]}
    rows = [
        (name, part["questions"], interval(part["score"], "{:.3f}")) for name, part in parts.items() if "score" in part
    ]
    table = output.table(
        "category", "questions", "score", title="Answers, judged by a model", numbers=("questions", "score")
    )
    output.print_table(table, rows, empty="No answer was judged.")
    tokens, latency = document["tokens_per_question"], document["latency_ms"]
    output.stdout_console().print(
        Text(
            f"Answers of {document['answering_model']}, judged by {document['judging_model']}. Tokens a question: "
            f"{tokens['context']} of context, {tokens['answer']} to answer, {tokens['judge']} to judge. "
            f"Answer p50 {latency['p50']:.0f} ms, p95 {latency['p95']:.0f} ms."
        )
    )
    if document["failures"]:
        message = (
            f"{len(document['failures'])} questions without a score: {', '.join(sorted(set(document['failures'])))}."
        )
        output.stderr_console().print(Text(message, style="red"))
