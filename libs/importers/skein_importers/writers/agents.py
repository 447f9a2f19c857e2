"""Writers of agents, tools, blocks and their attachments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_client.errors import NotFound
from skein_client.pagination import iterate_pages
from skein_importers.records import Kind, Record
from skein_importers.writers.base import Writer, WriterContext

_PAGE = 1000


class Agents(Writer):
    """Agents by their ids."""

    kind = Kind.AGENT
    exists_reasons: ClassVar = frozenset({"AGENT_EXISTS"})

    async def get(self, item: tenancy_pb2.Agent) -> Message:
        """Return the agent."""
        return (await self._api.tenancy.GetAgent(tenancy_pb2.GetAgentRequest(agent_id=item.agent_id))).agent

    async def write(self, records: Sequence[Record]) -> None:
        """Make one agent."""
        request = tenancy_pb2.CreateAgentRequest(agent=records[0].item)
        await self._write_with_times(self._api.tenancy.CreateAgent, request, records)


class Tools(Writer):
    """Tools by their ids; a name of another tool is refused."""

    kind = Kind.TOOL
    checks_first = True

    async def get(self, item: subjects_pb2.Tool) -> Message:
        """Return the tool."""
        return (await self._api.tenancy.GetTool(subjects_pb2.GetToolRequest(tool_id=item.tool_id))).tool

    async def write(self, records: Sequence[Record]) -> None:
        """Make one tool."""
        request = subjects_pb2.CreateToolRequest(tool=records[0].item)
        await self._write_with_times(self._api.tenancy.CreateTool, request, records)


class ToolAttachments(Writer):
    """Which tools an agent may use."""

    kind = Kind.TOOL_ATTACHMENT
    checks_first = True

    def __init__(self, context: WriterContext) -> None:
        """Know of no agent yet."""
        super().__init__(context)
        self._tools: dict[str, set[str]] = {}

    async def get(self, item: subjects_pb2.AttachToolRequest) -> Message:
        """Return the attachment. Raises NotFound."""
        if item.agent_id not in self._tools:
            request = subjects_pb2.ListToolsRequest(agent_id=item.agent_id, page_size=_PAGE)
            self._tools[item.agent_id] = {
                tool.tool_id async for tool in iterate_pages(self._api.tenancy.ListTools, request, "tools")
            }
        if item.tool_id not in self._tools[item.agent_id]:
            raise NotFound("The agent has no such tool.")
        return subjects_pb2.AttachToolRequest(agent_id=item.agent_id, tool_id=item.tool_id)

    async def write(self, records: Sequence[Record]) -> None:
        """Attach one tool to one agent."""
        await self._api.tenancy.AttachTool(records[0].item)


class Blocks(Writer):
    """Blocks by their ids."""

    kind = Kind.BLOCK
    exists_reasons: ClassVar = frozenset({"BLOCK_EXISTS"})

    async def get(self, item: blocks_pb2.Block) -> Message:
        """Return the block."""
        return (await self._api.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=item.block_id))).block

    async def write(self, records: Sequence[Record]) -> None:
        """Make one block."""
        request = blocks_pb2.CreateBlockRequest(block=records[0].item)
        await self._write_with_times(self._api.blocks.CreateBlock, request, records)


class BlockAttachments(Writer):
    """Which blocks an agent carries."""

    kind = Kind.BLOCK_ATTACHMENT
    checks_first = True

    def __init__(self, context: WriterContext) -> None:
        """Know of no block yet."""
        super().__init__(context)
        self._agents: dict[str, set[str]] = {}

    async def get(self, item: blocks_pb2.AttachBlockRequest) -> Message:
        """Return the attachment. Raises NotFound."""
        if item.block_id not in self._agents:
            request = blocks_pb2.ListBlockAgentsRequest(block_id=item.block_id, page_size=_PAGE)
            self._agents[item.block_id] = {
                agent.agent_id async for agent in iterate_pages(self._api.blocks.ListBlockAgents, request, "agents")
            }
        if item.agent_id not in self._agents[item.block_id]:
            raise NotFound("The agent has no such block.")
        return blocks_pb2.AttachBlockRequest(block_id=item.block_id, agent_id=item.agent_id)

    async def write(self, records: Sequence[Record]) -> None:
        """Attach one block to one agent."""
        await self._api.blocks.AttachBlock(records[0].item)
