"""The RPCs of tools: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.tools import convert
from skein_tenancy.tools.store import ToolStore


class ToolHandlers:
    """Tools of a tenant and of its agents."""

    def __init__(self, store: ToolStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateTool(self, request: pb.CreateToolRequest, context: Context) -> pb.CreateToolResponse:
        caller = caller_of(context)
        draft = await convert.draft(request.tool)
        times = ImportTimes.read(request.tool, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            tool = await self._store.create_tool(
                write.tx, caller.require_tenant(), draft, times, created_by=caller.principal
            )
            return await write.save(pb.CreateToolResponse(tool=convert.tool(tool)))

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        tool = await self._store.get_tool(caller_of(context).require_tenant(), request.tool_id)
        return pb.GetToolResponse(tool=convert.tool(tool))

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        after = position[0] if position else ""
        rows = await self._store.list_tools(
            tenant_id, request.agent_id, after=after, size=size + 1, show_deleted=request.show_deleted
        )
        page, token = pagination.fit_rows(
            rows, convert.tool, lambda tool: [tool.tool_id], request, tenant_id, size=size
        )
        return pb.ListToolsResponse(tools=page, next_page_token=token)

    async def UpdateTool(self, request: pb.UpdateToolRequest, context: Context) -> pb.UpdateToolResponse:
        caller = caller_of(context)
        change = await convert.change(request.tool, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            tool = await self._store.update_tool(write.tx, caller.require_tenant(), change, updated_by=caller.principal)
            return await write.save(pb.UpdateToolResponse(tool=convert.tool(tool)))

    async def DeleteTool(self, request: pb.DeleteToolRequest, context: Context) -> pb.DeleteToolResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_tool(
                write.tx, caller.require_tenant(), request.tool_id, deleted_by=caller.principal
            )
        return pb.DeleteToolResponse()

    async def UndeleteTool(self, request: pb.UndeleteToolRequest, context: Context) -> pb.UndeleteToolResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            tool = await self._store.undelete_tool(
                write.tx, caller.require_tenant(), request.tool_id, updated_by=caller.principal
            )
            return await write.save(pb.UndeleteToolResponse(tool=convert.tool(tool)))

    async def PurgeTool(self, request: pb.PurgeToolRequest, context: Context) -> pb.PurgeToolResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.purge_tool(write.tx, caller.require_tenant(), request.tool_id)
        return pb.PurgeToolResponse()

    async def AttachTool(self, request: pb.AttachToolRequest, context: Context) -> pb.AttachToolResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.attach_tool(
                write.tx, caller.require_tenant(), request.agent_id, request.tool_id, created_by=caller.principal
            )
        return pb.AttachToolResponse()

    async def DetachTool(self, request: pb.DetachToolRequest, context: Context) -> pb.DetachToolResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.detach_tool(write.tx, caller.require_tenant(), request.agent_id, request.tool_id)
        return pb.DetachToolResponse()
