"""How refusals of RPCs are told to clients of MCP: to a model as a result that it can act on, else as an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skein_gateway.identity import challenges
from skein_kit.errors import reason_of, status_code
from skein_kit.violations import strip_violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.rpc.status_pb2 import Status

META_KEY = "skein/error"
# What was asked for is not there, before 2026-07-28; from then on that is an invalid parameter.
_NOT_FOUND = -32002
_REFUSED = -32000


def result(status: Status, named: Callable[[str], str]) -> types.CallToolResult:
    """Return the result of a tool whose RPC was refused; `named` tells a field of the request as the model knows it."""
    told = _told(status, named)
    return types.CallToolResult(content=[types.TextContent(text=told)], is_error=True, _meta={META_KEY: _facts(status)})


def error(status: Status, version: str) -> MCPError:
    """Return the error of a resource or a prompt that was refused."""
    code = status_code(status)
    number = _REFUSED
    if code is grpc.StatusCode.NOT_FOUND:
        return no_resource(_told(status, str), version, {META_KEY: _facts(status)})
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        number = types.INVALID_PARAMS
    elif code is grpc.StatusCode.INTERNAL:
        number = types.INTERNAL_ERROR
    return MCPError(number, _told(status, str), {META_KEY: _facts(status)})


def no_resource(said: str, version: str, data: dict[str, Any] | None = None) -> MCPError:
    """Return the error of an address where nothing is."""
    return MCPError(types.INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND, said, data)


def no_cursor() -> MCPError:
    """Return the error of a cursor that no page gave."""
    return MCPError(types.INVALID_PARAMS, "The cursor is none that a page gave: begin without one.")


def must_be_first_page(params: types.PaginatedRequestParams | None) -> None:
    """Refuse a cursor of a list that has one page, which gives none."""
    if params is not None and params.cursor:
        raise no_cursor()


def _told(status: Status, named: Callable[[str], str]) -> str:
    """Say what is wrong and what to do."""
    violations = challenges.violations_in(status)
    # The model knows the fields by the names of the tool's arguments, so its own lines replace the message's.
    message = strip_violations(status.message, violations)
    said = f"{reason_of(status) or status_code(status).name}: {message}"
    unstated = {name: fact for name, fact in challenges.metadata_of(status).items() if f"{name}: {fact}" not in message}
    facts = ", ".join(f"{name}: {fact}" for name, fact in unstated.items())
    said = f"{said} ({facts})" if facts else said
    wrong = [f"- {named(field)} {what}".replace("  ", " ") for field, what in violations]
    if wrong:
        said = "\n".join([said, *wrong])
    after = challenges.retry_after(status).get("retry-after")
    return f"{said} Try again in {after} s." if after else said


def _facts(status: Status) -> dict[str, Any]:
    return {
        "reason": reason_of(status),
        "code": status_code(status).name.lower(),
        **({"facts": facts} if (facts := challenges.metadata_of(status)) else {}),
    }
