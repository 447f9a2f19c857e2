"""Answers of a language model to the questions of a dataset, judged by a language model.

The prompts are those that a dataset's authors publish. Skein ships none: a TOML file holds them, by kind of question.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skein.gateway.v1 import gateway_pb2
from skein_client.client import Client
from skein_cluster.bench.conversations import BenchQuestion
from skein_importers.records import RecordInvalid
from skein_kit.language_model.chat_client import ChatClient, ChatModelError

# Of a prompt, filled in one pass: a text that looks like a field stays as it is.
_FIELD = re.compile(r"\{(question|answer|response|context|date|rubric)\}")
_VERDICT = re.compile(r"\b(yes|correct|no|wrong|incorrect)\b")
_RIGHT = frozenset({"yes", "correct"})
_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
# The key of the prompt that judges an answer to a question without evidence.
ABSTENTION = "abstention"
DEFAULT = "default"
# Questions in flight at one endpoint.
_AT_ONCE = 4
# The longest time of one request.
REQUEST_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """The prompt that answers, and those that judge by kind of question."""

    answer: str
    judges: Mapping[str, str]

    def judge_of(self, question: BenchQuestion) -> str:
        """Return the prompt for a question: of abstention where it has no evidence, of its kind, or the default."""
        kinds = (question.category,) if question.evidence else (ABSTENTION, question.category)
        return next((self.judges[kind] for kind in kinds if kind in self.judges), self.judges[DEFAULT])


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedAnswer:
    """What a judge says of one answer."""

    category: str
    # From 0 to 1; None where a model failed or the judge's words are no verdict. It counts in no mean.
    score: float | None
    # Of the context alone, and of all requests with their answers.
    context_tokens: int
    answer_tokens: int
    judge_tokens: int
    # From the question to its answer: the context and the model.
    seconds: float
    failure: str = ""


def read_prompts(path: Path) -> Prompts:
    """Read `answer` and the table `judge`, which needs `default`. Raises RecordInvalid."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        judges = {str(kind): str(prompt) for kind, prompt in document["judge"].items()}
        prompts = Prompts(answer=str(document["answer"]), judges={DEFAULT: judges[DEFAULT], **judges})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordInvalid(
            f'{path} should have answer = "… {{context}} … {{question}} …" and a table [judge] with default = '
            f'"… {{question}} … {{answer}} … {{response}} …" ({type(error).__name__}: {error}).'
        ) from None
    return prompts


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """A model that answers from contexts, and one that judges its answers."""

    prompts: Prompts
    answering: ChatClient
    judging: ChatClient
    # Most tokens of a context.
    token_budget: int

    async def judged(self, api: Client, questions: Sequence[BenchQuestion]) -> list[JudgedAnswer]:
        """Answer and judge the questions that have an answer or a rubric, in order."""
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def one(question: BenchQuestion) -> JudgedAnswer:
            async with at_once:
                return await self._judged(api, question)

        return await asyncio.gather(*(one(question) for question in questions if question.answer or question.rubric))

    async def _judged(self, api: Client, question: BenchQuestion) -> JudgedAnswer:
        started = time.perf_counter()
        recall = gateway_pb2.RecallRequest(query=question.text, filter=question.filter)
        context = await api.gateway.BuildContext(
            gateway_pb2.BuildContextRequest(recall=recall, token_budget=self.token_budget)
        )
        fields = {
            "question": question.text,
            "answer": question.answer,
            "date": question.asked_on,
            "context": context.text,
        }
        tokens = {"answer": 0, "judge": 0}
        score, failure, seconds = None, "", 0.0
        try:
            response, tokens["answer"] = await _completed(self.answering, self.prompts.answer, fields)
            seconds = time.perf_counter() - started
            scores: list[float] = []
            for item in question.rubric or ("",):
                said, used = await _completed(
                    self.judging, self.prompts.judge_of(question), {**fields, "response": response, "rubric": item}
                )
                tokens["judge"] += used
                scores.append(verdict(said))
            score = sum(scores) / len(scores)
        except (ChatModelError, ValueError) as error:
            failure = str(error)
        return JudgedAnswer(
            category=question.category,
            score=score,
            context_tokens=context.token_count,
            answer_tokens=tokens["answer"],
            judge_tokens=tokens["judge"],
            seconds=seconds,
            failure=failure,
        )


def verdict(text: str) -> float:
    """Return the score that a judge gives: a `score`, a `label`, or the only one of yes, no, correct and wrong.

    Raises ValueError for anything else.
    """
    document = _document(text)
    score = document.get("score")
    if isinstance(score, int | float) and 0 <= score <= 1:
        return float(score)
    words = set(_VERDICT.findall(str(document.get("label", text)).lower()))
    if len(words) != 1:
        raise ValueError("no verdict")
    return float(bool(words & _RIGHT))


def _document(text: str) -> Mapping[str, object]:
    found = _OBJECT.search(text)
    try:
        document = json.loads(found[0]) if found else {}
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


async def _completed(client: ChatClient, template: str, fields: Mapping[str, str]) -> tuple[str, int]:
    prompt = _FIELD.sub(lambda found: fields.get(found[1], found[0]), template)
    return await client.complete([{"role": "user", "content": prompt}], seconds=REQUEST_SECONDS)
