"""What the conformance suite expects of any server (its tools, resources and prompts), behind our own handler.

The suite's fixtures say what they do in the protocol's own terms: a tool that returns a picture, one that asks its
client for a text. Skein has none of them, so they are here; the transport, the handler and its guard are Skein's.
"""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import mcp_types as types
from fix_conformance_asking import ASKING, PROMPT, asking_prompt
from fix_connections import limits
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from starlette.applications import Starlette
from starlette.routing import Route

from skein.auth.v1 import oauth_pb2
from skein_gateway.http_api.server import call_of_request
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.mcp.http_handler import McpHttpHandler, OriginCheck, manager_of, running_manager
from skein_gateway.mcp.rpc_calls import MCP_PATH
from skein_gateway.oauth.metadata import ServerMetadata
from skein_kit.http_server.server import serve_http
from skein_kit.identity.identity_token import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp.server.context import ServerRequestContext

    from skein_kit.calls.call import Call

    Context = ServerRequestContext[Any, Any]
    Work = Callable[[Context, dict[str, Any]], Awaitable[types.CallToolResult]]

MISSING_CAPABILITY = -32021
# One red pixel, and a wave of no length.
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0D\xac\0\0\x88X\1\0\2\0\x10\0data\0\0\0\0").decode()
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
PERSON = {"type": "object", "properties": {"username": {"type": "string"}, "email": {"type": "string"}}}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def _resource(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


async def _simple(_context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    return _said("This is a simple text response for testing.")


async def _image(_context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.ImageContent(data=PICTURE, mime_type="image/png")])


async def _audio(_context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.AudioContent(data=SOUND, mime_type="audio/wav")])


async def _embedded(_context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[_resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    )


async def _mixed(_context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[
            types.TextContent(text="Multiple content types test:"),
            types.ImageContent(data=PICTURE, mime_type="image/png"),
            _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    )


async def _failing(_context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    text = "This tool intentionally returns an error for testing"
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


async def _logging(context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        note = types.LoggingMessageNotification(params=types.LoggingMessageNotificationParams(level="info", data=text))
        await context.session.send_notification(note, related_request_id=context.request_id)
    return _said("Three messages were logged.")


async def _progress(context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    token = (context.meta or {}).get("progress_token")
    if token is None:
        return _said("Nobody wants to know.")
    for progress in (0, 50, 100):
        note = types.ProgressNotification(
            params=types.ProgressNotificationParams(progress_token=token, progress=progress, total=100)
        )
        await context.session.send_notification(note, related_request_id=context.request_id)
    return _said(str(token))


def _with_answer(context: Context) -> ServerMessageMetadata:
    """Send with the answer that the client waits for: no other stream has a known listener by now."""
    return ServerMessageMetadata(related_request_id=context.request_id)


async def _sampling(context: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    request = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(text=arguments["prompt"]))],
            max_tokens=100,
        )
    )
    answer = await context.session.send_request(request, types.CreateMessageResult, metadata=_with_answer(context))
    return _said(f"LLM response: {getattr(answer.content, 'text', '')}")


def _eliciting(schema: dict[str, Any]) -> Work:
    async def elicit(context: Context, arguments: dict[str, Any]) -> types.CallToolResult:
        message = arguments.get("message", "Please choose")
        request = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        answer = await context.session.send_request(request, types.ElicitResult, metadata=_with_answer(context))
        return _said(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")

    return elicit


async def _demanding(context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    has = context.session.client_capabilities
    if has is None or has.sampling is None:
        raise MCPError(MISSING_CAPABILITY, "This tool needs sampling.", {"requiredCapabilities": {"sampling": {}}})
    return _said("Sampling is there.")


async def _reconnecting(context: Context, _given: dict[str, Any]) -> types.CallToolResult:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
        await asyncio.sleep(0.1)
    return _said("Reconnected.")


def _of_strings(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}


# What a proxy on the way may read of a call, in a header (2026-07-28).
IN_HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    },
}
TOOLS: dict[str, tuple[dict[str, Any], Work]] = {
    "test_simple_text": (_of_strings(), _simple),
    "test_image_content": (_of_strings(), _image),
    "test_audio_content": (_of_strings(), _audio),
    "test_embedded_resource": (_of_strings(), _embedded),
    "test_multiple_content_types": (_of_strings(), _mixed),
    "test_error_handling": (_of_strings(), _failing),
    "test_tool_with_logging": (_of_strings(), _logging),
    "test_tool_with_progress": (_of_strings(), _progress),
    "test_sampling": (_of_strings("prompt"), _sampling),
    "test_elicitation": (_of_strings("message"), _eliciting(PERSON)),
    "test_elicitation_sep1034_defaults": (_of_strings(), _eliciting(DEFAULTS)),
    "test_elicitation_sep1330_enums": (_of_strings(), _eliciting(ENUMS)),
    "test_headers": (IN_HEADERS, _simple),
    "test_missing_capability": (_of_strings(), _demanding),
    "test_logging_tool": (_of_strings(), _simple),
    "test_reconnection": (_of_strings(), _reconnecting),
    "json_schema_2020_12_tool": (SCHEMA_2020, _simple),
}
RESOURCES: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(
        uri="test://static-text", mime_type="text/plain", text="This is the content of the static text resource."
    ),
    "test://static-binary": types.BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=PICTURE),
    "test://watched-resource": types.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watched."
    ),
}
PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    PROMPT: (),
}


async def list_tools(_context: Context, _params: object) -> types.ListToolsResult:
    schemas = {**{name: schema for name, (schema, _) in TOOLS.items()}, **dict.fromkeys(ASKING, _of_strings())}
    return types.ListToolsResult(
        tools=[types.Tool(name=name, description=name, input_schema=schema) for name, schema in schemas.items()]
    )


async def call_tool(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    if params.name in ASKING:
        return await ASKING[params.name](context, params)
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await TOOLS[params.name][1](context, params.arguments or {})


async def list_resources(_context: Context, _params: object) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri, description=uri, mime_type=content.mime_type)
            for uri, content in RESOURCES.items()
        ]
    )


async def list_templates(_context: Context, _params: object) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(name="template", uri_template="test://template/{id}/data")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri in RESOURCES:
        return types.ReadResourceResult(contents=[RESOURCES[uri]])
    if uri.startswith("test://template/"):
        number = uri.split("/")[3]
        text = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[content])
    raise MCPError(types.INVALID_PARAMS, f"There is nothing at {uri}.", {"uri": uri})


async def subscribe(_context: Context, _params: object) -> types.EmptyResult:
    return types.EmptyResult()


async def list_prompts(_context: Context, _params: object) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=name,
                arguments=[types.PromptArgument(name=one, description=one, required=True) for one in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(
    _context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name == PROMPT:
        return await asking_prompt(params)
    arguments = params.arguments or {}
    contents: dict[str, list[types.ContentBlock]] = {
        "test_simple_prompt": [types.TextContent(text="This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            types.TextContent(
                text=f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            )
        ],
        "test_prompt_with_embedded_resource": [
            _resource(arguments.get("resourceUri", ""), "text/plain", "Embedded resource content for testing."),
            types.TextContent(text="Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [
            types.ImageContent(data=PICTURE, mime_type="image/png"),
            types.TextContent(text="Please analyze the image above."),
        ],
    }
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=content) for content in contents[params.name]]
    )


async def complete(_context: Context, _params: object) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


def conformance_server() -> Server[Any]:
    """Return a server of these fixtures."""
    server: Server[Any] = Server(
        "conformance",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=subscribe,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, subscribe)
    return server


class Issuer:
    """An authorization server that says who it is, and nothing else: the suite sends no credentials."""

    async def GetServerMetadata(self, _request: object) -> oauth_pb2.GetServerMetadataResponse:
        return oauth_pb2.GetServerMetadataResponse(issuer="http://127.0.0.1")


async def identify_anyone(_call: Call) -> Caller:
    return Caller(principal="anybody", tenant_id=None, permissions=frozenset())


@asynccontextmanager
async def serve_conformance(**different: Any) -> AsyncIterator[str]:
    """Serve the fixtures behind our handler, open to every caller; yield the address of /mcp."""
    issuer: Any = Issuer()
    manager = manager_of(conformance_server(), **different)
    handler = McpHttpHandler(
        manager,
        call_of_request=lambda request: call_of_request(request, TrustedProxies()),
        identify=identify_anyone,
        metadata=ServerMetadata(issuer),
        origin_check=OriginCheck(loopback=True),
        timeout_seconds=10,
    )
    app = Starlette(routes=[Route(MCP_PATH, handler)])
    async with running_manager(manager), serve_http(app, "127.0.0.1", 0, limits()) as address:
        yield f"http://{address}{MCP_PATH}"
