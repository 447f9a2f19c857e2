"""Measures whether relevance is a probability, with corpora of your own, and draws it.

    .venv/bin/python tests/bench/relevance.py FILE... --plot docs/internals/relevance.svg

FILE is a list of LoCoMo samples (.json), which is measured as messages and as memories without a session, or a corpus
of `skein bench corpus` (.jsonl). The cluster is that of SKEIN_ENDPOINT, as its operator (SKEIN_OPERATOR_KEY), and its
active model is measured. Each group's questions are asked in the group's own tenant and in the tenant of the next
group, where nothing answers them: of two files or groups at least. Printed are, for each file, recall@10 without a cut,
the share of it that the default cuts keep, the share of the unanswerable questions that they silence, the hits of an
answer, the expected calibration error over all hits (ten bins of equal width), the area under the ROC curve of the best
relevance of answerable and of unanswerable questions, and what other cuts keep and silence. Then come the coefficients
of `relevance.relevances`, fitted to all files with equal weight.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.bench.conversations import BenchQuestion, read_conversations
from skein_cluster.bench.corpus import read_corpus
from skein_cluster.bench.run import BenchItems, temporary_tenant
from skein_cluster.cli.recall_hits import hit_name
from skein_recall.search.search_transaction import names_in

_LIMIT = 10
_BINS = 10
_ITERATIONS = 60
_WIDTH, _HEIGHT, _MARGIN = 420, 320, 44
_AXIS = "share of expected hits"
_MIN_BEST = (0.0, 0.02, 0.03, 0.05, 0.08, 0.1, 0.2)
_MIN_EACH = (0.0, 0.01, 0.015, 0.02)


@dataclasses.dataclass(frozen=True)
class Group:
    """What is stored in one tenant, and its questions."""

    # Of what it is a part in the figures.
    part: str
    name: str
    items: BenchItems
    questions: Sequence[BenchQuestion]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Hits of some questions: float64 arrays (questions, _LIMIT), 0 where a question has fewer hits."""

    scores: NDArray[np.float64]
    relevances: NDArray[np.float64]
    # 1 where the hit is expected.
    expected: NDArray[np.float64]
    # Documents of the tenant, float64 (questions, 1).
    documents: NDArray[np.float64]
    # The greatest cosine with one of them, and the share of the question's names that none has: float64 (questions, 1).
    nearest: NDArray[np.float64]
    unknown_names: NDArray[np.float64]


def read_groups(path: Path) -> list[Group]:
    """Read a file of either form."""
    if path.suffix == ".json":
        conversations = read_conversations(path)
        as_messages = [
            Group(f"{path.stem}, messages", each.name, BenchItems(messages=each.messages), each.questions)
            for each in conversations
        ]
        return as_messages + [
            Group(
                f"{path.stem}, memories",
                each.name,
                BenchItems(memories=[_alone(memory) for memory in each.memories], keep_memory_times=True),
                each.questions,
            )
            for each in conversations
        ]
    return [
        Group(
            path.stem,
            each.name,
            BenchItems(messages=each.messages, memories=each.memories, links=each.links, aliases=each.aliases),
            each.questions,
        )
        for each in read_corpus(path)
    ]


def _alone(memory: memory_pb2.Memory) -> memory_pb2.Memory:
    """Return a memory without its session."""
    alone = memory_pb2.Memory()
    alone.CopyFrom(memory)
    alone.session_id = ""
    return alone


@dataclasses.dataclass(frozen=True)
class Row:
    """The answer to one question."""

    # Score, relevance and expectation of each hit.
    hits: Sequence[tuple[float, float, bool]]
    # Share of the question's evidence among the hits, without a cut and with the default ones.
    recall: float
    served_recall: float
    # Hits with the default cuts.
    served_hits: int
    documents: int
    nearest: float
    unknown_names: float


async def ask(api: Client, questions: Sequence[BenchQuestion], group: Group, *, is_own: bool) -> list[Row]:
    """Ask the tenant of a group the questions that have an answer somewhere."""
    rows = []
    texts = [f"{each.name} {each.content}" for each in group.items.messages]
    texts += [each.content for each in group.items.memories]
    words = set(re.findall(r"\w+", " ".join(texts).casefold()))
    for question in questions:
        if not question.evidence:
            continue
        request = gateway_pb2.RecallRequest(
            query=question.text, limit=_LIMIT, filter=question.filter, min_relevance=0, show_duplicates=True
        )
        hits = (await api.gateway.Recall(request)).hits
        served = (await api.gateway.Recall(gateway_pb2.RecallRequest(query=question.text, filter=question.filter))).hits
        by_meaning = gateway_pb2.RecallRequest(
            query=question.text, limit=1, filter=question.filter, mode=recall_pb2.SEARCH_MODE_SEMANTIC
        )
        nearest = (await api.gateway.Recall(by_meaning)).hits
        names = names_in(question.text)
        rows.append(
            Row(
                hits=[(hit.score, hit.relevance, is_own and hit_name(hit) in question.evidence) for hit in hits],
                recall=_recall(hits, question) if is_own else 0.0,
                served_recall=_recall(served[:_LIMIT], question) if is_own else 0.0,
                served_hits=len(served),
                documents=len(group.items.messages) + len(group.items.memories),
                nearest=nearest[0].similarity if nearest else 0.0,
                unknown_names=len(names - words) / max(1, len(names)),
            )
        )
    return rows


def _recall(hits: Sequence[recall_pb2.Hit], question: BenchQuestion) -> float:
    """Return the share of a question's evidence that hits find, also as older items of the same text."""
    found = {name for hit in hits for name in (hit_name(hit), hit.item_id, *hit.duplicate_ids)}
    return len(found & question.evidence) / len(question.evidence)


def answers(rows: Sequence[Row]) -> Answers:
    """Make arrays of the answers to questions."""
    table = np.zeros((len(rows), _LIMIT, 3))
    for index, row in enumerate(rows):
        # A question may have no hit at all.
        table[index, : len(row.hits)] = np.array(row.hits).reshape(-1, 3)
    return Answers(
        scores=table[:, :, 0],
        relevances=table[:, :, 1],
        expected=table[:, :, 2],
        documents=_column([row.documents for row in rows]),
        nearest=_column([row.nearest for row in rows]),
        unknown_names=_column([row.unknown_names for row in rows]),
    )


def _column(values: Sequence[float]) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64).reshape(-1, 1)


def answer_features(part: Answers) -> NDArray[np.float64]:
    """Return 1 and the four features of the best hit in `relevance.relevances`: float64 (questions, 5)."""
    best = part.scores[:, :1]
    chance = np.sqrt(np.log(np.clip(part.documents, 20, 3000)))
    return np.concatenate([np.ones_like(best), best, chance, part.nearest, part.unknown_names], axis=1)


def hit_features(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 and the three features of each hit in `relevance.relevances`: float64 (hits, 4)."""
    best = np.maximum(scores[:, :1], 1e-9)
    first = np.zeros_like(scores)
    first[:, 0] = scores[:, 0]
    return np.stack([np.ones_like(scores), scores, scores / best, first], axis=-1).reshape(-1, 4)


def fit(parts: Sequence[Answers]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit the coefficients (5,) of answers and those (4,) of hits; each part has the same weight.

    Answers with an expected hit weigh as much as those without. Of the former alone the hits count.
    """
    has_expected = [part.expected.any(axis=1) for part in parts]
    of_answers = _logistic(
        [answer_features(part) for part in parts],
        [np.asarray(shown, dtype=np.float64) for shown in has_expected],
        [np.where(shown, 1 / max(shown.sum(), 1), 1 / max((~shown).sum(), 1)) for shown in has_expected],
    )
    expected = [part.expected[shown] for part, shown in zip(parts, has_expected, strict=True)]
    of_hits = _logistic(
        [hit_features(part.scores[shown]) for part, shown in zip(parts, has_expected, strict=True)],
        [each.ravel() for each in expected],
        [np.full(each.size, 1 / max(each.size, 1)) for each in expected],
    )
    return of_answers, of_hits


def _logistic(
    features: Sequence[NDArray[np.float64]],
    labels: Sequence[NDArray[np.float64]],
    weights: Sequence[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Fit a logistic regression by Newton's method."""
    rows, expected, weight = np.concatenate(features), np.concatenate(labels), np.concatenate(weights)
    coefficients = np.zeros(rows.shape[1])
    for _ in range(_ITERATIONS):
        probabilities = 1 / (1 + np.exp(-rows @ coefficients))
        gradient = rows.T @ (weight * (probabilities - expected)) + 1e-6 * coefficients
        curvature = (rows * (weight * probabilities * (1 - probabilities))[:, np.newaxis]).T @ rows
        coefficients -= np.linalg.solve(curvature + 1e-6 * np.eye(len(coefficients)), gradient)
    return coefficients


def cut(own: Answers, other: Answers, *, best: float, each: float) -> tuple[float, float]:
    """Return the share of the expected hits that two cuts keep, and of the unanswerable questions without any hit."""

    def shown(part: Answers) -> NDArray[np.bool_]:
        return (part.relevances >= each) & (part.relevances[:, :1] >= best)

    kept = (own.expected * shown(own)).sum() / max(own.expected.sum(), 1)
    return float(kept), float((~shown(other).any(axis=1)).mean())


def bins(part: Answers) -> list[tuple[int, float, float]]:
    """Return of each bin that has hits their number, mean relevance, and share of expected ones."""
    relevances, expected = part.relevances.ravel(), part.expected.ravel()
    edges = np.linspace(0, 1, _BINS + 1)
    edges[-1] = 1.01
    return [
        (int(inside.sum()), float(relevances[inside].mean()), float(expected[inside].mean()))
        for low, high in pairwise(edges)
        if (inside := (relevances >= low) & (relevances < high)).any()
    ]


def calibration_error(part: Answers) -> float:
    """Return the expected calibration error over all hits."""
    return sum(count * abs(mean - share) for count, mean, share in bins(part)) / part.expected.size


def area_under_roc(own: Answers, other: Answers) -> float:
    """Return the probability that an answerable question's best relevance is above an unanswerable one's."""
    best, worst = own.relevances.max(axis=1), other.relevances.max(axis=1)
    above = best[:, np.newaxis] > worst
    equal = best[:, np.newaxis] == worst
    return float(above.mean() + equal.mean() / 2)


def svg(parts: dict[str, Answers]) -> str:
    """Draw the share of expected hits over relevance, a line for each file; the diagonal is perfect calibration."""
    colours = ("#3f51b5", "#e65100", "#2e7d32", "#6a1b9a")
    side_x, side_y = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN

    def point(x: float, y: float) -> str:
        return f"{_MARGIN + x * side_x:.1f},{_HEIGHT - _MARGIN - y * side_y:.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        "<style>svg{background:#fff}text{font:12px sans-serif;fill:#444}polyline{fill:none;stroke-width:2}</style>",
        f'<polyline points="{point(0, 1)} {point(0, 0)} {point(1, 0)}" stroke="#999"/>',
        f'<polyline points="{point(0, 0)} {point(1, 1)}" stroke="#ccc" stroke-dasharray="4"/>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 12}" text-anchor="middle">relevance</text>',
        f'<text x="14" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {_HEIGHT / 2})">{_AXIS}</text>',
    ]
    for index, (name, part) in enumerate(parts.items()):
        colour = colours[index % len(colours)]
        points = " ".join(point(mean, share) for _, mean, share in bins(part))
        lines.append(f'<polyline points="{points}" stroke="{colour}"/>')
        lines.append(f'<text x="{_MARGIN + 8}" y="{_MARGIN + 16 * index}" style="fill:{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>\n"])


def print_served(name: str, own: Sequence[Row], other: Sequence[Row]) -> None:
    """Print what the default cuts keep and silence."""
    recall, served = (
        float(np.mean(shares)) for shares in zip(*[(r.recall, r.served_recall) for r in own], strict=True)
    )
    hits = float(np.mean([row.served_hits for row in own]))
    silenced = float(np.mean([row.served_hits == 0 for row in other]))
    print(
        f"{name}: {len(own)} and {len(other)} questions, recall@10 {recall:.3f}, by default {served / recall:.3f} of it"
    )
    print(f"    at {hits:.1f} hits an answer, {silenced:.3f} silenced")


async def measure(paths: Sequence[Path]) -> dict[str, tuple[Answers, Answers]]:
    """Store all groups of all files; ask each group's questions in its own tenant and in the next one."""
    connection = Connection(
        endpoint=os.environ["SKEIN_ENDPOINT"], api_key=os.environ["SKEIN_OPERATOR_KEY"], timeout=30.0
    )
    async with AsyncExitStack() as stack:
        stored = [
            (group, await stack.enter_async_context(temporary_tenant(connection, group.name, group.items)))
            for path in paths
            for group in read_groups(path)
        ]
        own: dict[str, list[Row]] = {}
        other: dict[str, list[Row]] = {}
        for index, (group, api) in enumerate(stored):
            following = [*stored[index + 1 :], *stored[:index]]
            # One conversation is stored in two forms.
            next_group, next_api = next(each for each in following if each[0].name != group.name)
            for rows, asked_api, asked_group in ((own, api, group), (other, next_api, next_group)):
                answered = await ask(asked_api, group.questions, asked_group, is_own=rows is own)
                rows.setdefault(group.part, []).extend(answered)
            print(f"{group.part}, {group.name}: {len(group.questions)} questions", file=sys.stderr)
    for name, rows_of_part in own.items():
        print_served(name, rows_of_part, other[name])
    return {name: (answers(own[name]), answers(other[name])) for name in own}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Measure whether relevance is a probability.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    measured = asyncio.run(measure(options.files))
    parts: dict[str, Answers] = {}
    for name, (own, other) in measured.items():
        parts[name] = Answers(
            **{
                field.name: np.concatenate([getattr(own, field.name), getattr(other, field.name)])
                for field in dataclasses.fields(Answers)
            }
        )
        print(f"{name}: calibration error {calibration_error(parts[name]):.3f}, AUROC {area_under_roc(own, other):.3f}")
        for count, mean, share in bins(parts[name]):
            print(f"    {count:6} hits of relevance {mean:.3f}: {share:.3f} expected")
        for best in _MIN_BEST:
            for each in _MIN_EACH:
                kept, silenced = cut(own, other, best=best, each=each)
                print(f"    best {best:<5} each {each:<5}: {kept:.3f} of the expected hits, {silenced:.3f} silenced")
    for name, coefficients in zip(("answers", "hits"), fit(list(parts.values())), strict=True):
        print(f"coefficients of {name}:", ", ".join(f"{value:.2f}" for value in coefficients))
    if options.plot is not None:
        options.plot.write_text(svg(parts), "utf-8")


if __name__ == "__main__":
    main()
