"""What the memory service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.database.monthly_partitions import MonthlyPartitions
    from skein_kit.search_text.embedding_requests import EmbeddingClient
    from skein_memory.access_log.store import AccessLogStore
    from skein_memory.aliases.store import AliasStore
    from skein_memory.blocks.store import BlockStore
    from skein_memory.cold_storage.store import ArchiveStore
    from skein_memory.conflicts.store import ConflictStore
    from skein_memory.curation.store import CurationStore
    from skein_memory.erasure.access_log_erasure import AccessLogErasure
    from skein_memory.erasure.archive_purge import ArchivePurgeStore
    from skein_memory.erasure.completion import ErasureCompleter
    from skein_memory.erasure.store import PurgeStore
    from skein_memory.events.store import EventStore
    from skein_memory.events.stream import EventStream
    from skein_memory.graph.store import GraphStore
    from skein_memory.links.store import LinkStore
    from skein_memory.listing.store import MemoryListStore
    from skein_memory.memories.level_store import LevelStore
    from skein_memory.memories.reindex import ReindexStore
    from skein_memory.memories.store import MemoryStore
    from skein_memory.overview.store import OverviewStore
    from skein_memory.settings import MemorySettings
    from skein_memory.snapshots.store import SnapshotStore
    from skein_memory.source_trust.store import SourceTrustStore
    from skein_memory.tasks.store import TaskStore
    from skein_memory.transfer.store import TransferStore
    from skein_memory.vault.store import SecretStore
    from skein_memory.webhooks.delivery_store import DeliveryStore
    from skein_memory.webhooks.sender import WebhookSender
    from skein_memory.webhooks.store import WebhookStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running memory service."""

    settings: MemorySettings
    embeddings: EmbeddingClient
    months: MonthlyPartitions
    memories: MemoryStore
    finding: MemoryListStore
    erasing: PurgeStore
    links: LinkStore
    graph: GraphStore
    secrets: SecretStore
    tasks: TaskStore
    levels: LevelStore
    curating: CurationStore
    source_trust: SourceTrustStore
    conflicts: ConflictStore
    aliases: AliasStore
    outdated: ReindexStore
    overview: OverviewStore
    changes: EventStore
    watching: EventStream
    blocks: BlockStore
    snapshots: SnapshotStore
    transfer: TransferStore
    access_log: AccessLogStore
    watches: WebhookStore
    deliveries: DeliveryStore
    archives: ArchiveStore
    expunging: ArchivePurgeStore
    erasures: AccessLogErasure
    erasure_completer: ErasureCompleter
    delivering: WebhookSender


class Rpcs:
    """A group of RPCs over the parts."""

    def __init__(self, parts: Parts) -> None:
        """Answer with these parts."""
        self._parts = parts
