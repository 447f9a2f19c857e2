"""Requests that name a tenant's archives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fix_recipe import service
from fix_world import MAKERS, World

from skein.memory.v1 import archives_pb2, memory_pb2

_archives = service("skein.memory.v1.HistoryService", archives_pb2)
# The other memories of the world stay where they are.
SESSION = "the session of the archives"
_internal = service("skein.memory.v1.MemoryInternalService", memory_pb2)


def _idle() -> dict[str, Any]:
    # A time of the past, after which the old memory below was not changed by its own account.
    return {"idle_since_time": datetime.now(UTC) - timedelta(milliseconds=1), "session_id": SESSION}


async def _archive(world: World) -> str:
    memory = memory_pb2.Memory(content=world.text("long ago "), session_id=SESSION)
    memory.create_time.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    await world.tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = archives_pb2.ArchiveMemoriesRequest(label=world.text(), **_idle())
    return (await world.tenant.history.ArchiveMemories(request)).archive.archive_id


MAKERS["archive_id"] = _archive

_archives("ArchiveMemories", build=lambda _t, w: {"label": w.text(), **_idle()})
_archives("ListArchives")
_archives("UnarchiveMemories", "archive_id")
_internal("ArchiveIdleMemories")
_internal("ApplyRetention")
