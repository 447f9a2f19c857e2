"""A prompt that a context ledger fills, for tests."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from fix_cluster import Stubs

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2

QUERY = "What does Anna drink?"


@dataclass(kw_only=True)
class Prompt:
    """What an agent's prompt has of its context."""

    stubs: Stubs
    fields: dict[str, Any] = field(default_factory=dict)
    ledger_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    text: str = ""
    revision: int = 0
    rebases: list[pb.RebaseReason] = field(default_factory=list)

    def request(self, query: str = QUERY, **fields: Any) -> pb.BuildContextRequest:
        recall = {"query": query, "min_relevance": 0, **fields.pop("recall", {}), **self.fields.get("recall", {})}
        others = {name: value for name, value in self.fields.items() if name != "recall"}
        named = {"ledger_id": self.ledger_id, "ledger_revision": self.revision, **others, **fields}
        return pb.BuildContextRequest(recall=pb.RecallRequest(**recall), **named)

    def take(self, response: pb.BuildContextResponse) -> pb.BuildContextResponse:
        """Put an answer into the prompt."""
        if response.rebase:
            self.rebases.append(response.rebase)
        self.text = response.text if response.rebase else self.text + response.text
        self.revision = response.ledger_revision
        return response

    async def turn(self, query: str = QUERY, **fields: Any) -> pb.BuildContextResponse:
        return self.take(await self.stubs.gateway.BuildContext(self.request(query, **fields)))


async def remember(stubs: Stubs, *contents: str, **fields: Any) -> list[memory_pb2.Memory]:
    memories = [memory_pb2.Memory(content=content, **fields) for content in contents]
    return list((await stubs.gateway.Remember(pb.RememberRequest(memories=memories))).memories)


def lines_of(text: str) -> list[str]:
    """Return the lines that begin with a citation."""
    return [line for line in text.splitlines() if line.startswith("- [")]
