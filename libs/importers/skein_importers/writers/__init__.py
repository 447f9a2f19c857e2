"""Writers of each kind of record, which also find the existing ones."""

from __future__ import annotations

from collections.abc import Mapping

from skein_importers.records import Kind
from skein_importers.writers.agents import Agents, BlockAttachments, Blocks, ToolAttachments, Tools
from skein_importers.writers.base import Writer
from skein_importers.writers.curation import Aliases, Conflicts, Pages, Policies, Trust, Webhooks
from skein_importers.writers.memories import Embeddings, Links, Memories
from skein_importers.writers.sessions import AgentStates, Items, Messages, Sessions, Subjects

_ALL: tuple[type[Writer], ...] = (
    Subjects,
    Agents,
    Tools,
    ToolAttachments,
    Blocks,
    BlockAttachments,
    Sessions,
    Messages,
    Items,
    AgentStates,
    Memories,
    Embeddings,
    Links,
    Trust,
    Aliases,
    Conflicts,
    Pages,
    Policies,
    Webhooks,
)
WRITERS: Mapping[Kind, type[Writer]] = {writer.kind: writer for writer in _ALL}
