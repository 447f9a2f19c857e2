"""/mcp as HTTP sees it: whose page asks, who calls, how much comes in, who hung up; the SDK does what is MCP's."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc
import mcp_types as types
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from skein_gateway.connect import codec
from skein_gateway.identity import challenges
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.mcp.exact_numbers import arguments_in, unmarked
from skein_gateway.mcp.rpc_calls import LARGE_BYTES, MCP_PATH, SCOPE_KEY, McpRequest
from skein_gateway.mcp.toolsets import ToolsetUnknown, named, tools_of
from skein_kit import errors
from skein_kit.calls.call import AUTHORIZATION_KEY, REQUEST_ID_KEY, Call, CallAborted, as_current_call
from skein_kit.errors import RpcError, reason_of, status_code
from skein_kit.identity.permissions import TENANT_PERMISSIONS
from skein_kit.rpc.interceptors import translate_upstream
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, RequestBody, read_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from google.rpc.status_pb2 import Status
    from mcp.server.lowlevel import Server
    from starlette.types import Message, Receive, Scope, Send

    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_kit.identity.identity_token import Caller

TOOLSETS_HEADER = "skein-toolsets"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_REFUSED = -32000


@dataclass(frozen=True, kw_only=True, slots=True)
class OriginCheck:
    """Which pages and names may lead here: what a page of another site may not do, it may not do by a false name."""

    # Pages that may call, besides the issuer's own.
    origins: Sequence[str] = ()
    # What these bring may have any name.
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    # This machine alone listens: every name but its own is one that somebody made up, and its own pages may call.
    loopback: bool = False

    def refusal(self, request: Request, issuer: str) -> Response | None:
        """Return how a request is refused; None when nothing is wrong."""
        origin = request.headers.get("origin")
        if origin is not None and not self._knows(origin, issuer):
            return _error(403, "Pages of this origin may not call; SKEIN_CORS_ORIGINS lists those that may.")
        by_proxy = request.client is not None and self.proxies.trusts(request.client.host)
        names = {*_LOOPBACK, _host(issuer)}
        if self.loopback and not by_proxy and _host(f"//{request.headers.get('host', '')}") not in names:
            return _error(421, "This address is not called by that name.")
        return None

    def _knows(self, origin: str, issuer: str) -> bool:
        if origin in self.origins or origin == issuer:
            return True
        return self.loopback and origin.startswith(("http://", "https://")) and _host(origin) in _LOOPBACK


class McpHttpHandler:
    """An ASGI application that lets known callers through to the SDK."""

    def __init__(
        self,
        manager: StreamableHTTPSessionManager,
        *,
        entering: Callable[[Request], Call],
        identify: Callable[[Call], Awaitable[Caller]],
        metadata: ServerMetadata,
        guard: OriginCheck,
        seconds: float,
    ) -> None:
        """Ask `entering` for the call that a request is; wait `seconds` for whoever knows its caller, and its body."""
        self._manager = manager
        self._entering = entering
        self._identify = identify
        self._metadata = metadata
        self._guard = guard
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        call = self._entering(request)
        with as_current_call(call):
            try:
                response = await self._answered(request, call, send)
            except ClientDisconnect:
                return
        if response is not None:
            response.headers[REQUEST_ID_KEY] = call.request_id
            await response(scope, receive, send)

    async def _answered(self, request: Request, call: Call, send: Send) -> Response | None:
        """Return what is answered here; None when the SDK has answered."""
        issuer = await self._metadata.issuer_if_known()
        refusal = self._guard.refusal(request, issuer) or self._method_refusal(request)
        if refusal is not None:
            return refusal
        call.audience = issuer + MCP_PATH
        try:
            toolsets = named([*request.query_params.getlist("toolsets"), *request.headers.getlist(TOOLSETS_HEADER)])
        except ToolsetUnknown as unknown:
            return _error(400, str(unknown))
        try:
            async with asyncio.timeout(self._seconds):
                if not issuer:
                    raise errors.ServiceUnavailable(service="auth")
                caller = await _known(self._identify, call)
                call.caller = caller
                complete = await read_body(RequestBody(read=lambda _most: _body(request), size=MAX_MESSAGE_BYTES), call)
        except TimeoutError:
            return _refused(errors.DeadlineExceeded().status(), {})
        except (RpcError, CallAborted) as refused:
            status = refused.status() if isinstance(refused, RpcError) else refused.status
            return _refused(status, self._challenge(status, call, issuer, toolsets))
        # The body counts until an RPC of the exchange has its turn, or the exchange ends.
        with complete.reservation as reservation:
            body: bytes = complete.content
            is_large = len(body) > LARGE_BYTES
            if not (await asyncio.to_thread(_has_valid_id, body) if is_large else _has_valid_id(body)):
                said = "The id of a message is a text or an integer; a message without one is a notification."
                return _error(400, said, code=types.INVALID_REQUEST)
            exchange = McpRequest(
                call=call, caller=caller, issuer=issuer, toolsets=toolsets, large=is_large, reservation=reservation
            )
            exchange.arguments = await exchange.run_off_loop(arguments_in, body)
            await self._handed_on(request, body, exchange, send)
        return None

    def _method_refusal(self, request: Request) -> Response | None:
        if self._manager.stateless and request.method != "POST":
            # There is no session to listen to, nor one to end.
            return _error(405, "Send JSON-RPC with POST.", {"allow": "POST"})
        return None

    @staticmethod
    def _challenge(status: Status, call: Call, issuer: str, toolsets: frozenset[str]) -> dict[str, str]:
        if status_code(status) is grpc.StatusCode.UNAUTHENTICATED:
            error = "invalid_token" if AUTHORIZATION_KEY in call.metadata else ""
            scope = _scope(toolsets)
            return {"www-authenticate": challenges.bearer(issuer, error=error, scope=scope, resource=MCP_PATH)}
        return challenges.retry_after(status)

    async def _handed_on(self, request: Request, body: bytes, exchange: McpRequest, send: Send) -> None:
        """Let the SDK answer; when the caller hangs up, what is being done for it ends."""
        gone, answered = asyncio.Event(), asyncio.Event()
        left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if left:
                return left.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = _marked(message, exchange)
            else:
                message = {**message, "body": unmarked(message.get("body", b""))}
                if not message.get("more_body", False):
                    answered.set()
            await send(message)

        async def hangs_up() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            gone.set()
            if answered.is_set():
                # Nobody hung up: this is how a server says that all of the answer is sent.
                await asyncio.Event().wait()

        scope = {**request.scope, SCOPE_KEY: exchange}
        work = asyncio.ensure_future(self._manager.handle_request(scope, receive, answer))
        watch = asyncio.ensure_future(hangs_up())
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            watch.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)


def manager_of(server: Server[Any], **different: Any) -> StreamableHTTPSessionManager:
    """Return the SDK's transport for a server: every request stands by itself, so that any gateway can answer it."""
    chosen = {"stateless": True, "json_response": True, "max_request_body_size": MAX_MESSAGE_BYTES, **different}
    return StreamableHTTPSessionManager(server, **chosen)


@contextlib.asynccontextmanager
async def running_manager(manager: StreamableHTTPSessionManager) -> AsyncIterator[None]:
    """Keep the SDK's tasks going until the block ends, in a task of their own: its scopes belong to the task alone."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with manager.run():
            begun.set()
            await over.wait()

    task = asyncio.create_task(run())
    starting = asyncio.create_task(begun.wait())
    try:
        await asyncio.wait((task, starting), return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        if task.done():
            task.result()
        yield
    finally:
        over.set()
        await asyncio.gather(task, starting, return_exceptions=True)


async def _known(identify: Callable[[Call], Awaitable[Caller]], call: Call) -> Caller:
    try:
        return await identify(call)
    except grpc.aio.AioRpcError as error:
        raise translate_upstream(error) from None


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_MESSAGE_BYTES:
            raise errors.MessageTooLarge(limit=MAX_MESSAGE_BYTES)
    return bytes(body)


def _has_valid_id(body: bytes) -> bool:
    """Say whether the id of a JSON-RPC message is one, for the SDK takes a message of any other id for a notification.

    What is no message at all passes: the SDK says what is wrong with it.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return True
    if not isinstance(message, dict) or "id" not in message:
        return True
    # An error that could not be matched to a request has the id null (JSON-RPC 2.0, 5).
    return type(message["id"]) in {str, int} or (message["id"] is None and "method" not in message)


def _marked(message: Message, exchange: McpRequest) -> Message:
    """Put the request's id on an answer, and what HTTP has to say beyond it."""
    added = {**exchange.headers, REQUEST_ID_KEY: exchange.call.request_id}
    headers = [*message.get("headers", ()), *((name.encode(), value.encode()) for name, value in added.items())]
    return {**message, "status": exchange.status or message["status"], "headers": headers}


def is_loopback(host: str) -> bool:
    """Say whether nobody but this machine can reach an address that is listened to."""
    return host in _LOOPBACK


@functools.cache
def _scope(toolsets: frozenset[str]) -> str:
    """Return what the tools need: a client that knows no better asks for this much."""
    return " ".join(sorted({"recall.read", *(tool.permission for tool in tools_of(toolsets))} & TENANT_PERMISSIONS))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _refused(status: Status, headers: dict[str, str]) -> Response:
    number = 413 if reason_of(status) == errors.MessageTooLarge.reason else codec.error(status)[0]
    data = {"reason": reason_of(status)}
    return _error(number, status.message, headers, data=data)


def _error(
    number: int,
    said: str,
    headers: Mapping[str, str] | None = None,
    *,
    code: int = _REFUSED,
    data: dict[str, str] | None = None,
) -> Response:
    """Return an error as clients of JSON-RPC read it."""
    error: dict[str, Any] = {"code": code, "message": said, **({"data": data} if data else {})}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=number, headers=headers)
