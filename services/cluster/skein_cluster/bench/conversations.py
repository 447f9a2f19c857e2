"""LoCoMo's conversations with questions. Each turn is one item, created at its session's date.

As memories, a turn has the form in which its authors measure retrieval: `Ann said, "..."`. As messages, its speaker is
the message's name. Beyond LoCoMo's format, a turn may have `"role": "assistant"`, and a question an `id`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_importers.locomo import SESSION, TIME_FORMAT
from skein_importers.records import RecordInvalid

# Roles of turns; LoCoMo's speakers are all persons.
ROLES = {"user": session_pb2.MESSAGE_ROLE_USER, "assistant": session_pb2.MESSAGE_ROLE_ASSISTANT}
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
# "D8:6; D9:17" names two turns, and "D:11:26" is meant to name one.
_TURN_ID = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class BenchQuestion:
    """A question, and the ids of the items that hold its answer."""

    text: str
    category: str
    evidence: frozenset[str]
    # Its id in its file; empty where questions have none.
    question_id: str = ""
    # What a right answer says, and what a judge looks for in an answer, one by one; empty where the file has none.
    answer: str = ""
    rubric: tuple[str, ...] = ()
    # The date of the question, as its file writes it; empty: now.
    asked_on: str = ""
    # Nothing but the evidence may come back.
    is_exact: bool = False
    # Who asks, and for which time; empty: who sees everything, and now.
    filter: memory_pb2.MemoryFilter = field(default_factory=memory_pb2.MemoryFilter)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation."""

    name: str
    # The same turns in both forms, in order.
    memories: Sequence[memory_pb2.Memory]
    messages: Sequence[session_pb2.Message]
    questions: Sequence[BenchQuestion]


def read_conversations(path: Path) -> list[Conversation]:
    """Read all conversations of a file with their questions. Raises RecordInvalid for another format."""
    try:
        return [_conversation(sample) for sample in json.loads(path.read_text("utf-8"))]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise RecordInvalid(f"{path} is not a list of LoCoMo samples with conversation and qa ({problem}).") from None


def evidence_of(names: Iterable[object]) -> frozenset[str]:
    """Return the turn ids of a question's evidence, with the data's typing errors corrected."""
    return frozenset(f"D{int(session)}:{int(turn)}" for name in names for session, turn in _TURN_ID.findall(str(name)))


def _conversation(sample: dict[str, Any]) -> Conversation:
    turns = list(_turns(sample["conversation"]))
    if not turns:
        raise ValueError("a conversation has no turns")
    return Conversation(
        name=str(sample["sample_id"]),
        memories=[_memory(*turn) for turn in turns],
        messages=[_message(*turn) for turn in turns],
        questions=[_question(record) for record in sample["qa"]],
    )


def _question(record: dict[str, Any]) -> BenchQuestion:
    category = CATEGORIES.get(record["category"], str(record["category"]))
    return BenchQuestion(
        str(record["question"]),
        category,
        evidence_of(record["evidence"]),
        question_id=str(record.get("id", "")),
        answer=str(record.get("answer", "")),
    )


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, datetime]]:
    """Yield each turn with the id of its session and its time."""
    numbers = sorted(int(match.group(1)) for name in conversation if (match := SESSION.match(name)))
    for number in numbers:
        name = f"session_{number}"
        at = datetime.strptime(conversation[f"{name}_date_time"], TIME_FORMAT).replace(tzinfo=UTC)
        for index, turn in enumerate(conversation[name]):
            # One second apart, so that turns keep their order.
            yield turn, name, at + timedelta(seconds=index)


def _memory(turn: dict[str, Any], session_id: str, at: datetime) -> memory_pb2.Memory:
    speaker, caption = str(turn["speaker"]), turn.get("blip_caption")
    text = f'{speaker} said, "{turn["text"]}"'
    memory = memory_pb2.Memory(
        external_id=str(turn["dia_id"]),
        content=f"{text} and shared {caption}" if caption else text,
        source_agent=speaker,
        session_id=session_id,
    )
    memory.create_time.FromDatetime(at)
    return memory


def _message(turn: dict[str, Any], session_id: str, at: datetime) -> session_pb2.Message:
    text, caption = str(turn["text"]), turn.get("blip_caption")
    message = session_pb2.Message(
        external_id=str(turn["dia_id"]),
        session_id=session_id,
        role=ROLES[turn.get("role", "user")],
        name=str(turn["speaker"]),
        content=f"{text} [shares {caption}]" if caption else text,
    )
    message.create_time.FromDatetime(at)
    return message
