"""Rules of curation: what counts as the same, what decays, what is urgent, what a merge makes. No I/O, no clock."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING
from uuid import UUID

from skein_kit.errors import ContentTooLong
from skein_memory.errors import MergeTooLarge

if TYPE_CHECKING:
    from skein_memory.memories.model import Draft, Memory
    from skein_memory.scoring.model import Scores

REINFORCE_CONFIDENCE = 0.04
REINFORCE_IMPORTANCE = 0.06
REINFORCE_SPREAD = 0.35
DECAY_CONFIDENCE = 0.01
DECAY_IMPORTANCE = 0.03
MOST_DECAY_PERIODS = 3
STALE_DAYS = 90.0
MOST_TAGS = 100
_PREFIX = 160
# Fingerprints of memories with a key lie in the lower half of all numbers, so that they can be walked alone.
_UPPER_HALF = 1 << 127
FIRST_WITHOUT_KEY = UUID(int=_UPPER_HALF)


def normalize_spaces(text: str) -> str:
    """Return a text in lower case, its spaces reduced to single ones between words."""
    return " ".join(text.lower().split())


def fingerprint(draft: Draft) -> UUID:
    """Return a number that memories of one type share when they have the same key, or title, or beginning.

    The title counts where there is no key, the first 160 characters where there is no title either. Case and spaces do
    not matter.
    """
    if draft.key and normalize_spaces(draft.key):
        kind, text = "key", normalize_spaces(draft.key)
    elif draft.title and normalize_spaces(draft.title):
        kind, text = "title", normalize_spaces(draft.title)
    else:
        kind, text = "text", normalize_spaces(draft.content)[:_PREFIX]
        if not text:
            # Only structured content: the same when all of it is the same.
            kind, text = "data", draft.content_hash.hex()
    digest = hashlib.sha256(f"{draft.type}\n{kind}\n{text}".encode()).digest()[:16]
    number = int.from_bytes(digest, "big") & (_UPPER_HALF - 1)
    return UUID(int=number if kind == "key" else number | _UPPER_HALF)


def audience(
    scope: str, *, agent_id: str | None, subject_id: str | None, session_id: str | None
) -> tuple[str | None, ...]:
    """Return who sees a memory and whom it is about: one takes the place of another only where both are the same."""
    by_scope: Mapping[str, tuple[str | None, ...]] = {
        "global": (subject_id,),
        "agent": (agent_id, subject_id),
        "user": (subject_id, agent_id),
    }
    return (scope, *by_scope.get(scope, (session_id, subject_id, agent_id)))


def draft_audience(draft: Draft) -> tuple[str | None, ...]:
    """Return who sees what a draft says, and whom it is about."""
    return audience(draft.scope, agent_id=draft.agent_id, subject_id=draft.subject_id, session_id=draft.session_id)


def reinforce(memory: Memory, *, confidence: float, importance: float, at: datetime, by: str) -> Memory:
    """Return the next revision, surer and more important by so much, 1 at most."""
    draft = replace(
        memory.draft,
        confidence=min(1.0, memory.draft.confidence + confidence),
        importance=min(1.0, memory.draft.importance + importance),
    )
    return memory.revised(draft, at=at, by=by)


@dataclass(frozen=True, kw_only=True, slots=True)
class Idleness:
    """How far a memory has decayed: `since` is when idleness began to count, after `periods` that are done."""

    since: datetime
    periods: int

    def until(self, last_used: datetime, at: datetime, decay_days: int) -> tuple[int, Idleness | None]:
        """Return how many periods to decay by at the time `at`, and what is remembered then; None: it is done.

        A memory that was used meanwhile begins anew. Asked again at once, there is nothing more to do.
        """
        begins_anew = last_used > self.since
        since, done = (last_used, 0) if begins_anew else (self.since, self.periods)
        length = period(decay_days)
        due = min(MOST_DECAY_PERIODS - done, max(0, (at - since) // length))
        if done + due >= MOST_DECAY_PERIODS:
            return due, None
        return due, Idleness(since=since + due * length, periods=done + due)


def period(decay_days: int) -> timedelta:
    """Return how long a memory must be idle to decay once; a policy of no days means one."""
    return timedelta(days=max(1, decay_days))


def decay(memory: Memory, periods: int) -> Memory:
    """Return the next revision, less sure and less important; it does not count as an update by anybody."""
    draft = replace(
        memory.draft,
        confidence=max(0.0, memory.draft.confidence - periods * DECAY_CONFIDENCE),
        importance=max(0.0, memory.draft.importance - periods * DECAY_IMPORTANCE),
    )
    return replace(memory, draft=draft, revision=memory.revision + 1)


def choose_kept(group: Sequence[Memory]) -> Memory:
    """Return the one to keep of memories that say the same: the most important, then the surest, then the oldest."""
    return min(group, key=lambda one: (-one.draft.importance, -one.draft.confidence, one.memory_id))


def split_contradicting(group: Sequence[Memory], contradictions: AbstractSet[tuple[UUID, UUID]]) -> list[list[Memory]]:
    """Tell memories that count as the same apart where they disagree, so that none gives way to another opinion.

    Two disagree when they are one of the pairs in `contradictions`, the lower id first, when they share a key and say
    different things, or when one has data and the other does not say the same.
    """
    found: list[list[Memory]] = []
    for memory in group:
        place = next((one for one in found if not any(_disagree(memory, other, contradictions) for other in one)), None)
        if place is None:
            found.append([memory])
        else:
            place.append(memory)
    return found


def _disagree(one: Memory, other: Memory, contradictions: AbstractSet[tuple[UUID, UUID]]) -> bool:
    first, second = sorted((one.memory_id, other.memory_id))
    if (first, second) in contradictions:
        return True
    if not has_key(fingerprint(one.draft)) and one.draft.data is None and other.draft.data is None:
        return False
    return one.draft.content_hash != other.draft.content_hash


def has_key(number: UUID) -> bool:
    """Say whether a fingerprint is that of memories with a key."""
    return number < FIRST_WITHOUT_KEY


def archive(memory: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision, archived; the memory itself when it is already."""
    if memory.draft.archive_time is not None:
        return memory
    return memory.revised(replace(memory.draft, archive_time=at), at=at, by=by)


def merge(memories: Sequence[Memory], *, max_content: int, at: datetime, by: str) -> Memory:
    """Return the first memory's next revision, which says what all say.

    Contents that another one holds already are not repeated. Raises ContentTooLong and MergeTooLarge.
    """
    parts: list[str] = []
    for memory in memories:
        text = memory.draft.content
        if text and not any(text in part for part in parts):
            parts.append(text)
    content = "\n\n".join(parts)
    if len(content) > max_content:
        raise ContentTooLong(limit=max_content, length=len(content))
    tags = tuple(dict.fromkeys(tag for memory in memories for tag in memory.draft.tags))
    if len(tags) > MOST_TAGS:
        raise MergeTooLarge(kind="tags", limit=MOST_TAGS)
    first = memories[0].draft
    draft = replace(
        first,
        title=first.title or next((memory.draft.title for memory in memories if memory.draft.title), None),
        content=content,
        tags=tags,
        confidence=max(memory.draft.confidence for memory in memories),
        importance=max(memory.draft.importance for memory in memories),
    )
    return memories[0].revised(draft, at=at, by=by)


def urgency(scores: Scores, *, stale_days: float, links: int) -> float:
    """Return how much a memory deserves a second look, 0 to 1."""
    return (
        0.35 * scores.importance
        + 0.25 * (1 - scores.confidence)
        + 0.25 * min(stale_days / STALE_DAYS, 1)
        + 0.15 / (1 + links)
    )


def pair_key(one: UUID, other: UUID) -> str:
    """Return the name of a pair, whichever is said first."""
    first, second = sorted((one, other))
    return f"{first}|{second}"


def truncate_time(moment: datetime, unit: str) -> datetime:
    """Return when the "hour", "day" or "week" of a time (UTC) began; weeks begin on Monday."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if unit == "hour":
        return hour
    day = hour.replace(hour=0)
    return day - timedelta(days=day.weekday()) if unit == "week" else day


UNIT_LENGTHS: Mapping[str, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}


def tag_counts(tagged: Iterable[Sequence[str]], top: int) -> tuple[list[tuple[str, int]], list[tuple[str, str, int]]]:
    """Return the most frequent tags and pairs of tags of memories, each with how many memories have it."""
    tags: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for names in tagged:
        # The pairs of a hundred tags are five thousand: of so many only the first make pairs.
        ordered = sorted(set(names))
        tags.update(ordered)
        pairs.update(combinations(ordered[:_PAIRED_TAGS], 2))
    ranked = sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:top]
    paired = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:top]
    return ranked, [(first, second, count) for (first, second), count in paired]


_PAIRED_TAGS = 12
