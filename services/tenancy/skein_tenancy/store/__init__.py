"""Every database call of the tenancy service, one method for each thing that is done."""

from __future__ import annotations

from skein_tenancy.store.agents import AgentStore
from skein_tenancy.store.directory import DirectoryStore

__all__ = ["AgentStore", "DirectoryStore"]
