"""/mcp over HTTP: origin check, identity, body limit and disconnects. The SDK handles the MCP protocol."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import grpc
import mcp_types as types
from google.rpc.status_pb2 import Status
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from skein_gateway.connect import codec
from skein_gateway.identity import challenges
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.mcp.exact_numbers import arguments_in, unmark_numbers
from skein_gateway.mcp.rpc_calls import LARGE_BYTES, MCP_PATH, SCOPE_KEY, McpRequest
from skein_gateway.mcp.toolsets import ToolsetUnknown, parse_toolsets, tools_of
from skein_gateway.oauth.metadata import ServerMetadata
from skein_kit import errors
from skein_kit.calls.call import AUTHORIZATION_KEY, REQUEST_ID_KEY, Call, CallAborted, as_current_call
from skein_kit.errors import RpcError, status_code, status_reason
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import TENANT_PERMISSIONS
from skein_kit.rpc.interceptors import translate_upstream
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, RequestBody, read_body

TOOLSETS_HEADER = "skein-toolsets"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_SERVER_ERROR = -32000
# What the resources and the prompt of every toolset need.
_OF_RESOURCES = frozenset({"memory.read", "recall.read", "session.read"})


@dataclass(frozen=True, kw_only=True, slots=True)
class OriginCheck:
    """Checks Origin and Host headers, against other sites' pages and DNS rebinding."""

    # Allowed origins besides the issuer.
    origins: Sequence[str] = ()
    # Requests through these proxies may have any Host.
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    # The port listens on loopback only: allow only loopback names as Host, and any local page as origin.
    loopback: bool = False

    def refusal(self, request: Request, issuer: str) -> Response | None:
        """Return the error response of a request that is not allowed; None for an allowed one."""
        origin = request.headers.get("origin")
        if origin is not None and not self._is_allowed_origin(origin, issuer):
            return _json_rpc_error(
                403, "Pages of this origin may not call. An operator can add the origin to SKEIN_CORS_ORIGINS."
            )
        by_proxy = request.client is not None and self.proxies.trusts(request.client.host)
        allowed_hosts = {*_LOOPBACK, _host(issuer)}
        if self.loopback and not by_proxy and _host(f"//{request.headers.get('host', '')}") not in allowed_hosts:
            return _json_rpc_error(421, "Unknown Host header. Use 127.0.0.1, localhost or the issuer's host.")
        return None

    def _is_allowed_origin(self, origin: str, issuer: str) -> bool:
        if origin in self.origins or origin == issuer:
            return True
        return self.loopback and origin.startswith(("http://", "https://")) and _host(origin) in _LOOPBACK


class McpHttpHandler:
    """An ASGI application that passes requests of identified callers to the SDK."""

    def __init__(
        self,
        manager: StreamableHTTPSessionManager,
        *,
        call_of_request: Callable[[Request], Call],
        identify: Callable[[Call], Awaitable[Caller]],
        metadata: ServerMetadata,
        origin_check: OriginCheck,
        timeout_seconds: float,
    ) -> None:
        """Make calls with `call_of_request`. Identity and body together may take `timeout_seconds`."""
        self._manager = manager
        self._call_of_request = call_of_request
        self._identify = identify
        self._metadata = metadata
        self._origin_check = origin_check
        self._timeout_seconds = timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(scope, receive)
        call = self._call_of_request(request)
        with as_current_call(call):
            try:
                response = await self._respond(request, call, send)
            except ClientDisconnect:
                return
        if response is not None:
            response.headers[REQUEST_ID_KEY] = call.request_id
            await response(scope, receive, send)

    async def _respond(self, request: Request, call: Call, send: Send) -> Response | None:
        """Return an error response; None when the SDK has sent the response."""
        issuer = await self._metadata.issuer_if_known()
        refusal = self._origin_check.refusal(request, issuer) or self._method_refusal(request)
        if refusal is not None:
            return refusal
        call.audience = issuer + MCP_PATH
        try:
            toolsets = parse_toolsets(
                [*request.query_params.getlist("toolsets"), *request.headers.getlist(TOOLSETS_HEADER)]
            )
        except ToolsetUnknown as unknown:
            return _json_rpc_error(400, str(unknown))
        try:
            async with asyncio.timeout(self._timeout_seconds):
                if not issuer:
                    raise errors.ServiceUnavailable(service="auth")
                caller = await _identify_caller(self._identify, call)
                call.caller = caller
                complete = await read_body(
                    RequestBody(read=lambda _most: _read_body(request), size=MAX_MESSAGE_BYTES), call
                )
        except TimeoutError:
            return _error_of_status(errors.DeadlineExceeded().status(), {})
        except (RpcError, CallAborted) as error:
            status = error.status() if isinstance(error, RpcError) else error.status
            return _error_of_status(status, self._challenge(status, call, issuer, toolsets))
        # The body keeps its reservation until an RPC of the request is admitted, or the request ends.
        with complete.reservation as reservation:
            body: bytes = complete.content
            is_large = len(body) > LARGE_BYTES
            if not (await asyncio.to_thread(_has_valid_id, body) if is_large else _has_valid_id(body)):
                message = "The id of a message must be a text or an integer; leave it out for a notification."
                return _json_rpc_error(400, message, code=types.INVALID_REQUEST)
            mcp_request = McpRequest(
                call=call, caller=caller, issuer=issuer, toolsets=toolsets, is_large=is_large, reservation=reservation
            )
            mcp_request.arguments = await mcp_request.run_off_loop(arguments_in, body)
            await self._run_sdk(request, body, mcp_request, send)
        return None

    def _method_refusal(self, request: Request) -> Response | None:
        if self._manager.stateless and request.method != "POST":
            # Without sessions there is nothing to stream or to end.
            return _json_rpc_error(405, "Send JSON-RPC with POST.", {"allow": "POST"})
        return None

    @staticmethod
    def _challenge(status: Status, call: Call, issuer: str, toolsets: frozenset[str]) -> dict[str, str]:
        if status_code(status) is grpc.StatusCode.UNAUTHENTICATED:
            error = "invalid_token" if AUTHORIZATION_KEY in call.metadata else ""
            scope = _scope(toolsets)
            return {"www-authenticate": challenges.bearer(issuer, error=error, scope=scope, resource=MCP_PATH)}
        return challenges.retry_after(status)

    async def _run_sdk(self, request: Request, body: bytes, mcp_request: McpRequest, send: Send) -> None:
        """Respond through the SDK. A disconnect of the client cancels it."""
        disconnected, response_sent = asyncio.Event(), asyncio.Event()
        requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if requests:
                return requests.pop()
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = _with_headers(message, mcp_request)
            else:
                message = {**message, "body": unmark_numbers(message.get("body", b""))}
                if not message.get("more_body", False):
                    response_sent.set()
            await send(message)

        async def watch_disconnect() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            disconnected.set()
            if response_sent.is_set():
                # No disconnect: servers also send this event after a complete response.
                await asyncio.Event().wait()

        scope = {**request.scope, SCOPE_KEY: mcp_request}
        sdk_task = asyncio.ensure_future(self._manager.handle_request(scope, receive, respond))
        disconnect_task = asyncio.ensure_future(watch_disconnect())
        try:
            await asyncio.wait((sdk_task, disconnect_task), return_when=asyncio.FIRST_COMPLETED)
            if sdk_task.done():
                sdk_task.result()
        finally:
            sdk_task.cancel()
            disconnect_task.cancel()
            await asyncio.gather(sdk_task, disconnect_task, return_exceptions=True)


def manager_of(server: Server[Any], **options: Any) -> StreamableHTTPSessionManager:
    """Return the SDK's transport of a server. Requests are stateless, so that any gateway can serve them."""
    settings = {"stateless": True, "json_response": True, "max_request_body_size": MAX_MESSAGE_BYTES, **options}
    return StreamableHTTPSessionManager(server, **settings)


@contextlib.asynccontextmanager
async def running_manager(manager: StreamableHTTPSessionManager) -> AsyncIterator[None]:
    """Run the SDK until the block ends, in its own task, because its cancel scopes must not leave that task."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with manager.run():
            started.set()
            await stopped.wait()

    task = asyncio.create_task(run())
    starting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait((task, starting), return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        if task.done():
            task.result()
        yield
    finally:
        stopped.set()
        await asyncio.gather(task, starting, return_exceptions=True)


async def _identify_caller(identify: Callable[[Call], Awaitable[Caller]], call: Call) -> Caller:
    try:
        return await identify(call)
    except grpc.aio.AioRpcError as error:
        raise translate_upstream(error) from None


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_MESSAGE_BYTES:
            raise errors.MessageTooLarge(limit=MAX_MESSAGE_BYTES)
    return bytes(body)


def _has_valid_id(body: bytes) -> bool:
    """Tell whether a JSON-RPC message has a valid id. The SDK would treat any other id as a notification.

    Anything but a message is valid here: the SDK reports what is wrong with it.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return True
    if not isinstance(message, dict) or "id" not in message:
        return True
    # An error that could not be matched to a request has the id null (JSON-RPC 2.0, 5).
    return type(message["id"]) in {str, int} or (message["id"] is None and "method" not in message)


def _with_headers(message: Message, mcp_request: McpRequest) -> Message:
    """Add the request id, and the request's own headers and status."""
    added = {**mcp_request.headers, REQUEST_ID_KEY: mcp_request.call.request_id}
    headers = [*message.get("headers", ()), *((name.encode(), value.encode()) for name, value in added.items())]
    return {**message, "status": mcp_request.status or message["status"], "headers": headers}


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a listening address."""
    return host in _LOOPBACK


@functools.cache
def _scope(toolsets: frozenset[str]) -> str:
    """Return the scope that resources and the tools of some toolsets need; clients request that of the challenge."""
    permissions = {*_OF_RESOURCES, *(tool.permission for tool in tools_of(toolsets))}
    return " ".join(sorted(permissions & TENANT_PERMISSIONS))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _error_of_status(status: Status, headers: dict[str, str]) -> Response:
    number = 413 if status_reason(status) == errors.MessageTooLarge.reason else codec.error(status)[0]
    data = {"reason": status_reason(status)}
    return _json_rpc_error(number, status.message, headers, data=data)


def _json_rpc_error(
    number: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    *,
    code: int = _SERVER_ERROR,
    data: dict[str, str] | None = None,
) -> Response:
    """Return a JSON-RPC error as an HTTP response."""
    error: dict[str, Any] = {"code": code, "message": message, **({"data": data} if data else {})}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=number, headers=headers)
