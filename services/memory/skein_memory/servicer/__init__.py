"""The RPCs of the memory service, in groups."""

from __future__ import annotations

from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein_memory.servicer.access_log import AccessLogRpcs
from skein_memory.servicer.archives import ArchiveRpcs, LifecycleRpcs
from skein_memory.servicer.blocks import BlockRpcs
from skein_memory.servicer.curation import CurationRpcs
from skein_memory.servicer.erasing import ErasingRpcs
from skein_memory.servicer.finding import FindingRpcs
from skein_memory.servicer.graph import GraphRpcs
from skein_memory.servicer.history import HistoryRpcs
from skein_memory.servicer.links import LinkRpcs
from skein_memory.servicer.memories import MemoryRpcs
from skein_memory.servicer.scores import ScoreRpcs
from skein_memory.servicer.secrets import SecretRpcs
from skein_memory.servicer.snapshots import SnapshotRpcs
from skein_memory.servicer.tasks import TaskRpcs
from skein_memory.servicer.upkeep import UpkeepRpcs
from skein_memory.servicer.watches import DeliverRpcs, WatchRpcs

__all__ = [
    "BlockServicer",
    "CurationServicer",
    "HistoryServicer",
    "LinkServicer",
    "MemoryServicer",
    "SnapshotServicer",
    "UpkeepServicer",
]


class MemoryServicer(MemoryRpcs, FindingRpcs, ErasingRpcs, SecretRpcs, TaskRpcs, ScoreRpcs, rpc.MemoryServiceServicer):
    """MemoryService: what is remembered."""


class LinkServicer(LinkRpcs, GraphRpcs, rpc.LinkServiceServicer):
    """LinkService: how it hangs together."""


class BlockServicer(BlockRpcs, blocks_pb2_grpc.BlockServiceServicer):
    """BlockService: what agents carry in every prompt."""


class CurationServicer(CurationRpcs, curation_pb2_grpc.CurationServiceServicer):
    """CurationService: what keeps it tidy."""


class HistoryServicer(HistoryRpcs, WatchRpcs, AccessLogRpcs, ArchiveRpcs, history_pb2_grpc.HistoryServiceServicer):
    """HistoryService: what happened, and who saw it."""


class SnapshotServicer(SnapshotRpcs, snapshots_pb2_grpc.SnapshotServiceServicer):
    """SnapshotService: all of it at once."""


class UpkeepServicer(UpkeepRpcs, DeliverRpcs, LifecycleRpcs, rpc.UpkeepServiceServicer):
    """UpkeepService: what the worker asks for."""
