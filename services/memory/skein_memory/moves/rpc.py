"""Handlers of the RPCs that move memories and blocks between spaces."""

from __future__ import annotations

from skein.memory.v1 import blocks_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_kit.calls.call import Context, spaces_of_move
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_memory.moves.store import move_block, move_memories


class MoveHandlers:
    """Moves of memories and blocks."""

    def __init__(self, idempotency: IdempotencyStore) -> None:
        self._idempotency = idempotency

    async def MoveMemories(self, request: pb.MoveMemoriesRequest, context: Context) -> pb.MoveMemoriesResponse:
        caller = caller_of(context)
        source_id, target_id = spaces_of_move(caller, request.space_id)
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

    async def MoveBlock(self, request: blocks_pb2.MoveBlockRequest, context: Context) -> blocks_pb2.MoveBlockResponse:
        caller = caller_of(context)
        source_id, target_id = spaces_of_move(caller, request.space_id)
        async with self._idempotency.begin(caller, request) as write:
            await move_block(
                write.tx,
                caller.require_tenant(),
                request.block_id,
                source_id,
                target_id,
                at=now(),
                by=caller.principal,
            )
            return await write.save(blocks_pb2.MoveBlockResponse())
