"""Where tasks and objectives stand, kept beside the memories that they are, with every change of these."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from skein_kit.database import batch_insert
from skein_kit.database.batch_insert import InsertRows
from skein_memory.queries import QUERIES
from skein_memory.tasks.model import Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_memory.memories.model import Memory


def task_rows(memories: Sequence[Memory]) -> InsertRows:
    """Return what notes where those of some memories stand that are tasks or objectives."""
    return InsertRows(
        QUERIES["put_task"], [asdict(task) for memory in memories if (task := Task.of(memory)) is not None]
    )


async def update_task_row(tx: Transaction, tenant_id: UUID, before: Memory, after: Memory) -> None:
    """Note where a memory stands after a change."""
    if Task.of(after) is not None:
        await batch_insert.insert_batch(tx, tenant_id, [task_rows([after])])
    elif Task.of(before) is not None:
        await tx.execute(QUERIES["delete_task"], tenant_id=tenant_id, memory_id=after.memory_id)
