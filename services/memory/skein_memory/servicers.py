"""The RPCs of the memory service, in groups."""

from __future__ import annotations

from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein_memory.access_log.rpc import AccessLogRpcs
from skein_memory.blocks.rpc import BlockRpcs
from skein_memory.cold_storage.rpc import ArchiveRpcs, RetentionHandlers
from skein_memory.curation.rpc import CurationRpcs
from skein_memory.curation.scores_rpc import ScoreRpcs
from skein_memory.erasure.rpc import PurgeHandlers
from skein_memory.events.rpc import HistoryRpcs
from skein_memory.graph.rpc import GraphRpcs
from skein_memory.links.rpc import LinkRpcs
from skein_memory.listing.rpc import ListingHandlers
from skein_memory.maintenance.rpc import MaintenanceHandlers
from skein_memory.memories.rpc import MemoryHandlers
from skein_memory.snapshots.rpc import SnapshotRpcs
from skein_memory.tasks.rpc import TaskRpcs
from skein_memory.vault.rpc import SecretRpcs
from skein_memory.webhooks.rpc import DeliveryHandlers, WebhookHandlers

__all__ = [
    "BlockService",
    "CurationService",
    "HistoryService",
    "LinkService",
    "MemoryInternalService",
    "MemoryService",
    "SnapshotService",
]


class MemoryService(
    MemoryHandlers, ListingHandlers, PurgeHandlers, SecretRpcs, TaskRpcs, ScoreRpcs, rpc.MemoryServiceServicer
):
    """MemoryService: what is remembered."""


class LinkService(LinkRpcs, GraphRpcs, rpc.LinkServiceServicer):
    """LinkService: how it hangs together."""


class BlockService(BlockRpcs, blocks_pb2_grpc.BlockServiceServicer):
    """BlockService: what agents carry in every prompt."""


class CurationService(CurationRpcs, curation_pb2_grpc.CurationServiceServicer):
    """CurationService: what keeps it tidy."""


class HistoryService(HistoryRpcs, WebhookHandlers, AccessLogRpcs, ArchiveRpcs, history_pb2_grpc.HistoryServiceServicer):
    """HistoryService: what happened, and who saw it."""


class SnapshotService(SnapshotRpcs, snapshots_pb2_grpc.SnapshotServiceServicer):
    """SnapshotService: all of it at once."""


class MemoryInternalService(MaintenanceHandlers, DeliveryHandlers, RetentionHandlers, rpc.UpkeepServiceServicer):
    """UpkeepService: what the worker asks for."""
