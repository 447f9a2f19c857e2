"""Every database call of the memory service, one method for each thing that is done."""

from __future__ import annotations

from skein_memory.store.links import LinkStore
from skein_memory.store.memories import Changed, MemoryStore

__all__ = ["Changed", "LinkStore", "MemoryStore"]
