"""`skein bench`: recall quality of a running cluster, in comparable figures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from skein_client.client import Client
from skein_cluster.api.client import as_tenant, operator_connection
from skein_cluster.bench import curve
from skein_cluster.bench.answers import Judge, JudgedAnswer
from skein_cluster.bench.conversations import BenchQuestion, Conversation, read_conversations
from skein_cluster.bench.corpus import DEFAULT_GROUP, CorpusGroup, read_corpus, read_questions
from skein_cluster.bench.curve import CurvePoint
from skein_cluster.bench.exactness import CUTS, ExactAnswer, Exactness, ScoredHit
from skein_cluster.bench.measures import (
    MEASURES,
    RANK_MEASURES,
    RECALL_MEASURES,
    ScoredQuestion,
    ablation_loss,
    by_category,
    measures_within,
)
from skein_cluster.bench.run import LIMIT, BenchItems, BenchResult, Form, ask_questions, run_ablations, temporary_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.commands.bench_haystacks import beam_command, longmemeval_command
from skein_cluster.commands.bench_judge import judge_options, judged_document, print_judged
from skein_cluster.commands.bench_report import (
    SEED,
    answer_figures,
    interval,
    measures_document,
    print_circumstances,
    print_measures,
)
from skein_cluster.commands.import_export import progress
from skein_importers.records import RecordInvalid

_MAX_LIMIT = 100


@dataclass(slots=True)
class _BenchRun:
    """Questions, results and times so far."""

    judge: Judge | None
    judged: list[JudgedAnswer] = field(default_factory=list)
    scored_questions: list[ScoredQuestion] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    items: int = 0
    degraded: int = 0
    model: str = ""
    conversations: list[dict[str, Any]] = field(default_factory=list)
    # For each signal: the questions with all signals, and without it.
    without: dict[str, tuple[list[ScoredQuestion], list[ScoredQuestion]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CorpusAnswer:
    """One question of a corpus with its answer."""

    group: CorpusGroup
    question: BenchQuestion
    scored: ScoredQuestion
    hits: tuple[ScoredHit, ...]

    @property
    def best_score(self) -> float:
        """Return the score of the first hit; 0 without hits."""
        return self.hits[0].score if self.hits else 0.0

    @property
    def exact(self) -> ExactAnswer:
        """Return it as the answer to an exact question."""
        evidence = self.question.evidence
        aliases = self.group.aliases_of(evidence)
        hits = tuple(hit for hit in self.hits if hit.item_id not in aliases)
        return ExactAnswer(category=self.question.category, evidence=evidence, hits=hits)


@dataclass(slots=True)
class _CorpusRun:
    """Answers and times of a corpus so far."""

    limit: int
    min_relevance: float | None
    # Whether to ask once more without a cut.
    has_curve: bool
    answers: list[_CorpusAnswer] = field(default_factory=list)
    answers_without_cut: list[_CorpusAnswer] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    degraded: int = 0
    model: str = ""

    async def ask(self, api: Client, group: CorpusGroup) -> None:
        """Ask the questions of one group and add the answers."""
        result = await ask_questions(api, group.questions, None, limit=self.limit, min_relevance=self.min_relevance)
        self.answers += _answers(group, result)
        if self.has_curve:
            without_cut = await ask_questions(api, group.questions, None, limit=self.limit, min_relevance=0.0)
            self.answers_without_cut += _answers(group, without_cut)
        self.seconds += result.seconds
        self.degraded += result.degraded
        self.model = self.model or result.model

    def answerable(self, group: str | None = None) -> list[ScoredQuestion]:
        """Return the questions that have an answer, of one group or of all."""
        return [
            answer.scored
            for answer in self.answers
            if answer.question.evidence and (group is None or answer.group.name == group)
        ]

    def exact_answers(self) -> list[ExactAnswer]:
        """Return the answers to exact questions."""
        return [answer.exact for answer in self.answers if answer.question.is_exact]

    def never_found_ids(self) -> list[str]:
        """Return the expected ids that no answer holds, such as those of items that do not exist."""
        answers = [*self.answers, *self.answers_without_cut]
        found = {name for answer in answers for name in answer.scored.hit_ids}
        return sorted({name for answer in answers for name in answer.question.evidence} - found)

    def curve(self) -> list[CurvePoint]:
        """Return what each cut leaves of all answers; empty without `has_curve`."""
        return curve.relevance_curve([answer.exact for answer in self.answers_without_cut])


def _answers(group: CorpusGroup, result: BenchResult) -> list[_CorpusAnswer]:
    parts = zip(group.questions, result.scored_questions, result.hits, strict=True)
    return [_CorpusAnswer(group, *part) for part in parts]


def _answer_options(command: options.Decorated) -> options.Decorated:
    """Add --limit, --min-relevance and --plot."""
    for option in (
        click.option(
            "--plot",
            type=click.Path(dir_okay=False, writable=True, path_type=Path),
            help="Ask again without a cut, and draw recall, precision and abstention over the cut into this SVG.",
        ),
        click.option(
            "--min-relevance",
            type=click.FloatRange(0, 1),
            help="Leave out hits of a lower relevance; without it the default of the tenant applies.",
        ),
        click.option(
            "--limit",
            type=click.IntRange(1, _MAX_LIMIT),
            default=LIMIT,
            show_default=True,
            help="Hits of each answer; measures of greater depth are left out.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def bench_command() -> None:
    """Measure the quality of recall: of your tenant, or of the cluster (as the operator, in temporary tenants)."""


bench_command.add_command(longmemeval_command, "longmemeval")
bench_command.add_command(beam_command, "beam")


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
@judge_options
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
    judge: Judge | None,
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
    run = _BenchRun(judge)
    asyncio.run(_run(environment, run, selected_conversations, form, ablation=ablation, keep=keep))
    document = _document(file, form, run)
    if as_json:
        output.print_json(document)
    else:
        _print(document)


@bench_command.command("corpus")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@_answer_options
@click.option("--keep", is_flag=True, help="Leave the tenants that were made.")
@options.cluster_options
@options.json_option
def corpus(
    file: Path,
    limit: int,
    min_relevance: float | None,
    plot: Path | None,
    environment: dict[str, str],
    *,
    keep: bool,
    as_json: bool,
) -> None:
    """Ask the questions of FILE, your own data, and print how many of the expected items come back.

    FILE holds messages, memories and questions, one JSON object a line; docs/guides/measuring.md describes them. Each
    group of lines gets a tenant of its own. Recall@k is the share of a question's expected ids among its first k hits,
    the mean over all questions; brackets hold 95 % intervals. Questions without expected ids count apart. Of exact
    questions nothing but the expected items may come back: the command prints how many are met, also after some cuts.
    """
    with _readable(file):
        groups = read_corpus(file)
    run = asyncio.run(_run_corpus(environment, groups, _CorpusRun(limit, min_relevance, plot is not None), keep=keep))
    document = {
        **_answers_document(file, run),
        "memories": sum(len(group.memories) for group in groups),
        "messages": sum(len(group.messages) for group in groups),
        "groups": [_group_document(group, run) for group in groups],
    }
    _draw(plot, run, file)
    if as_json:
        output.print_json(document)
    else:
        _print_corpus(document)


@bench_command.command("questions")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@_answer_options
@options.cluster_options
@options.json_option
@options.asynchronous
async def questions(
    file: Path,
    limit: int,
    min_relevance: float | None,
    plot: Path | None,
    environment: dict[str, str],
    *,
    as_json: bool,
) -> None:
    """Ask your tenant, as it is, the questions of FILE, and print how many of the expected items come back.

    FILE holds one JSON object a line: {"query": "...", "expected_ids": ["..."]}, with ids or external ids of memories
    and messages; docs/guides/measuring.md describes more fields. Nothing is stored; the key needs recall.read.
    Precision is the share of the hits that are expected, and abstention that of the questions without an answer that
    get no hit.
    """
    with _readable(file):
        group = CorpusGroup(name=DEFAULT_GROUP, questions=read_questions(file))
    run = _CorpusRun(limit, min_relevance, plot is not None)
    with progress(f"asking {len(group.questions)} questions", None):
        async with as_tenant(environment) as api:
            await run.ask(api, group)
    document = _answers_document(file, run)
    _draw(plot, run, file)
    if as_json:
        output.print_json(document)
    else:
        _print_questions(document)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn what is wrong with a line of a file into the command's error."""
    try:
        yield
    except RecordInvalid as error:
        example = f" A line that works:\n{error.hint}" if error.hint else ""
        raise CommandError(f"{file}: {error}{example}", ExitCode.REFUSED) from error


def _draw(path: Path | None, run: _CorpusRun, file: Path) -> None:
    if path is not None:
        title = f"{file.name}: {len(run.answers)} questions, {run.limit} hits at most"
        path.write_text(curve.svg(run.curve(), title), "utf-8")


async def _run(
    environment: Mapping[str, str],
    run: _BenchRun,
    conversations: Sequence[Conversation],
    form: Form,
    *,
    ablation: bool,
    keep: bool,
) -> None:
    connection = operator_connection(environment)
    for conversation in conversations:
        items = (
            BenchItems(messages=conversation.messages)
            if form == "messages"
            else BenchItems(memories=conversation.memories)
        )
        async with temporary_tenant(connection, conversation.name, items, keep=keep) as api:
            with progress(f"asking {conversation.name}", 0) as on_progress:
                answers = await ask_questions(api, conversation.questions, form)
                signals = sorted(answers.signals) if ablation else []
                without = await run_ablations(api, conversation.questions, form, signals, on_progress)
            if run.judge is not None:
                run.judged += await run.judge.judged(api, conversation.questions)
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
            {"name": conversation.name, form: len(conversation.memories), **measures_document(answers.scored_questions)}
        )


async def _run_corpus(
    environment: Mapping[str, str], groups: Sequence[CorpusGroup], run: _CorpusRun, *, keep: bool
) -> _CorpusRun:
    connection = operator_connection(environment)
    for group in groups:
        items = BenchItems(
            memories=group.memories,
            messages=group.messages,
            links=group.links,
            aliases=group.aliases,
            keep_memory_times=True,
        )
        with progress(f"asking {group.name}", None):
            async with temporary_tenant(connection, group.name, items, keep=keep) as api:
                await run.ask(api, group)
    return run


def _document(file: Path, form: Form, run: _BenchRun) -> dict[str, Any]:
    return {
        "file": file.name,
        "form": form,
        form: run.items,
        **answer_figures(run.model, run.degraded, run.seconds),
        "overall": measures_document(run.scored_questions),
        "categories": {
            name: measures_document(questions) for name, questions in by_category(run.scored_questions).items()
        },
        "conversations": run.conversations,
        "judged": judged_document(run.judge, run.judged),
        "ablation": {
            signal: {name: mean.as_json() for name, mean in ablation_loss(all_signals, ablated, seed=SEED).items()}
            for signal, (all_signals, ablated) in sorted(run.without.items())
        },
    }


def _group_document(group: CorpusGroup, run: _CorpusRun) -> dict[str, Any]:
    return {
        "name": group.name,
        "memories": len(group.memories),
        "messages": len(group.messages),
        **measures_document(run.answerable(group.name), measures_within(run.limit, (*RECALL_MEASURES, *RANK_MEASURES))),
    }


def _answers_document(file: Path, run: _CorpusRun) -> dict[str, Any]:
    measures = measures_within(run.limit, (*RECALL_MEASURES, *RANK_MEASURES))
    without_answer = [answer for answer in run.answers if not answer.question.evidence]
    return {
        "file": file.name,
        "limit": run.limit,
        "min_relevance": run.min_relevance,
        **answer_figures(run.model, run.degraded, run.seconds),
        "overall": measures_document(run.answerable(), measures),
        "whole_answers": Exactness.of([answer.exact for answer in run.answers]).as_json(),
        "answerable_without_hits": sum(not answer.hits for answer in run.answers if answer.question.evidence),
        "never_found_ids": run.never_found_ids(),
        "curve": [point.as_json() for point in run.curve()],
        "mean_best_score": _mean_best_score([answer for answer in run.answers if answer.question.evidence]),
        "unanswerable": {
            "questions": len(without_answer),
            "with_hits": sum(bool(answer.scored.hit_ids) for answer in without_answer),
            "mean_best_score": _mean_best_score(without_answer),
        },
        "categories": {
            name: measures_document(questions, measures) for name, questions in by_category(run.answerable()).items()
        },
        "exact": _exactness(run.exact_answers()),
        "answers": [
            {
                "group": answer.group.name,
                "id": answer.question.question_id,
                "category": answer.question.category,
                "expected_ids": sorted(answer.question.evidence),
                "is_exact": answer.exact.is_exact if answer.question.is_exact else None,
                "hit_ids": list(answer.scored.hit_ids),
                "best_score": round(answer.best_score, 4),
                "hits": [hit.as_json() for hit in answer.hits],
            }
            for answer in run.answers
        ],
    }


def _exactness(answers: Sequence[ExactAnswer]) -> dict[str, Any] | None:
    """Return the figures of exact questions; None without any."""
    if not answers:
        return None
    return {
        "overall": Exactness.of(answers).as_json(),
        "categories": {name: Exactness.of(some).as_json() for name, some in by_category(answers).items()},
        "cuts": [
            {
                "measure": cut.measure,
                "threshold": cut.threshold,
                **Exactness.of([answer.after(cut) for answer in answers]).as_json(),
            }
            for cut in CUTS
        ],
    }


def _mean_best_score(answers: Sequence[_CorpusAnswer]) -> float:
    """Return the mean score of first hits; an answer without hits counts 0."""
    return round(sum(answer.best_score for answer in answers) / len(answers), 4) if answers else 0.0


def _print(document: Mapping[str, Any]) -> None:
    print_measures(document, MEASURES, "Evidence found")
    if document["ablation"]:
        table = output.table("without", *MEASURES, title="Lost without a signal", numbers=MEASURES)
        losses = document["ablation"].items()
        rows = [(name, *(interval(part[measure], "{:+.3f}") for measure in MEASURES)) for name, part in losses]
        output.print_table(table, rows, empty="")
    print_judged(document["judged"])
    form = document["form"]
    print_circumstances(document, f"{document[form]} {form} in {len(document['conversations'])} tenants")


def _print_corpus(document: Mapping[str, Any]) -> None:
    print_measures(document, measures_within(document["limit"], RECALL_MEASURES), "Share of expected ids found")
    print_measures(document, measures_within(document["limit"], RANK_MEASURES), "Their ranks")
    unanswerable = document["unanswerable"]
    if unanswerable["questions"]:
        output.stdout_console().print(
            Text(
                f"Without an answer: {unanswerable['questions']}, with hits: {unanswerable['with_hits']}. Mean "
                f"best score {unanswerable['mean_best_score']:.3f}, of the other questions "
                f"{document['mean_best_score']:.3f}."
            )
        )
    if document["exact"]:
        _print_exactness(document["exact"])
    print_circumstances(
        document,
        f"{document['memories']} memories and {document['messages']} messages in {len(document['groups'])} tenants",
    )


def _print_questions(document: Mapping[str, Any]) -> None:
    print_measures(document, measures_within(document["limit"], RECALL_MEASURES), "Share of expected ids found")
    print_measures(document, measures_within(document["limit"], RANK_MEASURES), "Their ranks")
    whole, unanswerable = document["whole_answers"], document["unanswerable"]
    parts = [f"Precision {whole['precision']:.3f} at {whole['mean_hits']:.1f} hits an answer."]
    if document["overall"]["questions"]:
        parts.append(
            f"No hit: {document['answerable_without_hits']} of {document['overall']['questions']} questions that have "
            "an answer."
        )
    if unanswerable["questions"]:
        without_hits = unanswerable["questions"] - unanswerable["with_hits"]
        parts.append(
            f"Abstention {whole['abstention']:.3f}: no hit for {without_hits} of {unanswerable['questions']} questions "
            "without an answer."
        )
    output.stdout_console().print(Text(" ".join(parts)))
    if document["exact"]:
        _print_exactness(document["exact"])
    if document["curve"]:
        columns = ("recall", "precision", "abstention", "mean hits")
        table = output.table("min relevance", *columns, title="With only the hits above a relevance", numbers=columns)
        output.print_table(table, [_curve_cells(point) for point in document["curve"]], empty="")
    print_circumstances(document, f"{whole['questions']} questions")
    if document["never_found_ids"]:
        message = (
            f"{len(document['never_found_ids'])} expected ids are in no answer; check that the items exist (--json)."
        )
        output.stderr_console().print(Text(message, style="yellow"))


def _curve_cells(point: Mapping[str, Any]) -> tuple[object, ...]:
    shares = ("" if point[name] is None else f"{point[name]:.3f}" for name in ("recall", "precision", "abstention"))
    return f"{point['min_relevance']:g}", *shares, f"{point['mean_hits']:.1f}"


def _print_exactness(figures: Mapping[str, Any]) -> None:
    """Print how exact answers are, by category and after each cut."""
    columns = ("questions", "exact", "precision", "recall", "mean hits")
    parts = {**figures["categories"], "all": figures["overall"]}
    table = output.table("category", *columns, title="Exact questions", numbers=columns)
    output.print_table(table, [(name, *_exactness_cells(part)) for name, part in parts.items()], empty="")
    table = output.table("cut", *columns, title="With only the hits above a cut", numbers=columns)
    rows = [(f"{part['measure']} {part['threshold']}", *_exactness_cells(part)) for part in figures["cuts"]]
    output.print_table(table, [("none", *_exactness_cells(figures["overall"])), *rows], empty="")


def _exactness_cells(part: Mapping[str, Any]) -> tuple[object, ...]:
    recall = "" if part["recall"] is None else f"{part['recall']:.3f}"
    return part["questions"], part["exact"], f"{part['precision']:.3f}", recall, f"{part['mean_hits']:.1f}"
