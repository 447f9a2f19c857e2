"""The RPCs that concern tools: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.rpc_base import Rpcs
from skein_tenancy.tools import model as tools


class ToolRpcs(Rpcs):
    """The tools of a tenant and of its agents."""

    async def CreateTool(self, request: pb.CreateToolRequest, context: Context) -> pb.CreateToolResponse:
        who = caller(context)
        draft = await tools.Draft.of(request.tool)
        times = ImportTimes.of(request.tool, who, now(), keep_times=request.keep_times)
        return await self._parts.tools.create_tool(
            who.tenant(), draft, times, IdempotencyKey.of(who, request), created_by=who.principal
        )

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        return pb.GetToolResponse(tool=await self._parts.tools.get_tool(caller(context).tenant(), request.tool_id))

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        place = pagination.read_token(request.page_token, tenant_id, request)
        after = place[0] if place else ""
        found = await self._parts.tools.list_tools(
            tenant_id, request.agent_id, after=after, size=size + 1, show_deleted=request.show_deleted
        )
        page = pagination.fit_items(found[:size])
        response = pb.ListToolsResponse(tools=page)
        if len(found) > len(page):
            response.next_page_token = pagination.write_token([page[-1].tool_id], tenant_id, request)
        return response

    async def UpdateTool(self, request: pb.UpdateToolRequest, context: Context) -> pb.UpdateToolResponse:
        who = caller(context)
        change = await tools.Change.of(request.tool, request.update_mask)
        once = IdempotencyKey.of(who, request)
        return await self._parts.tools.update_tool(who.tenant(), change, once, updated_by=who.principal)

    async def DeleteTool(self, request: pb.DeleteToolRequest, context: Context) -> pb.DeleteToolResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.tools.delete_tool(who.tenant(), request.tool_id, once, deleted_by=who.principal)

    async def UndeleteTool(self, request: pb.UndeleteToolRequest, context: Context) -> pb.UndeleteToolResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.tools.undelete_tool(who.tenant(), request.tool_id, once, updated_by=who.principal)

    async def PurgeTool(self, request: pb.PurgeToolRequest, context: Context) -> pb.PurgeToolResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.tools.purge_tool(who.tenant(), request.tool_id, once)

    async def AttachTool(self, request: pb.AttachToolRequest, context: Context) -> pb.AttachToolResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.tools.attach_tool(
            who.tenant(), request.agent_id, request.tool_id, once, created_by=who.principal
        )

    async def DetachTool(self, request: pb.DetachToolRequest, context: Context) -> pb.DetachToolResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.tools.detach_tool(who.tenant(), request.agent_id, request.tool_id, once)
