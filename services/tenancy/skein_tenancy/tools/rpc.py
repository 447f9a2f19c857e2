"""The RPCs of tools, and the validation of their JSON Schemas, which follows no reference and compiles no pattern."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.validators import validator_for

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.rpc import pagination, well_known_types
from skein_tenancy.errors import JsonSchemaInvalid
from skein_tenancy.row_handlers import RowHandlers
from skein_tenancy.tools.store import Tool, ToolStore

_TEXTS = ("name", "description", "source_type", "source_code")
_OBJECTS = ("json_schema", "metadata")
# Checking takes about 0.1 ms per character, so longer texts are checked in a thread.
_SMALL_CHARACTERS = 4000
_MAX_PATH_CHARACTERS = 200
# The uniqueness of values of mixed types is checked pair by pair, which is quadratic.
_MAX_MIXED = 100
# Formats are not checked: compiling a regular expression of a few hundred characters can take seconds.
_NO_FORMATS = FormatChecker(formats=())


class ToolHandlers(RowHandlers[Tool]):
    """Tools of a tenant and of its agents."""

    noun, message = "tool", pb.Tool
    updatable = (*_TEXTS, *_OBJECTS, "tags")

    def __init__(self, store: ToolStore, idempotency: IdempotencyStore) -> None:
        super().__init__(store, idempotency)
        self._store = store

    async def values(self, message: pb.Tool, names: Iterable[str]) -> dict[str, object]:
        """Raises JsonSchemaInvalid and FieldInvalid."""
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

    async def CreateTool(self, request: pb.CreateToolRequest, context: Context) -> pb.CreateToolResponse:
        return await self.create(request, context, pb.CreateToolResponse)

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        return await self.get(request, context, pb.GetToolResponse)

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        tenant_id = caller_of(context).require_tenant()
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_tools(
            tenant_id,
            request.agent_id,
            after=position[0] if position else "",
            size=pagination.resolve_page_size(request.page_size) + 1,
            show_deleted=request.show_deleted,
        )
        return self.page(request, tenant_id, rows, pb.ListToolsResponse)

    async def UpdateTool(self, request: pb.UpdateToolRequest, context: Context) -> pb.UpdateToolResponse:
        return await self.update(request, context, pb.UpdateToolResponse)

    async def DeleteTool(self, request: pb.DeleteToolRequest, context: Context) -> pb.DeleteToolResponse:
        return await self.delete(request, context, pb.DeleteToolResponse)

    async def UndeleteTool(self, request: pb.UndeleteToolRequest, context: Context) -> pb.UndeleteToolResponse:
        return await self.undelete(request, context, pb.UndeleteToolResponse)

    async def PurgeTool(self, request: pb.PurgeToolRequest, context: Context) -> pb.PurgeToolResponse:
        return await self.purge(request, context, pb.PurgeToolResponse)

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
