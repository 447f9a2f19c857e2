"""Lists of tasks and objectives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction
from skein_memory.errors import ObjectiveNotFound
from skein_memory.memories import memory_type, names
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import Memory
from skein_memory.queries import QUERIES
from skein_memory.tasks import model as tasks

_AFTER_ALL = UUID(int=(1 << 128) - 1)
# Candidates of each order in which tasks may come next.
_CANDIDATES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFilter:
    """Which tasks or objectives are requested; None does not restrict. `objective` is an id or external id."""

    kind: str
    statuses: list[str] | None
    objective: str | None = None
    due_before_time: datetime | None = None


class TaskStore:
    """Lists tasks and objectives."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_tasks(
        self, tenant_id: UUID, task_filter: TaskFilter, *, before: UUID | None, count: int, at: datetime
    ) -> list[Memory]:
        """Read up to `count` tasks or objectives older than `before`, newest first. Raises ObjectiveNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            objective_id = await self.find_objective(tx, tenant_id, task_filter.objective, at=at)
            rows = await tx.rows(
                QUERIES["list_tasks"],
                tenant_id=tenant_id,
                kind=task_filter.kind,
                before_id=before or _AFTER_ALL,
                statuses=task_filter.statuses,
                objective_id=objective_id,
                due_before_time=task_filter.due_before_time,
                count=count,
            )
            memory_ids = [row["memory_id"] for row in rows]
            memories = await memory_rows.read_memories(tx, tenant_id, memory_ids)
        return [memories[memory_id] for memory_id in memory_ids if memory_id in memories]

    async def list_next(
        self, tenant_id: UUID, objective: str | None, *, count: int, at: datetime
    ) -> list[tuple[Memory, float]]:
        """Read the tasks to do next with their scores, best first. Raises ObjectiveNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            objective_id = await self.find_objective(tx, tenant_id, objective, at=at)
            rows = await tx.rows(
                QUERIES["list_next_tasks"], tenant_id=tenant_id, objective_id=objective_id, count=_CANDIDATES
            )
            scores = {row["memory_id"]: tasks.score(tasks.Task(**dict(row)), at) for row in rows}
            ranked_ids = sorted(scores, key=lambda memory_id: (-scores[memory_id], memory_id))
            next_memories: list[Memory] = []
            # More are read, in place of expired ones.
            while ranked_ids and len(next_memories) < count:
                batch, ranked_ids = ranked_ids[: count - len(next_memories)], ranked_ids[count - len(next_memories) :]
                memories_by_id = await memory_rows.read_memories(tx, tenant_id, batch)
                memories = (memories_by_id[memory_id] for memory_id in batch if memory_id in memories_by_id)
                next_memories += [memory for memory in memories if not memory.is_expired(at)]
        return [(memory, scores[memory.memory_id]) for memory in next_memories]

    @staticmethod
    async def find_objective(tx: Transaction, tenant_id: UUID, name: str | None, *, at: datetime) -> UUID | None:
        """Return the id of an objective by id or external id; None for no name. Raises ObjectiveNotFound."""
        if not name:
            return None
        row = await names.read_by_name(tx, QUERIES["get_task"], tenant_id, name)
        if row is None or row["kind"] != memory_type.OBJECTIVE:
            raise ObjectiveNotFound
        objective_id: UUID = row["memory_id"]
        if await names.find_hidden(tx, tenant_id, [objective_id], at=at):
            raise ObjectiveNotFound
        return objective_id
