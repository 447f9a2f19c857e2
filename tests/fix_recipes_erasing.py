"""Requests for finding and forgetting that name things of a tenant."""

from __future__ import annotations

from fix_recipe import service

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2

_memory_rpcs = service("skein.memory.v1.MemoryService", memory_pb2)
_gateway = service("skein.gateway.v1.GatewayService", gateway_pb2)


def _fill() -> None:
    _memory_rpcs("ListMemoryVersions", "memory_id")
    for name in ("ExportMemories", "PurgeMemories", "DeleteMemories"):
        _memory_rpcs(
            name,
            "memory_id",
            build=lambda t, _w: {"selection": memory_pb2.MemorySelection(memory_ids=[t["memory_id"]])},
        )
    _gateway("Forget", "subject_id")


_fill()
