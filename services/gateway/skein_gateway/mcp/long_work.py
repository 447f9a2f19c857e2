"""MCP's tasks (the extension io.modelcontextprotocol/tasks): work of tools that goes on after their first call.

A task's id holds the request of its next step, so that any gateway continues it and none stores it. Each tasks/get does
a step in the name of its caller, with the same permissions as the tool.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import mcp_types as types
from google.protobuf.message import DecodeError
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skein_gateway.mcp import errors as mcp_errors
from skein_gateway.mcp.rpc_calls import mcp_request_of
from skein_gateway.mcp.toolsets import SET_OF, TOOLS
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.calls.call import CallAborted
from skein_kit.errors import status_code
from skein_kit.ids import now

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from mcp.server.context import ServerRequestContext

    from skein_gateway.mcp.rpc_calls import McpRequest, RpcCaller
    from skein_gateway.mcp.tool import Continuation, Tool

    Context = ServerRequestContext[Any, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
_POLL_MS = 1000
# A request with its lists of ids is shorter.
_MAX_ID = 16_384
_REQUEST_ID = "request_id"
# Errors that a later poll need not have.
_TEMPORARY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)


class TaskParams(types.RequestParams):
    """Parameters of tasks/get and tasks/cancel."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Parameters of tasks/update. No task asks for input: answers to earlier questions are ignored."""

    input_responses: dict[str, Any] | None = None


def accepts_tasks(context: Context) -> bool:
    """Return whether the client takes a task in place of a result."""
    capabilities = context.session.client_capabilities
    return (
        context.protocol_version in MODERN_PROTOCOL_VERSIONS
        and capabilities is not None
        and EXTENSION in (capabilities.extensions or {})
    )


def with_request_id(request: Message) -> Message:
    """Give a request an id, with which its repetition continues the work."""
    if _REQUEST_ID in request.DESCRIPTOR.fields_by_name and not getattr(request, _REQUEST_ID):
        setattr(request, _REQUEST_ID, str(uuid.uuid4()))
    return request


def result_or_task(tool: Tool, request: Message, response: Message) -> types.CallToolResult | dict[str, Any]:
    """Return the result of a call, or the task that continues its work."""
    continuation = tool.continuation
    if continuation is None or not continuation.is_unfinished(response):
        return tool.result(response)
    step = continuation.next_request(request, response, PUBLIC_METHODS[continuation.path or tool.path].request)
    text = base64.urlsafe_b64encode(step.SerializeToString()).rstrip(b"=").decode()
    task_id = f"{tool.name}.{int(now().timestamp() * 1000)}.{text}"
    return {"resultType": "task", **_task(task_id, "working", response, tool)}


class LongWork:
    """The handlers of the extension's methods."""

    def __init__(self, rpcs: RpcCaller) -> None:
        """Call RPCs."""
        self._rpcs = rpcs

    async def get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Do the next step of a task and return its state."""
        tool, continuation, request, mcp_request = self._step(context, params)
        path = continuation.path or tool.path
        try:
            convert = partial(self._state, params.task_id, tool, continuation)
            return await self._rpcs.call_and_convert(
                mcp_request, path, request, convert, seconds=continuation.step_seconds
            )
        except CallAborted as aborted:
            if status_code(aborted.status) in _TEMPORARY:
                raise mcp_errors.error(aborted.status, context.protocol_version) from None
            result = mcp_errors.result(aborted.status, tool.argument_path)
            return {**_task(params.task_id, "completed"), "result": _dump(result)}

    async def update(self, context: Context, params: UpdateTaskParams) -> dict[str, Any]:
        """Acknowledge answers that no task has asked for."""
        self._step(context, params)
        return {}

    async def cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Acknowledge a cancellation: without polls no further step is done, and what is done stays done."""
        self._step(context, params)
        return {}

    @staticmethod
    def _state(task_id: str, tool: Tool, continuation: Continuation, response: Message) -> dict[str, Any]:
        if continuation.is_unfinished(response):
            return _task(task_id, "working", response, tool)
        return {**_task(task_id, "completed"), "result": _dump(tool.result(response))}

    @staticmethod
    def _step(context: Context, params: TaskParams) -> tuple[Tool, Continuation, Message, McpRequest]:
        """Return the tool of a task and the request of its next step. Raises MCPError."""
        if not accepts_tasks(context):
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data)
        mcp_request = mcp_request_of(context)
        header = mcp_request.call.metadata.get(MCP_NAME_HEADER)
        # A proxy on the way may have decided by it. A missing one passes: the SDK's client sends none for tasks.
        if header is not None and decode_header_value(header) != params.task_id:
            message = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
            raise MCPError(types.HEADER_MISMATCH, message)
        name, _, rest = params.task_id.partition(".")
        time, _, text = rest.partition(".")
        tool = TOOLS.get(name)
        is_known = tool is not None and tool.continuation is not None and SET_OF[name] in mcp_request.toolsets
        if tool is None or tool.continuation is None or not is_known or len(params.task_id) > _MAX_ID:
            raise _unknown_task()
        kind = PUBLIC_METHODS[tool.continuation.path or tool.path].request
        try:
            datetime.fromtimestamp(int(time) / 1000, UTC)
            request = kind.FromString(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
        except (ValueError, OverflowError, OSError, DecodeError, binascii.Error):
            raise _unknown_task() from None
        return tool, tool.continuation, request, mcp_request


def _task(task_id: str, status: str, response: Message | None = None, tool: Tool | None = None) -> dict[str, Any]:
    created = datetime.fromtimestamp(int(task_id.split(".")[1]) / 1000, UTC)
    task = {
        "taskId": task_id,
        "status": status,
        "createdAt": created.isoformat().replace("+00:00", "Z"),
        "lastUpdatedAt": now().isoformat().replace("+00:00", "Z"),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }
    if response is not None and tool is not None:
        task["statusMessage"] = tool.as_text(tool.structured_content(response))
    return task


def _dump(result: types.CallToolResult) -> dict[str, Any]:
    dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


def _unknown_task() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "There is no such task.")
