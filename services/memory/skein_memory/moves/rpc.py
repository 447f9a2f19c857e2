"""Handler of the RPC that moves memories between spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, current_space_ids
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.identity.space_reach import walled_reach
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now
from skein_memory.moves.store import move_memories

if TYPE_CHECKING:
    from skein_kit.idempotency.store import IdempotencyStore


class MoveHandlers:
    """Moves of memories."""

    def __init__(self, idempotency: IdempotencyStore) -> None:
        self._idempotency = idempotency

    async def MoveMemories(self, request: pb.MoveMemoriesRequest, context: Context) -> pb.MoveMemoriesResponse:
        caller = caller_of(context)
        (target_id,) = walled_reach(caller, request.space_id, is_write=True) or (DEFAULT_SPACE,)
        (source_id,) = current_space_ids() or (DEFAULT_SPACE,)
        if source_id == target_id:
            raise FieldInvalid(violations=[("space_id", "is the space in which the call acts")])
        async with self._idempotency.begin(caller, request) as write:
            moved_ids = await move_memories(
                write.tx,
                caller.require_tenant(),
                list(request.memory_ids),
                source_id,
                target_id,
                at=now(),
                by=caller.principal,
            )
            return await write.save(pb.MoveMemoriesResponse(memory_ids=map(str, moved_ids)))
