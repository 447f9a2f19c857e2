"""The data of memories that are tasks or objectives. No gRPC, no SQL, no clock."""

from __future__ import annotations

from skein_kit.ids import parse_id
from skein_kit.json_values import exact
from skein_memory.errors import MemoryDataInvalid
from skein_memory.memories import memory_type

OPEN = "open"
IN_PROGRESS = "in_progress"
DONE = "done"

KINDS = frozenset({memory_type.TASK, memory_type.OBJECTIVE})


def check_objective_id(type_name: str, data: str | None) -> None:
    """Reject a task whose objective is named by anything but its memory_id. Raises MemoryDataInvalid."""
    if type_name == memory_type.TASK and data is not None:
        objective_id = exact.loads(data).get("objective_id")
        if objective_id is not None and parse_id(objective_id) is None:
            raise MemoryDataInvalid(violations=[("data.objective_id", "must be the objective's memory_id")])
