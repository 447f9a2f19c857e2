"""A request for every RPC of blocks, and the blocks that they name."""

from __future__ import annotations

import uuid
from typing import Any

from fix_recipe import mask, service
from fix_world import MAKERS, World

from skein.memory.v1 import blocks_pb2 as pb

_blocks = service("skein.memory.v1.BlockService", pb)
# What the matrix's agents are called; an agent's blocks are found by nothing but its name.
AGENT = "the agent of the matrix"


async def _made(world: World, **fields: Any) -> str:
    block = pb.Block(label=uuid.uuid4().hex, value=world.text("the kettle is red "), **fields)
    return (await world.tenant.blocks.CreateBlock(pb.CreateBlockRequest(block=block))).block.block_id


async def _block(world: World) -> str:
    block_id = await _made(world, block_id=f"block-{uuid.uuid4().hex}")
    await world.tenant.blocks.AppendToBlock(pb.AppendToBlockRequest(block_id=block_id, text=world.text("more ")))
    await world.tenant.blocks.AttachBlock(pb.AttachBlockRequest(block_id=block_id, agent_id=AGENT))
    return block_id


async def _template(world: World) -> str:
    return await _made(world, is_template=True)


async def _deleted(world: World) -> str:
    block_id = await _made(world)
    await world.tenant.blocks.DeleteBlock(pb.DeleteBlockRequest(block_id=block_id))
    return block_id


MAKERS |= {"block_id": _block, "template_block_id": _template, "deleted_block_id": _deleted}


def _text(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {**things, "text": "more"}


def _agent(things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {**things, "agent_id": AGENT}


def _agent_alone(_things: dict[str, Any], _world: World) -> dict[str, Any]:
    return {"agent_id": AGENT}


_blocks("CreateBlock", build=lambda _t, w: {"block": pb.Block(label="human", value=w.text())})
_blocks("CreateBlockFromTemplate", "template_block_id")
_blocks("GetBlock", "block_id")
_blocks("ListBlocks", "block_id", build=lambda _t, _w: {"show_deleted": True})
_blocks(
    "UpdateBlock",
    "block_id",
    build=lambda t, _w: {"block": pb.Block(**t, value="changed"), "update_mask": mask("value")},
)
_blocks("DeleteBlock", "block_id")
_blocks("UndeleteBlock", "deleted_block_id", build=lambda t, _w: {"block_id": t["deleted_block_id"]})
_blocks("PurgeBlock", "deleted_block_id", build=lambda t, _w: {"block_id": t["deleted_block_id"]})
_blocks("AppendToBlock", "block_id", build=_text)
_blocks("ReplaceInBlock", "block_id", build=lambda t, _w: {**t, "old_text": "kettle", "new_text": "pot"})
_blocks("InsertIntoBlock", "block_id", build=_text)
_blocks("AttachBlock", "block_id", build=_agent)
_blocks("DetachBlock", "block_id", build=_agent)
_blocks("ListBlockAgents", "block_id")
_blocks("ListAgentBlocks", "block_id", build=_agent_alone)
_blocks("CompileBlocks", "block_id", build=_agent_alone)
_blocks("ListBlockRevisions", "block_id")
_blocks("RevertBlock", "block_id", build=lambda t, _w: {**t, "to_revision": 1})
