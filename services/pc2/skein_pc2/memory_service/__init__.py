"""The Memory Orchestrator Service's dialect (port 7140)."""

from __future__ import annotations

from skein_pc2.memory_service.service import MemoryService

__all__ = ["MemoryService"]
