"""The RPCs of tools, and the validation of their JSON Schemas, which follows no reference and compiles no pattern."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask
from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.validators import validator_for

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc import pagination, well_known_types
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.errors import JsonSchemaInvalid
from skein_tenancy.rows import RowChange, RowDraft
from skein_tenancy.tools.store import Tool, ToolStore

_TEXTS = ("name", "description", "source_type", "source_code")
_OBJECTS = ("json_schema", "metadata")
_UPDATABLE = (*_TEXTS, *_OBJECTS, "tags")
# Checking takes about 0.1 ms per character, so longer texts are checked in a thread.
_SMALL_CHARACTERS = 4000
_MAX_PATH_CHARACTERS = 200
# The uniqueness of values of mixed types is checked pair by pair, which is quadratic.
_MAX_MIXED = 100
# Formats are not checked: compiling a regular expression of a few hundred characters can take seconds.
_NO_FORMATS = FormatChecker(formats=())


class ToolHandlers:
    """Tools of a tenant and of its agents."""

    def __init__(self, store: ToolStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateTool(self, request: pb.CreateToolRequest, context: Context) -> pb.CreateToolResponse:
        caller = caller_of(context)
        draft = await read_draft(request.tool)
        times = ImportTimes.read(request.tool, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            tool = await self._store.create_tool(
                write.tx, caller.require_tenant(), draft, times, created_by=caller.principal
            )
            return await write.save(pb.CreateToolResponse(tool=tool_message(tool)))

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        tool = await self._store.get_tool(caller_of(context).require_tenant(), request.tool_id)
        return pb.GetToolResponse(tool=tool_message(tool))

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        after = position[0] if position else ""
        rows = await self._store.list_tools(
            tenant_id, request.agent_id, after=after, size=size + 1, show_deleted=request.show_deleted
        )
        page, token = pagination.fit_rows(
            rows, tool_message, lambda tool: [tool.tool_id], request, tenant_id, size=size
        )
        return pb.ListToolsResponse(tools=page, next_page_token=token)

    async def UpdateTool(self, request: pb.UpdateToolRequest, context: Context) -> pb.UpdateToolResponse:
        caller = caller_of(context)
        change = await read_change(request.tool, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            tool = await self._store.update_tool(write.tx, caller.require_tenant(), change, updated_by=caller.principal)
            return await write.save(pb.UpdateToolResponse(tool=tool_message(tool)))

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
            return await write.save(pb.UndeleteToolResponse(tool=tool_message(tool)))

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


def tool_message(value: Tool) -> pb.Tool:
    return well_known_types.to_message(pb.Tool, value)


async def read_draft(message: pb.Tool) -> RowDraft:
    """Raises JsonSchemaInvalid and FieldInvalid."""
    return RowDraft(row_id=message.tool_id, values=await _values(message, _UPDATABLE))


async def read_change(message: pb.Tool, mask: FieldMask) -> RowChange:
    """Read the fields that the mask names, or all when it is empty. Raises JsonSchemaInvalid and FieldInvalid."""
    updated_names = well_known_types.updated_fields(mask, _UPDATABLE)
    return RowChange(row_id=message.tool_id, revision=message.revision, values=await _values(message, updated_names))


async def _values(message: pb.Tool, names: Iterable[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        if name in _OBJECTS:
            values[name] = text = well_known_types.json_text(message, name)
            if name == "json_schema" and text is not None:
                await check_json_schema(text)
        elif name == "tags":
            values[name] = list(message.tags)
        else:
            values[name] = getattr(message, name)
    if "name" in values and not message.name.strip():
        raise FieldInvalid(violations=[("tool.name", "cannot be empty")])
    return values


async def check_json_schema(text: str) -> None:
    """Raise JsonSchemaInvalid for a JSON object that breaks the rules of its draft; unknown drafts mean 2020-12.

    The caller bounds the depth and length of the text.
    """
    schema = json.loads(text)
    if len(text) <= _SMALL_CHARACTERS:
        _check(schema)
    else:
        await asyncio.to_thread(_check, schema)


def _check(schema: dict[str, object]) -> None:
    if not isinstance(schema.get("$schema", ""), str):
        raise JsonSchemaInvalid(violations=[("tool.json_schema", "$schema is no text")])
    try:
        if _is_mixed(schema):
            violation = f"holds a list of more than {_MAX_MIXED} values that are neither all texts nor all numbers"
            raise JsonSchemaInvalid(violations=[("tool.json_schema", violation)])
        validator_for(schema, default=Draft202012Validator).check_schema(
            schema,
            format_checker=_NO_FORMATS,  # type: ignore[call-arg]  # The stubs lack it.
        )
    except SchemaError as error:
        path = error.json_path[:_MAX_PATH_CHARACTERS]
        raise JsonSchemaInvalid(violations=[("tool.json_schema", f"breaks `{error.validator}` at {path}")]) from None
    except RecursionError:
        raise JsonSchemaInvalid(violations=[("tool.json_schema", "is nested too deep")]) from None


def _is_mixed(value: object) -> bool:
    """Return whether a long list holds values that are neither all texts nor all numbers."""
    if isinstance(value, dict):
        return any(map(_is_mixed, value.values()))
    if not isinstance(value, list):
        return False
    if len(value) > _MAX_MIXED:
        types = {type(item) for item in value}
        return not (types == {str} or types <= {int, float})
    return any(map(_is_mixed, value))
