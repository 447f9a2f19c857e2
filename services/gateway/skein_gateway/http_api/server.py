"""The HTTP API: every public unary RPC in the Connect protocol, behind the interceptors of the gRPC port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from skein_gateway import VERSION
from skein_gateway.connect import codec
from skein_gateway.errors import JsonMethodUnknown, OAuthMethodHasHttpEndpoint, StreamNotSupported
from skein_gateway.http_api.cors import CorsMiddleware
from skein_gateway.http_api.middleware import DrainMiddleware, IdentityEncodingMiddleware, unsupported_media_type
from skein_gateway.identity import challenges
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.oauth.metadata import METADATA_PATH, ServerMetadata, endpoint_of
from skein_gateway.openapi.handler import OPENAPI_PATH, OpenApiHandler
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit import errors
from skein_kit.admission.processor_time import run_in_thread
from skein_kit.calls.call import AUTHORIZATION_KEY, REQUEST_ID_KEY, Call, CallAborted
from skein_kit.host.process import Host, PortTaken, ServicerRegistry, is_ready
from skein_kit.http_server.server import serve_http
from skein_kit.rpc.grpc_handler import FORWARDED, FORWARDED_FOR
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, RequestBody, message_too_large
from skein_kit.tls.server_tls import ServerTls

# JSON of this size takes milliseconds, so a thread converts it.
_LARGE_BODY_BYTES = 64 * 1024
# Same limit as on the gRPC port.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
# Longer numbers are no content length.
_MAX_LENGTH_DIGITS = 15
_HTML = "text/html"
_CONTENT_TYPES = (codec.JSON, codec.PROTO)
_WITH_ISSUER = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


@asynccontextmanager
async def serve_http_api(
    host: Host, port: int, servicers: ServicerRegistry, config: HttpConfig | None = None
) -> AsyncIterator[None]:
    """Serve HTTP until the block ends, at `host.addresses["http"]` and "console". Raises PortTaken."""
    config = config or HttpConfig()
    handler = ConnectHandler(host, servicers, config)
    app = Starlette(
        routes=[
            *config.routes,
            Route("/", handler.home),
            Route("/healthz", handler.health),
            Route(OPENAPI_PATH, OpenApiHandler(config.metadata).show),
            Route("/{service}/{method}", handler.call, methods=["POST"]),
        ]
    )
    # Redirects would use this port's scheme, which is plain HTTP behind a TLS proxy.
    app.router.redirect_slashes = False
    outer = DrainMiddleware(CorsMiddleware(IdentityEncodingMiddleware(app), config.origins), lambda: host.is_draining)
    limits = host.http_limits(host.open_files.http, config.proxies.trusts)
    grace_seconds = host.settings.grace_seconds
    ports = [("http", port, host.settings.share_gateway_ports)]
    if config.console_port is not None:
        ports.append(("console", config.console_port, False))
    async with AsyncExitStack() as stack:
        for name, number, is_shared in ports:
            server = serve_http(
                outer,
                host.settings.host,
                number,
                limits,
                tls=config.tls,
                grace_seconds=grace_seconds,
                is_shared=is_shared,
            )
            try:
                host.addresses[name] = await stack.enter_async_context(server)
            except OSError as error:
                message = (
                    f"{host.settings.host}:{number} is in use; set SKEIN_{name.upper()}_PORT to another port for the "
                    "gateway's HTTP."
                )
                raise PortTaken(message) from error
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpConfig:
    """Routes besides the RPCs, and how the port appears to callers."""

    routes: Sequence[Route] = ()
    # Handler of / for browsers; None: the text that other clients get.
    home: Callable[[Request], Awaitable[Response]] | None = None
    # Source of the issuer in www-authenticate; None leaves it out.
    metadata: ServerMetadata | None = None
    # Origins that CORS allows.
    origins: Sequence[str] = ()
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    tls: ServerTls | None = None
    # A further port of this process alone; None: none.
    console_port: int | None = None


class ConnectHandler:
    """The handlers of RPCs, / and /healthz."""

    def __init__(self, host: Host, servicers: ServicerRegistry, config: HttpConfig) -> None:
        """Call the handlers of the gRPC port."""
        self._host = host
        self._servicers = servicers
        self._config = config

    async def home(self, request: Request) -> Response:
        """Show the console to browsers, and a list of endpoints to other clients."""
        accepted = request.headers.get("accept", "")
        if self._config.home is not None and _HTML in accepted:
            return await self._config.home(request)
        endpoint = self._host.addresses["gateway"]
        if codec.JSON in accepted:
            methods = sorted(PUBLIC_METHODS)
            return JSONResponse({"name": "skein", "version": VERSION, "grpc": endpoint, "methods": methods})
        return PlainTextResponse(
            f"Skein {VERSION}: the memory of a fleet of agents.\n\n"
            f"gRPC     {endpoint}, with reflection\n"
            "JSON     POST /<package.Service>/<Method> here (Connect protocol), with authorization: Bearer <key>\n"
            "methods  GET / with accept: application/json\n"
            "OpenAPI  GET /openapi.json\n"
            "MCP      POST /mcp\n"
            "console  / in a browser\n"
            "OAuth    GET /.well-known/oauth-authorization-server\n"
            "health   GET /healthz\n"
        )

    async def health(self, _request: Request) -> Response:
        """Return 200 if the gateway can answer calls, else 503."""
        is_open = bool(self._servicers.handlers) and not self._host.is_draining
        is_serving = is_open and await is_ready(self._servicers)
        return PlainTextResponse("ok\n" if is_serving else "not ready\n", status_code=200 if is_serving else 503)

    async def call(self, request: Request) -> Response:
        """Handle one RPC."""
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        method = PUBLIC_METHODS.get(request.url.path)
        if content_type in codec.STREAMING and method is not None and method.streams:
            return Response(codec.stream_error(StreamNotSupported().status()), media_type=content_type)
        if content_type not in _CONTENT_TYPES:
            message = f"Send the request with the header content-type: {' or '.join(_CONTENT_TYPES)}."
            return unsupported_media_type(message, {"accept-post": ", ".join(_CONTENT_TYPES)})
        call = call_of_request(request, self._config.proxies)
        headers = {REQUEST_ID_KEY: call.request_id}
        try:
            body = await self._respond(call, request, as_json=content_type == codec.JSON)
        except CallAborted as aborted:
            status, body = codec.error(aborted.status)
            headers |= {**await self._challenge(call, aborted), **dict(call.revision_trailers())}
            return Response(body, status_code=status, media_type=codec.JSON, headers=headers)
        except ClientDisconnect:
            return Response(status_code=499)
        return Response(body, media_type=content_type, headers={**headers, **dict(call.revision_trailers())})

    async def _challenge(self, call: Call, aborted: CallAborted) -> dict[str, str]:
        """Return the www-authenticate or retry-after header of an error."""
        metadata, issuer = self._config.metadata, ""
        if metadata is not None and errors.status_code(aborted.status) in _WITH_ISSUER:
            issuer = await metadata.issuer_if_known()
        return challenges.error_headers(
            aborted.status, call.path, issuer, has_credential=AUTHORIZATION_KEY in call.metadata
        )

    async def _respond(self, call: Call, request: Request, *, as_json: bool) -> bytes:
        try:
            codec.check_version(call.metadata)
            timeout = codec.timeout_seconds(call.metadata)
            if timeout is not None:
                call.deadline = asyncio.get_running_loop().time() + timeout
            entry = self._servicers.handlers.get(call.path)
            if entry is None:
                raise _no_handler_error(call.path)
            if entry[0].is_streaming:
                raise StreamNotSupported
        except errors.RpcError as error:
            raise CallAborted(error.status()) from None
        method, handler = entry
        public = PUBLIC_METHODS[call.path]
        body_is_read = asyncio.Event()

        async def parse(body: bytes) -> Message | bytes:
            message = await _read_json(body, public.request)
            return message.SerializeToString() if method.deserializer is None else message

        # The interceptors read the body: after identity, and within the call's deadline.
        request_body = RequestBody(
            read=lambda max_bytes: _read_body(request, body_is_read, max_bytes),
            size=min(content_length(request), MAX_MESSAGE_BYTES),
            is_refused_at_limit=True,
            parse=parse if as_json else None,
            recover=(lambda content: codec.recover_json(content, public.request)) if as_json else None,
        )

        async def encode(response: Message | bytes) -> bytes:
            size = len(response) if isinstance(response, bytes) else response.ByteSize()
            if size > MAX_ANSWER_BYTES:
                raise errors.MessageTooLarge(limit=MAX_ANSWER_BYTES, size=size)
            if as_json:
                return await _dump_json(response, public.response, size)
            return response if isinstance(response, bytes) else response.SerializeToString()

        call.encode = encode
        content: bytes = await _cancel_on_disconnect(request, body_is_read, handler(request_body, call))
        return content


def _no_handler_error(path: str) -> errors.RpcError:
    """Return the error of a path without a handler; it names the endpoint to use instead, if there is one."""
    if path in PUBLIC_METHODS:
        return errors.ServiceUnavailable()
    if endpoint := endpoint_of(path):
        return OAuthMethodHasHttpEndpoint(endpoint=endpoint, metadata=METADATA_PATH)
    return JsonMethodUnknown()


def call_of_request(request: Request, proxies: TrustedProxies) -> Call:
    """Return the call of a request, still without a caller."""
    # Services must not see values that gRPC metadata could not carry.
    metadata = {key: value for key, value in request.headers.items() if value.isascii() and value.isprintable()}
    peer = f"{request.client.host}:{request.client.port}" if request.client else ""
    call = Call(path=request.url.path, metadata=metadata, deadline=None, peer=peer)
    address = request.client.host if request.client else ""
    call.set_origin(proxies.client(address, request.headers.getlist(FORWARDED_FOR), FORWARDED in request.headers))
    return call


def content_length(request: Request) -> int:
    """Return the declared body size in bytes; without one, MAX_MESSAGE_BYTES + 1."""
    message = request.headers.get("content-length", "")
    return int(message) if message.isdecimal() and len(message) <= _MAX_LENGTH_DIGITS else MAX_MESSAGE_BYTES + 1


async def _read_body(request: Request, body_is_read: asyncio.Event, max_bytes: int) -> bytes:
    """Read a body of at most `max_bytes` and set `body_is_read`. Raises MessageTooLarge without reading further."""
    if "content-length" in request.headers and content_length(request) > max_bytes:
        raise message_too_large(max_bytes)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise message_too_large(max_bytes)
    except ClientDisconnect:
        # _cancel_on_disconnect ends this wait.
        body_is_read.set()
        await asyncio.Event().wait()
    body_is_read.set()
    return bytes(body)


async def _read_json(body: bytes, kind: type[Message]) -> Message:
    if len(body) < _LARGE_BODY_BYTES:
        return codec.read_json(body, kind)
    return await run_in_thread(codec.read_json, body, kind)


async def _dump_json(response: Message | bytes, kind: type[Message], size: int) -> bytes:
    def dump() -> bytes:
        return codec.dump_json(kind.FromString(response) if isinstance(response, bytes) else response)

    return dump() if size < _LARGE_BODY_BYTES else await run_in_thread(dump)


async def _cancel_on_disconnect(request: Request, body_is_read: asyncio.Event, work: Awaitable[Any]) -> Any:
    """Await the handler and cancel it when the caller disconnects, as gRPC does. Raises ClientDisconnect."""

    async def disconnected() -> None:
        await body_is_read.wait()
        await request.receive()

    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)
