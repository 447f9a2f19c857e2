"""What the memory service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.database.monthly_partitions import Months
    from skein_kit.search_text.embedding_requests import Embeddings
    from skein_memory.delivering import Delivering
    from skein_memory.erasure_completion import ErasureCompleter
    from skein_memory.settings import MemorySettings
    from skein_memory.store import (
        AccessLogStore,
        ArchiveStore,
        BlockStore,
        ChangeStore,
        LinkStore,
        MemoryStore,
        WatchStore,
    )
    from skein_memory.store.aliases import AliasStore
    from skein_memory.store.conflicts import ConflictStore
    from skein_memory.store.curating import CuratingStore
    from skein_memory.store.deliveries import DeliveryStore
    from skein_memory.store.erasing import ErasingStore
    from skein_memory.store.erasures import ErasureStore
    from skein_memory.store.expunging import ExpungingStore
    from skein_memory.store.finding import FindingStore
    from skein_memory.store.graph import GraphStore
    from skein_memory.store.levels import LevelStore
    from skein_memory.store.outdated import OutdatedStore
    from skein_memory.store.overview import OverviewStore
    from skein_memory.store.secrets import SecretStore
    from skein_memory.store.snapshots import SnapshotStore
    from skein_memory.store.tasks import TaskStore
    from skein_memory.store.transfer import TransferStore
    from skein_memory.store.trust import SourceTrustStore
    from skein_memory.watching import Watching


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running memory service."""

    settings: MemorySettings
    embeddings: Embeddings
    months: Months
    memories: MemoryStore
    finding: FindingStore
    erasing: ErasingStore
    links: LinkStore
    graph: GraphStore
    secrets: SecretStore
    tasks: TaskStore
    levels: LevelStore
    curating: CuratingStore
    source_trust: SourceTrustStore
    conflicts: ConflictStore
    aliases: AliasStore
    outdated: OutdatedStore
    overview: OverviewStore
    changes: ChangeStore
    watching: Watching
    blocks: BlockStore
    snapshots: SnapshotStore
    transfer: TransferStore
    access_log: AccessLogStore
    watches: WatchStore
    deliveries: DeliveryStore
    archives: ArchiveStore
    expunging: ExpungingStore
    erasures: ErasureStore
    erasure_completer: ErasureCompleter
    delivering: Delivering


class Rpcs:
    """A group of RPCs over the parts."""

    def __init__(self, parts: Parts) -> None:
        """Answer with these parts."""
        self._parts = parts
