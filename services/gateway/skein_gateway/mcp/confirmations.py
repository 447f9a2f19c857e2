"""Confirmation by a person before a tool purges: the client asks (elicitation) and repeats the call with the answer.

Part of MCP since 2026-07-28. Clients of earlier versions, and those that cannot ask, decide by the tool's annotations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from google.protobuf.message import Message
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skein_gateway.mcp.tool import Tool
from skein_kit.text.invisible import show_invisible
from skein_kit.text.quoted_text import one_line_json

_KEY = "confirm"
# Most characters of arguments that a person reads before an answer.
_MAX_SHOWN = 2000
_SCHEMA = {
    "type": "object",
    "properties": {_KEY: {"type": "boolean", "title": "Purge for good", "description": "It cannot be undone."}},
    "required": [_KEY],
}
DECLINED = "The person declined: nothing was purged."
TOO_LONG = "A person is to confirm this, and cannot read so much: nothing was purged. Purge less with one call."


def confirmation(
    tool: Tool,
    request: Message,
    arguments: Mapping[str, Any],
    context: ServerRequestContext[Any, Any],
    params: types.CallToolRequestParams,
) -> types.InputRequiredResult | types.CallToolResult | None:
    """Return what to reply before a call is made; None for a call that is confirmed or needs no confirmation.

    The person is shown the arguments whole: what is left out could be what an injected text added.
    """
    if not tool.needs_confirmation(request) or not _can_ask(context):
        return None
    # The answer is about this request and no other.
    content = request.SerializeToString(deterministic=True)
    state = hashlib.sha256(tool.name.encode() + b"\0" + content).hexdigest()
    answer = (params.input_responses or {}).get(_KEY)
    if answer is None or params.request_state != state:
        shown = show_invisible(one_line_json(dict(arguments)))
        if len(shown) > _MAX_SHOWN:
            return types.CallToolResult(content=[types.TextContent(text=TOO_LONG)], is_error=True)
        form = types.ElicitRequestFormParams(message=f"{tool.confirmation} {shown}", requested_schema=_SCHEMA)
        question = types.ElicitRequest(params=form)
        return types.InputRequiredResult(input_requests={_KEY: question}, request_state=state)
    is_confirmed = isinstance(answer, types.ElicitResult) and (answer.content or {}).get(_KEY) is True
    if is_confirmed and isinstance(answer, types.ElicitResult) and answer.action == "accept":
        return None
    return types.CallToolResult(content=[types.TextContent(text=DECLINED)], is_error=True)


def _can_ask(context: ServerRequestContext[Any, Any]) -> bool:
    capabilities = context.session.client_capabilities
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS or capabilities is None:
        return False
    elicitation = capabilities.elicitation
    # An empty object means forms.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
