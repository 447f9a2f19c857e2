"""Errors of RPCs for MCP clients: tool results that a model can act on, or JSON-RPC errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import mcp_types as types
from google.rpc.status_pb2 import Status
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skein_gateway.identity import challenges
from skein_kit.errors import status_code, status_reason
from skein_kit.text.quoted_text import one_line
from skein_kit.violations import strip_violations

META_KEY = "skein/error"
# "Resource not found" of protocol versions before 2026-07-28; later versions use invalid params.
_NOT_FOUND = -32002
_SERVER_ERROR = -32000


def result(status: Status, argument_path: Callable[[str], str]) -> types.CallToolResult:
    """Return the result of a tool whose RPC failed; `argument_path` maps fields of the request to tool arguments."""
    text = _message(status, argument_path)
    return types.CallToolResult(
        content=[types.TextContent(text=text)], is_error=True, _meta={META_KEY: _error_data(status)}
    )


def error(status: Status, version: str) -> MCPError:
    """Return the JSON-RPC error of a resource or prompt whose RPC failed."""
    code = status_code(status)
    error_code = _SERVER_ERROR
    if code is grpc.StatusCode.NOT_FOUND:
        return resource_not_found(_message(status, str), version, {META_KEY: _error_data(status)})
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        error_code = types.INVALID_PARAMS
    elif code is grpc.StatusCode.INTERNAL:
        error_code = types.INTERNAL_ERROR
    return MCPError(error_code, _message(status, str), {META_KEY: _error_data(status)})


def resource_not_found(message: str, version: str, data: dict[str, Any] | None = None) -> MCPError:
    """Return the error of an unknown resource URI."""
    return MCPError(types.INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND, message, data)


def invalid_cursor() -> MCPError:
    """Return the error of a cursor that no page returned."""
    return MCPError(types.INVALID_PARAMS, "The cursor is not one that a page returned. Start again without a cursor.")


def check_first_page(params: types.PaginatedRequestParams | None) -> None:
    """Raise MCPError for a cursor in a list that has only one page."""
    if params is not None and params.cursor:
        raise invalid_cursor()


def _message(status: Status, argument_path: Callable[[str], str]) -> str:
    """Return the message for a model: the problem and a remedy."""
    violations = challenges.violations_in(status)
    # The model knows the fields by the names of the tool's arguments, so its own lines replace the message's.
    message = strip_violations(status.message, violations)
    text = f"{status_reason(status) or status_code(status).name}: {one_line(message)}"
    unstated = {name: fact for name, fact in challenges.metadata_of(status).items() if f"{name}: {fact}" not in message}
    facts = ", ".join(f"{name}: {fact}" for name, fact in unstated.items())
    text = f"{text} ({one_line(facts)})" if facts else text
    lines = [f"- {one_line(f'{argument_path(field)} {problem}')}" for field, problem in violations]
    if lines:
        text = "\n".join([text, *lines])
    seconds = challenges.retry_after(status).get("retry-after")
    return f"{text} Try again in {seconds} s." if seconds else text


def _error_data(status: Status) -> dict[str, Any]:
    return {
        "reason": status_reason(status),
        "code": status_code(status).name.lower(),
        **({"facts": facts} if (facts := challenges.metadata_of(status)) else {}),
    }
