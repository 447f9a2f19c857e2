"""Secrets that the content guard takes out of memories: each becomes a memory of the vault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from skein.memory.v1 import memory_pb2 as pb
from skein_memory.memories import convert, memory_type
from skein_memory.memories.model import Memory, create_memories


@dataclass(kw_only=True, slots=True)
class SealedSecrets:
    """The memories of the vault that one call adds, with their secrets."""

    at: datetime
    by: str
    agent_id: str
    memories: list[Memory] = field(default_factory=list)
    secrets: dict[UUID, str] = field(default_factory=dict)
    # The messages that hold each, by the id of its memory.
    _holders: dict[UUID, list[pb.Memory]] = field(default_factory=dict)

    def seal(self, source: pb.Memory, kind: str, secret: str) -> str:
        """Add a secret of a memory, for the same readers; return what the memory holds in its place.

        The same secret of the same kind becomes one memory.
        """
        for memory in self.memories:
            if self.secrets[memory.memory_id] == secret and memory.draft.title == kind:
                self._holders[memory.memory_id].append(source)
                return _placeholder(kind, memory.memory_id)
        message = pb.Memory(
            type=memory_type.VAULT,
            title=kind,
            source=source.source,
            source_agent=source.source_agent,
            agent_id=source.agent_id,
            subject_id=source.subject_id,
            session_id=source.session_id,
            scope=source.scope,
            secret_value=secret,
        )
        if source.HasField("expire_time"):
            message.expire_time.CopyFrom(source.expire_time)
        draft = convert.draft(message, at=self.at, max_content=1, agent_id=self.agent_id)
        (memory,) = create_memories([draft], at=self.at, by=self.by)
        self.memories.append(memory)
        self.secrets[memory.memory_id] = secret
        self._holders[memory.memory_id] = [source]
        return _placeholder(kind, memory.memory_id)

    def of_messages(self, messages: Sequence[pb.Memory]) -> list[Memory]:
        """Return the memories of the vault that some of these messages hold."""
        wanted = {id(message) for message in messages}
        return [
            memory
            for memory in self.memories
            if any(id(holder) in wanted for holder in self._holders[memory.memory_id])
        ]


def _placeholder(kind: str, memory_id: UUID) -> str:
    return f"[{kind}: vault {memory_id}]"
