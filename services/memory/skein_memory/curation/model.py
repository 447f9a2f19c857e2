"""Rules of curation: reinforcement, decay, duplicates and merges. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.errors import ContentTooLong
from skein_memory.errors import MergeTooLarge, ReadersWidened
from skein_memory.memories.model import Memory, has_key

REINFORCE_CONFIDENCE = 0.04
REINFORCE_IMPORTANCE = 0.06
REINFORCE_SPREAD = 0.35
DECAY_CONFIDENCE = 0.01
DECAY_IMPORTANCE = 0.03
MAX_DECAY_PERIODS = 3
MAX_TAGS = 100


def reinforce(memory: Memory, *, confidence: float, importance: float, at: datetime, by: str) -> Memory:
    """Return the next revision, with confidence and importance raised by the given amounts, 1 at most."""
    draft = replace(
        memory.draft,
        confidence=min(1.0, memory.draft.confidence + confidence),
        importance=min(1.0, memory.draft.importance + importance),
    )
    return memory.revise(draft, at=at, by=by)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecayState:
    """How far a memory has decayed: `since` is when idleness began to count, after `periods` that are done."""

    since: datetime
    periods: int

    def due_periods(self, last_used: datetime, at: datetime, decay_days: int) -> tuple[int, DecayState | None]:
        """Return the periods of decay due at the time `at`, and the state to store; None when decay is complete.

        A memory that was used meanwhile starts again. A second call right after changes nothing.
        """
        is_restarted = last_used > self.since
        since, past_periods = (last_used, 0) if is_restarted else (self.since, self.periods)
        length = period(decay_days)
        due_count = min(MAX_DECAY_PERIODS - past_periods, max(0, (at - since) // length))
        if past_periods + due_count >= MAX_DECAY_PERIODS:
            return due_count, None
        return due_count, DecayState(since=since + due_count * length, periods=past_periods + due_count)


def period(decay_days: int) -> timedelta:
    """Return how long a memory must be idle to decay once; a policy of no days means one."""
    return timedelta(days=max(1, decay_days))


def decay(memory: Memory, periods: int) -> Memory:
    """Return the next revision, with lower confidence and importance; update_time and updated_by stay."""
    draft = replace(
        memory.draft,
        confidence=max(0.0, memory.draft.confidence - periods * DECAY_CONFIDENCE),
        importance=max(0.0, memory.draft.importance - periods * DECAY_IMPORTANCE),
    )
    return replace(memory, draft=draft, revision=memory.revision + 1)


def best_duplicate(group: Sequence[Memory]) -> Memory:
    """Return the duplicate to keep: the most important, then the most confident, then the oldest."""
    return min(group, key=lambda memory: (-memory.draft.importance, -memory.draft.confidence, memory.memory_id))


def split_contradictions(group: Sequence[Memory], contradictions: AbstractSet[tuple[UUID, UUID]]) -> list[list[Memory]]:
    """Split duplicates that contradict each other into groups, so that no memory is archived for another opinion.

    Two memories contradict each other if `contradictions` has them, the lower id first. They also do if they have one
    key and different contents, or if one has data and their contents differ.
    """
    groups: list[list[Memory]] = []
    for memory in group:
        consistent_group = next(
            (members for members in groups if not any(_contradict(memory, other, contradictions) for other in members)),
            None,
        )
        if consistent_group is None:
            groups.append([memory])
        else:
            consistent_group.append(memory)
    return groups


def _contradict(memory: Memory, other: Memory, contradictions: AbstractSet[tuple[UUID, UUID]]) -> bool:
    first, second = sorted((memory.memory_id, other.memory_id))
    if (first, second) in contradictions:
        return True
    if not has_key(memory.draft.fingerprint) and memory.draft.data is None and other.draft.data is None:
        return False
    return memory.draft.content_hash != other.draft.content_hash


def merge(memories: Sequence[Memory], *, max_content: int, at: datetime, by: str) -> Memory:
    """Return the first memory's next revision, with the content of all.

    Contents that another one contains are not repeated. Raises ReadersWidened, ContentTooLong and MergeTooLarge.
    """
    first = memories[0].draft
    for memory in memories:
        first.check_may_hold(memory.draft)
        # A purge finds a person's memories by their subject.
        if memory.draft.subject_id not in (None, first.subject_id):
            raise ReadersWidened
    parts: list[str] = []
    for memory in memories:
        text = memory.draft.content
        if text and not any(text in part for part in parts):
            parts.append(text)
    content = "\n\n".join(parts)
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    tags = tuple(dict.fromkeys(tag for memory in memories for tag in memory.draft.tags))
    if len(tags) > MAX_TAGS:
        raise MergeTooLarge(kind="tags", limit=MAX_TAGS)
    draft = replace(
        first,
        title=first.title or next((memory.draft.title for memory in memories if memory.draft.title), None),
        content=content,
        tags=tags,
        confidence=max(memory.draft.confidence for memory in memories),
        importance=max(memory.draft.importance for memory in memories),
    )
    return memories[0].revise(draft, at=at, by=by)
