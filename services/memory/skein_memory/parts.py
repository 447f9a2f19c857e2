"""What the memory service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_kit.embeddings import Embeddings
    from skein_kit.months import Months
    from skein_memory.settings import MemorySettings
    from skein_memory.store import LinkStore, MemoryStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running memory service."""

    settings: MemorySettings
    embeddings: Embeddings
    months: Months
    memories: MemoryStore
    links: LinkStore


class Rpcs:
    """A group of RPCs over the parts."""

    def __init__(self, parts: Parts) -> None:
        """Answer with these parts."""
        self._parts = parts
