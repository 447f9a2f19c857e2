"""What the tenancy service is made of: one value that the composition root fills and every group of RPCs draws from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_tenancy.store import AgentStore, DirectoryStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a running tenancy service."""

    directory: DirectoryStore
    agents: AgentStore
