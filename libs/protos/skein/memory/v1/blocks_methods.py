"""The methods of the services of skein/memory/v1/blocks.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.memory.v1 import blocks_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockServiceMethods:
    """What answers each RPC of BlockService."""

    CreateBlock: Callable[[blocks_pb2.CreateBlockRequest, Any], Awaitable[blocks_pb2.CreateBlockResponse]]
    CreateBlockFromTemplate: Callable[[blocks_pb2.CreateBlockFromTemplateRequest, Any], Awaitable[blocks_pb2.CreateBlockFromTemplateResponse]]
    GetBlock: Callable[[blocks_pb2.GetBlockRequest, Any], Awaitable[blocks_pb2.GetBlockResponse]]
    ListBlocks: Callable[[blocks_pb2.ListBlocksRequest, Any], Awaitable[blocks_pb2.ListBlocksResponse]]
    UpdateBlock: Callable[[blocks_pb2.UpdateBlockRequest, Any], Awaitable[blocks_pb2.UpdateBlockResponse]]
    DeleteBlock: Callable[[blocks_pb2.DeleteBlockRequest, Any], Awaitable[blocks_pb2.DeleteBlockResponse]]
    UndeleteBlock: Callable[[blocks_pb2.UndeleteBlockRequest, Any], Awaitable[blocks_pb2.UndeleteBlockResponse]]
    PurgeBlock: Callable[[blocks_pb2.PurgeBlockRequest, Any], Awaitable[blocks_pb2.PurgeBlockResponse]]
    AppendToBlock: Callable[[blocks_pb2.AppendToBlockRequest, Any], Awaitable[blocks_pb2.AppendToBlockResponse]]
    ReplaceInBlock: Callable[[blocks_pb2.ReplaceInBlockRequest, Any], Awaitable[blocks_pb2.ReplaceInBlockResponse]]
    InsertIntoBlock: Callable[[blocks_pb2.InsertIntoBlockRequest, Any], Awaitable[blocks_pb2.InsertIntoBlockResponse]]
    AttachBlock: Callable[[blocks_pb2.AttachBlockRequest, Any], Awaitable[blocks_pb2.AttachBlockResponse]]
    DetachBlock: Callable[[blocks_pb2.DetachBlockRequest, Any], Awaitable[blocks_pb2.DetachBlockResponse]]
    ListBlockAgents: Callable[[blocks_pb2.ListBlockAgentsRequest, Any], Awaitable[blocks_pb2.ListBlockAgentsResponse]]
    ListAgentBlocks: Callable[[blocks_pb2.ListAgentBlocksRequest, Any], Awaitable[blocks_pb2.ListAgentBlocksResponse]]
    CompileBlocks: Callable[[blocks_pb2.CompileBlocksRequest, Any], Awaitable[blocks_pb2.CompileBlocksResponse]]
    ListBlockRevisions: Callable[[blocks_pb2.ListBlockRevisionsRequest, Any], Awaitable[blocks_pb2.ListBlockRevisionsResponse]]
    RevertBlock: Callable[[blocks_pb2.RevertBlockRequest, Any], Awaitable[blocks_pb2.RevertBlockResponse]]
    MoveBlock: Callable[[blocks_pb2.MoveBlockRequest, Any], Awaitable[blocks_pb2.MoveBlockResponse]]
