"""Formats of other memory systems, each with a module that reads it and never writes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from skein_importers.sources.base import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A format and its module."""

    # A module of this package with the context manager `open_source(source)`.
    module: str
    # The module has `open_source(source, vectors)`.
    has_vectors: bool = False
    # SOURCE is a URL.
    is_url: bool = False

    def open(self, source: str, vectors: str = "") -> AbstractContextManager[Source]:
        """Import the module and open a source. Raises SourceInvalid."""
        module = importlib.import_module(f"{__name__}.{self.module}")
        opener = cast("Callable[..., AbstractContextManager[Source]]", module.open_source)
        return opener(source, vectors) if self.has_vectors else opener(source)


FORMATS: Mapping[str, Format] = {
    "duyetbot-d1": Format(module="duyetbot_d1"),
    "longterm-d1": Format(module="longterm_d1", has_vectors=True),
    "memoryvault-d1": Format(module="memoryvault_d1"),
    "memoryvault-json": Format(module="memoryvault_json"),
    "agentmem-pg": Format(module="agentmem_pg", is_url=True),
    "orchestrator-pg": Format(module="orchestrator_pg", is_url=True),
    "session-memory-agent": Format(module="session_memory_agent"),
    "contextual-memory": Format(module="contextual_memory"),
    "jarvis-memory": Format(module="jarvis_memory"),
    "chatgpt-json": Format(module="chatgpt_json"),
    "claude-json": Format(module="claude_json"),
    "graphiti-json": Format(module="graphiti_json"),
    "hindsight-zip": Format(module="hindsight_zip"),
    "langgraph-pg": Format(module="langgraph_pg", is_url=True),
    "letta-af": Format(module="letta_af"),
    "letta-pg": Format(module="letta_pg", is_url=True),
    "mem0-json": Format(module="mem0_json"),
    "mem0-pgvector": Format(module="mem0_pgvector", is_url=True),
    "mcp-memory-jsonl": Format(module="mcp_memory_jsonl"),
    "openmemory-sqlite": Format(module="openmemory_sqlite"),
    "mif": Format(module="mif"),
}
