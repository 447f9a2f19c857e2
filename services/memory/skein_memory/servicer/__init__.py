"""The RPCs of the memory service, in groups."""

from __future__ import annotations

from skein.memory.v1 import memory_pb2_grpc as rpc
from skein_memory.servicer.links import LinkRpcs
from skein_memory.servicer.memories import MemoryRpcs
from skein_memory.servicer.upkeep import UpkeepRpcs

__all__ = ["LinkServicer", "MemoryServicer", "UpkeepServicer"]


class MemoryServicer(MemoryRpcs, rpc.MemoryServiceServicer):
    """MemoryService: what is remembered."""


class LinkServicer(LinkRpcs, rpc.LinkServiceServicer):
    """LinkService: how it hangs together."""


class UpkeepServicer(UpkeepRpcs, rpc.UpkeepServiceServicer):
    """UpkeepService: what the worker asks for."""
