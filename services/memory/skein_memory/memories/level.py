"""The levels of memories: their order and capacities, and demotion from a full level."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skein_memory.errors import LevelOutOfRange

if TYPE_CHECKING:
    from datetime import datetime

    from skein_kit.policies.store import Policy
    from skein_memory.memories.model import Memory

# The highest first.
LEVELS = ("strategic", "tactical", "operational", "contextual")


def capacity(policy: Policy, level: str) -> int:
    """Return how many memories a level holds."""
    return {
        "strategic": policy.capacity_strategic,
        "tactical": policy.capacity_tactical,
        "operational": policy.capacity_operational,
        "contextual": policy.capacity_contextual,
    }[level]


def promoted(memory: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision of a memory, one level higher. Raises LevelOutOfRange at the top."""
    return _moved(memory, -1, at=at, by=by)


def demoted(memory: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision of a memory, one level lower. Raises LevelOutOfRange at the bottom."""
    return _moved(memory, 1, at=at, by=by)


def demote_or_hide(memory: Memory, *, at: datetime, by: str) -> tuple[Memory, str]:
    """Return a memory that its level has no capacity for, and its event: demoted a level, or archived."""
    if memory.draft.level == LEVELS[-1]:
        return memory.revise(replace(memory.draft, archive_time=at), at=at, by=by), "memory_archived"
    return demoted(memory, at=at, by=by), "memory_demoted"


def _moved(memory: Memory, steps: int, *, at: datetime, by: str) -> Memory:
    index = LEVELS.index(memory.draft.level) + steps
    if not 0 <= index < len(LEVELS):
        raise LevelOutOfRange(level=memory.draft.level)
    return memory.revise(replace(memory.draft, level=LEVELS[index]), at=at, by=by)
