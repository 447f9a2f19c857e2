"""Rows of tasks and objectives, written with every change of the memories that they belong to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Self

from skein_kit.database import batch_insert
from skein_kit.database.batch_insert import InsertRows
from skein_kit.ids import parse_id
from skein_kit.json_values import exact
from skein_memory.memories import memory_type
from skein_memory.memories.task_data import KINDS, OPEN
from skein_memory.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_memory.memories.model import Memory


def task_rows(memories: Sequence[Memory]) -> InsertRows:
    """Return the rows of those memories that are tasks or objectives."""
    return InsertRows(
        QUERIES["put_task"], [asdict(task) for memory in memories if (task := Task.of(memory)) is not None]
    )


async def update_task_row(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    """Update the row of a task or objective after a change of its memory."""
    if Task.of(after) is not None:
        await batch_insert.insert_batch(tx, tenant_id, [task_rows([after])])
    elif Task.of(before) is not None:
        await tx.execute(QUERIES["delete_task"], tenant_id=tenant_id, memory_id=after.memory_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A task or an objective, as it is requested."""

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
        if draft.type not in KINDS or not memory.is_active or draft.archive_time is not None:
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
