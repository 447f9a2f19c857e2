"""LongMemEval's questions, each with a haystack of sessions of its own, read one at a time.

Retrieval is measured by sessions: a turn that is found finds its session.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2
from skein_cluster.bench.conversations import ROLES, BenchQuestion
from skein_cluster.bench.measures import ScoredQuestion
from skein_importers.errors import SourceInvalid
from skein_importers.records import RecordInvalid
from skein_importers.sources.json_stream import entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# "2023/05/20 (Sat) 02:21"; no time zone is given, so it is taken as UTC.
_TIME_FORMAT = "%Y/%m/%d %H:%M"
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")
# The end of the id of a question that its haystack does not answer.
_ABSTENTION = "_abs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Haystack:
    """A question, and the turns among which its answer is."""

    # Its evidence are ids of sessions; without evidence nothing answers it.
    question: BenchQuestion
    messages: Sequence[session_pb2.Message]
    # The id of the session of each message, by external id.
    sessions: Mapping[str, str]

    def by_session(self, hit_ids: Iterable[str]) -> ScoredQuestion:
        """Return the question with the sessions of the hits, each at the place of its best hit."""
        found = dict.fromkeys(self.sessions[hit_id] for hit_id in hit_ids)
        return ScoredQuestion(category=self.question.category, evidence=self.question.evidence, hit_ids=tuple(found))


def read_haystacks(path: Path) -> Iterator[Haystack]:
    """Read the questions in order, with one haystack in memory at a time. Raises RecordInvalid for another format."""
    number = 0
    try:
        for _, record in entries(str(path), (), ()):
            number += 1
            yield _checked_haystack(path, number, record)
    except SourceInvalid as error:
        raise RecordInvalid(str(error)) from None
    if not number:
        raise RecordInvalid(f"{path} holds no question.")


def _checked_haystack(path: Path, number: int, record: Any) -> Haystack:
    try:
        return _haystack(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise RecordInvalid(f"{path}: entry {number} is no question of LongMemEval ({problem}).") from None


def _haystack(record: dict[str, Any]) -> Haystack:
    names = [str(name) for name in record["haystack_session_ids"]]
    messages: list[session_pb2.Message] = []
    sessions: dict[str, str] = {}
    parts = zip(names, record["haystack_dates"], record["haystack_sessions"], strict=True)
    for number, (name, date, turns) in enumerate(parts, start=1):
        for message in _messages(number, _time(date), turns):
            messages.append(message)
            sessions[message.external_id] = name
    if not messages:
        raise ValueError("a haystack has no turns")
    return Haystack(question=_question(record, frozenset(names)), messages=messages, sessions=sessions)


def _question(record: dict[str, Any], names: frozenset[str]) -> BenchQuestion:
    question_id = str(record["question_id"])
    has_answer = not question_id.endswith(_ABSTENTION)
    evidence = frozenset(str(name) for name in record["answer_session_ids"]) if has_answer else frozenset[str]()
    if has_answer and not evidence:
        raise ValueError(f"{question_id} has no answer_session_ids")
    if missing := sorted(evidence - names):
        raise ValueError(f"{question_id} has no session {missing[0]}")
    return BenchQuestion(str(record["question"]), str(record["question_type"]), evidence, question_id=question_id)


def _messages(session: int, at: datetime, turns: Sequence[dict[str, Any]]) -> Iterator[session_pb2.Message]:
    """Yield the turns of a session that have a text. Their session's name there tells nothing of the answer."""
    for index, turn in enumerate(turns):
        role, content = ROLES[turn["role"]], str(turn["content"])
        if not content.strip():
            continue
        message = session_pb2.Message(
            external_id=f"{session}:{index + 1}", session_id=f"session_{session}", role=role, content=content
        )
        # One second apart, so that turns keep their order.
        message.create_time.FromDatetime(at + timedelta(seconds=index))
        yield message


def _time(date: str) -> datetime:
    return datetime.strptime(_WEEKDAY.sub(" ", date).strip(), _TIME_FORMAT).replace(tzinfo=UTC)
