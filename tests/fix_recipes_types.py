"""A request for every RPC about types of memories, secrets, levels and tasks."""

from __future__ import annotations

from typing import Any

from fix_recipe import RECIPES, service
from fix_world import MAKERS, World
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import memory_pb2

_memory = service("skein.memory.v1.MemoryService", memory_pb2)

__all__ = ["RECIPES"]


async def _made(world: World, **fields: Any) -> str:
    memory = memory_pb2.Memory(content=world.text("to be done "), **fields)
    return (await world.tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


async def _task(world: World) -> str:
    return await _made(world, type="task")


async def _done_task(world: World) -> str:
    data = Struct()
    data.update({"status": "done"})
    return await _made(world, type="task", data=data)


async def _objective(world: World) -> str:
    return await _made(world, type="objective")


async def _vault(world: World) -> str:
    return await _made(world, type="knowledge_vault", secret_value=world.text("opens everything "))


MAKERS |= {"task_id": _task, "done_task_id": _done_task, "objective_id": _objective, "vault_id": _vault}


def _fill() -> None:
    _memory("ListMemoryTypes")
    _memory("RevealSecret", "vault_id", build=lambda t, _w: {"memory_id": t["vault_id"]})
    _memory("RotateTenantKey", "vault_id", build=lambda _t, _w: {})
    _memory("PromoteMemory", "memory_id")
    _memory("DemoteMemory", "memory_id")
    _memory("ListTasks", "task_id", build=lambda _t, _w: {})
    _memory("ListObjectives", "objective_id", build=lambda _t, _w: {})
    _memory("ListNextActions", "task_id", build=lambda _t, _w: {})
    _memory(
        "UpdateTaskStatus",
        "task_id",
        build=lambda t, _w: {"memory_id": t["task_id"], "status": memory_pb2.TASK_STATUS_IN_PROGRESS},
    )
    _memory("CompleteTask", "task_id", build=lambda t, w: {"memory_id": t["task_id"], "result": w.text("done ")})
    _memory("ReopenTask", "done_task_id", build=lambda t, _w: {"memory_id": t["done_task_id"]})
    _memory(
        "SetObjective",
        "task_id",
        "objective_id",
        build=lambda t, _w: {"memory_id": t["task_id"], "objective_id": t["objective_id"]},
    )


_fill()
