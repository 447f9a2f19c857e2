"""Tasks and objectives: their rows, changes of status, and the score of a next action. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

from skein_kit.ids import parse_id
from skein_kit.json_values import exact
from skein_memory.errors import NotATask
from skein_memory.memories import memory_type
from skein_memory.memories.memory_type import DONE, OPEN, TASK_TYPES
from skein_memory.memories.model import Memory

# The shares of MemoryVault's next actions: 0.68 importance, 0.22 freshness, and urgency with at most the rest.
IMPORTANCE_SHARE = 0.68
FRESHNESS_SHARE = 0.22
# A task untouched for so long is not fresh at all.
FRESH_DAYS = 30.0
# By how soon it is due; overdue is soonest.
URGENCY = ((timedelta(days=1), 0.1), (timedelta(days=3), 0.07), (timedelta(days=7), 0.04))


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The row of a task or an objective."""

    memory_id: UUID
    kind: str
    status: str
    due_time: datetime | None
    objective_id: UUID | None
    importance: float
    update_time: datetime

    @classmethod
    def of(cls, memory: Memory) -> Self | None:
        """Read a memory; None unless it is a task or an objective that is neither deleted nor archived."""
        draft = memory.draft
        if draft.type not in TASK_TYPES or not memory.is_active or draft.archive_time is not None:
            return None
        data = exact.loads(draft.data) if draft.data else {}
        objective_id = data.get("objective_id")
        due_time = memory_type.time_of(draft.data, "due_time")
        return cls(
            memory_id=memory.memory_id,
            kind=draft.type,
            status=data.get("status", OPEN),
            due_time=None if due_time is None else due_time.astimezone(UTC),
            objective_id=None if objective_id is None else parse_id(objective_id),
            importance=draft.importance,
            update_time=memory.update_time,
        )


def freshness(update_time: datetime, at: datetime) -> float:
    """Return the freshness of a task: 1 after a change, 0 after FRESH_DAYS without one."""
    days = max(0.0, (at - update_time).total_seconds()) / 86_400
    return max(0.0, 1.0 - days / FRESH_DAYS)


def urgency(due_time: datetime | None, at: datetime) -> float:
    """Return the part of a score for the due time."""
    if due_time is None:
        return 0.0
    return next((share for limit, share in URGENCY if due_time - at <= limit), 0.0)


def score(task: Task, at: datetime) -> float:
    """Return the score of a task as the next action, 0 to 1."""
    base = IMPORTANCE_SHARE * task.importance + FRESHNESS_SHARE * freshness(task.update_time, at)
    return round(min(1.0, base + urgency(task.due_time, at)), 3)


def with_status(memory: Memory, status: str, *, at: datetime, by: str, result: str = "") -> Memory:
    """Return the next revision of a task or objective, at another status; the memory itself if nothing changes.

    A finished one has a complete_time and may have a result; a reopened one has neither. Raises NotATask.
    """
    data = _read_data(memory, at)
    new_data = {**data, "status": status}
    for name in ("complete_time", "result"):
        new_data.pop(name, None)
    if status == DONE:
        was_done = data.get("status") == DONE
        new_data["complete_time"] = data["complete_time"] if was_done and "complete_time" in data else _text(at)
    new_result = result or (data.get("result", "") if status == data.get("status", OPEN) else "")
    if new_result:
        new_data["result"] = new_result
    return _revise(memory, data, new_data, at=at, by=by)


def with_objective(memory: Memory, objective_id: UUID | None, *, at: datetime, by: str) -> Memory:
    """Return the next revision of a task, serving another objective or none. Raises NotATask."""
    data = _read_data(memory, at)
    if memory.draft.type != memory_type.TASK:
        raise NotATask
    new_data = {name: value for name, value in data.items() if name != "objective_id"}
    if objective_id is not None:
        new_data["objective_id"] = str(objective_id)
    return _revise(memory, data, new_data, at=at, by=by)


def _read_data(memory: Memory, at: datetime) -> dict[str, object]:
    memory.check_visible(at)
    if memory.draft.type not in TASK_TYPES:
        raise NotATask
    data: dict[str, object] = exact.loads(memory.draft.data) if memory.draft.data else {}
    return data


def _revise(memory: Memory, data: dict[str, object], new_data: dict[str, object], *, at: datetime, by: str) -> Memory:
    if new_data == data:
        return memory
    text = exact.dumps(new_data)
    memory_type.validate_data(memory.draft.type, text, draft_fields={})
    return memory.revise(replace(memory.draft, data=text), at=at, by=by)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
