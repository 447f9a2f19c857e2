"""The write that stores the facts of one message; the same revision of a message gives the same request. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Final

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp
from skein_worker.extraction.model import EXTRACTOR, Fact, Message, Refusal

# Patterns are right in 19 of 20 cases or more; a person's own write is surer. What a model proposes is said, but may
# not be worth keeping.
CONFIDENCE: Final = 0.8
MODEL_CONFIDENCE: Final = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a message lies: its facts lie there too."""

    message_id: str
    revision: int
    session_id: str
    subject_id: str
    agent_id: str
    # When the message was queued, by its last change.
    change_time: str
    # A person says it. What others say stays in its session, and tells nothing about the person.
    is_of_person: bool
    # Nothing newer is stored, so a new value supersedes the older one; else a key that another fact has is left to it.
    is_new: bool
    # The author of the facts.
    extractor: str = EXTRACTOR


def request_of(message: Message, origin: Origin, facts: Sequence[Fact]) -> pb.BatchCreateMemoriesRequest:
    """Return the request that stores the facts: a newer value of a key supersedes the older, the same reinforces."""
    # Of two values of one key in a message, the later one is meant.
    by_key = {fact.key or f"\0{number}": fact for number, fact in enumerate(facts)}
    return pb.BatchCreateMemoriesRequest(
        request_id=request_id_of(origin),
        memories=[_memory(message, origin, fact) for fact in by_key.values()],
        on_conflict=pb.ON_CONFLICT_SUPERSEDE if origin.is_new else pb.ON_CONFLICT_RETURN,
        on_similar=pb.ON_SIMILAR_REINFORCE if origin.is_new else pb.ON_SIMILAR_RETURN,
        defer_embedding=True,
    )


def refusals_of(message: Message, origin: Origin, refusals: Sequence[Refusal]) -> pb.KeepRefusedFactsRequest:
    """Return the request that keeps what the checker refused."""
    return pb.KeepRefusedFactsRequest(
        request_id=request_id_of(origin),
        facts=[
            pb.RefusedFact(memory=_memory(message, origin, refusal.fact), reason=refusal.reason) for refusal in refusals
        ],
    )


def request_id_of(origin: Origin) -> str:
    """Return the digest of what is extracted: the message, its revision and change, and the extractor's version."""
    text = f"{origin.extractor} {origin.message_id} {origin.revision} {origin.change_time}"
    return f"extract-{hashlib.sha256(text.encode()).hexdigest()}"


def _memory(message: Message, origin: Origin, fact: Fact) -> pb.Memory:
    begin = message.time
    if fact.valid_from is not None:
        begin = datetime.combine(fact.valid_from, time(), tzinfo=message.zone)
    values = {
        "about": fact.about,
        "predicate": fact.predicate,
        "value": fact.value,
        "is_negated": fact.is_negated,
        "event_time": fact.event_time,
        "speaker": message.speaker,
    }
    marks: dict[str, object] = {
        "extracted": {name: value for name, value in values.items() if value is not None},
        # A fact of another revision ends, whenever it was stored.
        "message_revision": origin.revision,
    }
    if fact.statement is not None and message.answered is not None:
        marks["statement"] = {"message_id": message.answered.message_id, "revision": message.answered.revision}
    is_personal = bool(origin.subject_id) and origin.is_of_person
    key = fact.key if is_personal else None
    return pb.Memory(
        # Keys are unique among facts alone.
        type="fact" if key else fact.type,
        key=key or "",
        content=fact.content,
        confidence=CONFIDENCE if origin.extractor == EXTRACTOR else MODEL_CONFIDENCE,
        source=origin.extractor,
        scope=pb.SCOPE_USER if is_personal else pb.SCOPE_SESSION,
        subject_id=origin.subject_id,
        agent_id=origin.agent_id,
        session_id=origin.session_id,
        valid_from_time=to_timestamp(begin),
        # It supersedes, and is itself true at no time.
        valid_to_time=to_timestamp(begin) if fact.is_taken_back else None,
        derived_from=_sources(message, origin, fact),
        metadata_json=json.dumps(marks),
    )


def _sources(message: Message, origin: Origin, fact: Fact) -> list[pb.SourceReference]:
    """Return the characters that say a fact, and where they only confirm it, those of the statement too."""
    spans = [(origin.message_id, fact.span)]
    if fact.statement is not None and message.answered is not None:
        spans.append((message.answered.message_id, fact.statement))
    return [
        pb.SourceReference(
            kind=pb.SOURCE_KIND_MESSAGE,
            id=message_id,
            # A refused quote that is not in the message has no place there.
            start_character=span.start,
            end_character=span.end,
        )
        for message_id, span in spans
    ]
