"""Published datasets as haystacks: the turns of one tenant, and the questions that are asked there.

`DATASETS` names how each file or folder is read, and what a hit counts as: itself, or its session.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from skein.session.v1 import session_pb2
from skein_cluster.bench.conversations import ROLES, BenchQuestion
from skein_cluster.bench.measures import MEASURES, SESSION_MEASURES, ScoredQuestion
from skein_importers.errors import SourceInvalid
from skein_importers.records import RecordInvalid
from skein_importers.sources.json_stream import entries

# "2023/05/20 (Sat) 02:21"; no time zone is given, so it is taken as UTC.
_TIME_FORMAT = "%Y/%m/%d %H:%M"
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")
# The end of the id of a question that its haystack does not answer.
_ABSTENTION = "_abs"
# "March-15-2024", on some messages of BEAM.
_ANCHOR_FORMAT = "%B-%d-%Y"
# Fields of BEAM's questions that hold the answer, by kind of question; those without one have a rubric alone.
_BEAM_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")


@dataclass(frozen=True, kw_only=True, slots=True)
class Haystack:
    """Questions, and the turns among which their answers are."""

    name: str
    # Without evidence nothing answers a question.
    questions: Sequence[BenchQuestion]
    messages: Sequence[session_pb2.Message]
    # What a message counts as, by external id; itself where it has no entry.
    units: Mapping[str, str] = field(default_factory=dict)

    def by_unit(self, question: BenchQuestion, hit_ids: Iterable[str]) -> ScoredQuestion:
        """Return a question with what its hits count as, each at the place of its best hit."""
        found = dict.fromkeys(self.units.get(hit_id, hit_id) for hit_id in hit_ids)
        return ScoredQuestion(category=question.category, evidence=question.evidence, hit_ids=tuple(found))


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """How a published dataset is read and measured."""

    # Yields one haystack at a time; raises RecordInvalid for another format.
    read: Callable[[Path], Iterator[Haystack]]
    measures: tuple[str, ...]
    # Hits of an answer.
    limit: int


def read_longmemeval(path: Path) -> Iterator[Haystack]:
    """Read LongMemEval: each question has a haystack of its own, and a turn that is found finds its session."""
    number = 0
    try:
        for _, record in entries(str(path), (), ()):
            number += 1
            yield _checked(f"{path}: entry {number} is no question of LongMemEval", _longmemeval, record)
    except SourceInvalid as error:
        raise RecordInvalid(str(error)) from None
    if not number:
        raise RecordInvalid(f"{path} holds no question.")


def read_beam(folder: Path) -> Iterator[Haystack]:
    """Read BEAM: a folder for each chat, with `chat.json` and `probing_questions/probing_questions.json`."""
    chats = sorted(folder.glob("*/chat.json"), key=lambda path: (len(path.parent.name), path.parent.name))
    if not chats:
        raise RecordInvalid(f"{folder} has no folder with a chat.json; name one of BEAM's sizes, such as chats/100K.")
    for chat in chats:
        yield _checked(f"{chat.parent} is no chat of BEAM", _beam, chat.parent)


DATASETS: Mapping[str, Dataset] = {
    # Ten sessions need more turns than ten.
    "longmemeval": Dataset(read=read_longmemeval, measures=SESSION_MEASURES, limit=50),
    "beam": Dataset(read=read_beam, measures=MEASURES, limit=25),
}


def _checked(problem: str, read: Callable[[Any], Haystack], source: Any) -> Haystack:
    try:
        return read(source)
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise RecordInvalid(f"{problem} ({type(error).__name__}: {error}).") from None


def _longmemeval(record: dict[str, Any]) -> Haystack:
    names = [str(name) for name in record["haystack_session_ids"]]
    messages: list[session_pb2.Message] = []
    units: dict[str, str] = {}
    parts = zip(names, record["haystack_dates"], record["haystack_sessions"], strict=True)
    for number, (name, date, turns) in enumerate(parts, start=1):
        for index, turn in enumerate(turns):
            # The name of its session there would tell the answer.
            message = _message(f"{number}:{index + 1}", f"session_{number}", turn, _time(date), index)
            if message is not None:
                messages.append(message)
                units[message.external_id] = name
    if not messages:
        raise ValueError("a haystack has no turns")
    question = _longmemeval_question(record, frozenset(names))
    return Haystack(name=question.question_id, questions=[question], messages=messages, units=units)


def _longmemeval_question(record: dict[str, Any], names: frozenset[str]) -> BenchQuestion:
    question_id = str(record["question_id"])
    has_answer = not question_id.endswith(_ABSTENTION)
    evidence = frozenset(str(name) for name in record["answer_session_ids"]) if has_answer else frozenset[str]()
    if has_answer and not evidence:
        raise ValueError(f"{question_id} has no answer_session_ids")
    if missing := sorted(evidence - names):
        raise ValueError(f"{question_id} has no session {missing[0]}")
    return BenchQuestion(
        str(record["question"]),
        str(record["question_type"]),
        evidence,
        question_id=question_id,
        answer=str(record["answer"]),
        asked_on=str(record["question_date"]),
    )


def _beam(folder: Path) -> Haystack:
    batches = json.loads((folder / "chat.json").read_text("utf-8"))
    messages: list[session_pb2.Message] = []
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for batch in batches:
        for turn in itertools.chain.from_iterable(batch["turns"]):
            if anchor := turn.get("time_anchor"):
                at = datetime.strptime(anchor, _ANCHOR_FORMAT).replace(tzinfo=UTC)
            message = _message(str(turn["id"]), f"batch_{batch['batch_number']}", turn, at, len(messages))
            if message is not None:
                messages.append(message)
    probing = json.loads((folder / "probing_questions" / "probing_questions.json").read_text("utf-8"))
    known = frozenset(message.external_id for message in messages)
    questions = [
        _beam_question(f"{folder.name}:{kind}:{number}", kind, record, known)
        for kind, records in probing.items()
        for number, record in enumerate(records, start=1)
    ]
    return Haystack(name=folder.name, questions=questions, messages=messages)


def _beam_question(question_id: str, kind: str, record: dict[str, Any], known: frozenset[str]) -> BenchQuestion:
    evidence = frozenset(str(source) for source in _numbers(record.get("source_chat_ids", [])))
    if missing := sorted(evidence - known):
        raise ValueError(f"{question_id} has no message {missing[0]}")
    return BenchQuestion(
        str(record["question"]),
        kind,
        evidence,
        question_id=question_id,
        answer=next((str(record[name]) for name in _BEAM_ANSWERS if name in record), ""),
        rubric=tuple(str(item) for item in record["rubric"]),
    )


def _numbers(sources: Any) -> Iterator[int]:
    """Yield the ids of messages in a list, or in the lists of an object."""
    if isinstance(sources, int):
        yield sources
    else:
        for part in sources.values() if isinstance(sources, dict) else sources:
            yield from _numbers(part)


def _message(
    external_id: str, session_id: str, turn: dict[str, Any], at: datetime, index: int
) -> session_pb2.Message | None:
    """Return a turn as a message; None without a text. Each is one second later, so that turns keep their order."""
    role, content = ROLES[turn["role"]], str(turn["content"])
    if not content.strip():
        return None
    message = session_pb2.Message(external_id=external_id, session_id=session_id, role=role, content=content)
    message.create_time.FromDatetime(at + timedelta(seconds=index))
    return message


def _time(date: str) -> datetime:
    return datetime.strptime(_WEEKDAY.sub(" ", date).strip(), _TIME_FORMAT).replace(tzinfo=UTC)
