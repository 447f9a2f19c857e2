"""The requests behind the client's short methods; both faces send the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable


def remember(
    memories: memory_pb2.Memory | str | Iterable[memory_pb2.Memory | str],
    messages: session_pb2.Message | Iterable[session_pb2.Message],
    session_id: str,
    request_id: str,
) -> gateway_pb2.RememberRequest:
    # A text is a sequence of texts as well: taken for one, each of its letters would become a memory.
    items = [memories] if isinstance(memories, str | memory_pb2.Memory) else memories
    return gateway_pb2.RememberRequest(
        session_id=session_id,
        messages=[messages] if isinstance(messages, session_pb2.Message) else messages,
        memories=[memory_pb2.Memory(content=item) if isinstance(item, str) else item for item in items],
        request_id=request_id,
    )


def recall(
    query: str,
    *,
    limit: int,
    arms: Iterable[gateway_pb2.Arm],
    filter: memory_pb2.MemoryFilter | None,  # noqa: A002 - the contract's own word.
    min_similarity: float,
    embedding: Iterable[float],
) -> gateway_pb2.RecallRequest:
    return gateway_pb2.RecallRequest(
        query=query,
        limit=limit,
        arms=arms,
        filter=filter,
        min_similarity=min_similarity,
        embedding=embedding,
    )
