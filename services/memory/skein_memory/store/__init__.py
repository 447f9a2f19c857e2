"""Every database call of the memory service, one method for each thing that is done."""

from __future__ import annotations

from skein_memory.store.access_log import AccessLogStore
from skein_memory.store.archives import ArchiveStore
from skein_memory.store.blocks import BlockStore
from skein_memory.store.changes import ChangeStore
from skein_memory.store.erasing import ErasingStore
from skein_memory.store.finding import FindingStore
from skein_memory.store.links import LinkStore
from skein_memory.store.memories import Changed, MemoryStore
from skein_memory.store.watches import WatchStore

__all__ = [
    "AccessLogStore",
    "ArchiveStore",
    "BlockStore",
    "ChangeStore",
    "Changed",
    "ErasingStore",
    "FindingStore",
    "LinkStore",
    "MemoryStore",
    "WatchStore",
]
