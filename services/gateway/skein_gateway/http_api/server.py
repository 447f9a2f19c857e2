"""The HTTP door: every public RPC as JSON or protobuf (Connect protocol), behind the interceptors of gRPC's door."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from skein_gateway.cluster_status.rpc import VERSION
from skein_gateway.connect import codec
from skein_gateway.errors import JsonMethodUnknown, OAuthMethodHasHttpEndpoint
from skein_gateway.http_api.cors import CorsMiddleware
from skein_gateway.http_api.drain import DrainMiddleware
from skein_gateway.identity import challenges
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.oauth.metadata import METADATA_PATH, endpoint_of
from skein_gateway.openapi.handler import OPENAPI_PATH, OpenApiHandler
from skein_gateway.public_methods.forwarder import PUBLIC_METHODS
from skein_kit import errors
from skein_kit.calls.call import AUTHORIZATION_KEY, REQUEST_ID_KEY, Call, CallAborted
from skein_kit.host.admin_port import serve_http
from skein_kit.host.process import PortTaken, is_ready
from skein_kit.rpc.grpc_handler import FORWARDED, FORWARDED_FOR
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, RequestBody, message_too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from google.protobuf.message import Message
    from starlette.types import ASGIApp, Receive, Scope, Send

    from skein_gateway.oauth.metadata import ServerMetadata
    from skein_kit.host.process import Host, ServicerRegistry
    from skein_kit.tls.server_tls import ServerTls

# Reading or writing JSON of this size would hold up every other call for milliseconds.
_LARGE_BODY_BYTES = 64 * 1024
# As much as leaves through gRPC's door.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
# Longer numbers are no length.
_MOST_DIGITS = 15
_HTML = "text/html"
_PLAIN = ("", "identity")
_CONTENT_TYPES = (codec.JSON, codec.PROTO)
_WITH_ISSUER = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


@asynccontextmanager
async def serve_http_api(
    host: Host, port: int, servicers: ServicerRegistry, front: HttpConfig | None = None
) -> AsyncIterator[None]:
    """Serve HTTP until the block ends; its address is `host.addresses["http"]`. Raises PortTaken."""
    front = front or HttpConfig()
    door = ConnectHandler(host, servicers, front)
    app = Starlette(
        routes=[
            *front.routes,
            Route("/", door.home),
            Route("/healthz", door.health),
            Route(OPENAPI_PATH, OpenApiHandler(front.metadata).show),
            Route("/{service}/{method}", door.call, methods=["POST"]),
        ]
    )
    # A redirect would name the scheme that this port sees, which behind a proxy with TLS is plain HTTP.
    app.router.redirect_slashes = False
    try:
        outer = DrainMiddleware(CorsMiddleware(IdentityEncodingMiddleware(app), front.origins), lambda: host.draining)
        limits = host.http_limits(host.open_files.http, front.proxies.trusts)
        seconds = host.settings.grace_seconds
        async with serve_http(outer, host.settings.host, port, limits, tls=front.tls, grace_seconds=seconds) as address:
            host.addresses["http"] = address
            yield
    except OSError as error:
        message = f"{host.settings.host}:{port} is in use; set SKEIN_HTTP_PORT to another port for the gateway's HTTP."
        raise PortTaken(message) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpConfig:
    """What the HTTP door has besides the RPCs, and how it looks from outside."""

    routes: Sequence[Route] = ()
    # What a browser that asks for / is answered with; None: what everybody is.
    home: Callable[[Request], Awaitable[Response]] | None = None
    # Who issues tokens; None: refusals do not say where tokens come from.
    metadata: ServerMetadata | None = None
    # Origins whose pages may call.
    origins: Sequence[str] = ()
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    tls: ServerTls | None = None


class ConnectHandler:
    """What is behind each path."""

    def __init__(self, host: Host, servicers: ServicerRegistry, front: HttpConfig) -> None:
        """Answer with what the gateway's gRPC door answers with."""
        self._host = host
        self._servicers = servicers
        self._front = front

    async def home(self, request: Request) -> Response:
        """Show the console to a browser; say to all others what this is and where things are."""
        accepted = request.headers.get("accept", "")
        if self._front.home is not None and _HTML in accepted:
            return await self._front.home(request)
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
        """Say whether calls can be answered now."""
        open_to_all = bool(self._servicers.answers) and not self._host.draining
        ready = open_to_all and await is_ready(self._servicers)
        return PlainTextResponse("ok\n" if ready else "not ready\n", status_code=200 if ready else 503)

    async def call(self, request: Request) -> Response:
        """Answer one RPC."""
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        method = PUBLIC_METHODS.get(request.url.path)
        if content_type in codec.STREAMING and method is not None and method.streams:
            return Response(codec.stream_error(errors.StreamNotSupported().status()), media_type=content_type)
        if content_type not in _CONTENT_TYPES:
            said = f"Send the request with the header content-type: {' or '.join(_CONTENT_TYPES)}."
            return _unread(said, {"accept-post": ", ".join(_CONTENT_TYPES)})
        call = call_of_request(request, self._front.proxies)
        headers = {REQUEST_ID_KEY: call.request_id}
        try:
            body = await self._answered(call, request, as_json=content_type == codec.JSON)
        except CallAborted as ended:
            status, body = codec.error(ended.status)
            headers |= {**await self._challenge(call, ended), **dict(call.revision_trailers())}
            return Response(body, status_code=status, media_type=codec.JSON, headers=headers)
        except ClientDisconnect:
            return Response(status_code=499)
        return Response(body, media_type=content_type, headers={**headers, **dict(call.revision_trailers())})

    async def _challenge(self, call: Call, ended: CallAborted) -> dict[str, str]:
        """Return the headers that tell a refused caller what to bring, or when to come back."""
        metadata, issuer = self._front.metadata, ""
        if metadata is not None and errors.status_code(ended.status) in _WITH_ISSUER:
            issuer = await metadata.issuer_if_known()
        return challenges.error_headers(
            ended.status, call.path, issuer, has_credential=AUTHORIZATION_KEY in call.metadata
        )

    async def _answered(self, call: Call, request: Request, *, as_json: bool) -> bytes:
        try:
            codec.check_version(call.metadata)
            limit = codec.time_limit(call.metadata)
            if limit is not None:
                call.deadline = asyncio.get_running_loop().time() + limit
            found = self._servicers.answers.get(call.path)
            if found is None:
                raise _unanswered(call.path)
            if found[0].streams:
                raise errors.StreamNotSupported
        except errors.RpcError as refusal:
            raise CallAborted(refusal.status()) from None
        method, handler = found
        public = PUBLIC_METHODS[call.path]
        is_read = asyncio.Event()

        async def parse(body: bytes) -> Message | bytes:
            message = await _read_json(body, public.request)
            return message.SerializeToString() if method.deserializer is None else message

        # The body is read behind the interceptors: within the call's time, and of callers that are known.
        unread = RequestBody(
            read=lambda most: _body(request, is_read, most),
            size=min(length_of(request), MAX_MESSAGE_BYTES),
            stops=True,
            parse=parse if as_json else None,
        )
        answer: Message | bytes = await _unless_gone(request, is_read, handler(unread, call))
        size = len(answer) if isinstance(answer, bytes) else answer.ByteSize()
        if size > MAX_ANSWER_BYTES:
            raise CallAborted(errors.MessageTooLarge(limit=MAX_ANSWER_BYTES, size=size).status())
        if as_json:
            return await _written_json(answer, public.response, size)
        return answer if isinstance(answer, bytes) else answer.SerializeToString()


class IdentityEncodingMiddleware:
    """An ASGI application around another one: refuses encoded bodies before it is known who sends them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        app = self._app
        if any(encoding.strip().lower() not in _PLAIN for encoding in Headers(scope=scope).getlist("content-encoding")):
            app = _unread("Send the request as it is, without a content-encoding.", {"accept-encoding": "identity"})
        await app(scope, receive, send)


def _unread(said: str, headers: dict[str, str]) -> Response:
    return Response(codec.unsupported_media_error(said), status_code=415, media_type=codec.JSON, headers=headers)


def _unanswered(path: str) -> errors.RpcError:
    """Return why a path has no handler, and which path has the one that the caller needs."""
    if path in PUBLIC_METHODS:
        return errors.ServiceUnavailable()
    if endpoint := endpoint_of(path):
        return OAuthMethodHasHttpEndpoint(endpoint=endpoint, metadata=METADATA_PATH)
    return JsonMethodUnknown()


def call_of_request(request: Request, proxies: TrustedProxies) -> Call:
    """Return the call that a request is, before it is known who makes it."""
    # Header values that gRPC's metadata could not carry are nothing that a service may see.
    metadata = {key: value for key, value in request.headers.items() if value.isascii() and value.isprintable()}
    peer = f"{request.client.host}:{request.client.port}" if request.client else ""
    call = Call(path=request.url.path, metadata=metadata, deadline=None, peer=peer)
    address = request.client.host if request.client else ""
    call.entered(proxies.client(address, request.headers.getlist(FORWARDED_FOR), FORWARDED in request.headers))
    return call


def length_of(request: Request) -> int:
    """Return the bytes that a request says its body has; one more than the limit for one that does not say."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isdecimal() and len(said) <= _MOST_DIGITS else MAX_MESSAGE_BYTES + 1


async def _body(request: Request, is_read: asyncio.Event, most: int) -> bytes:
    """Read a body, and no further than the limit; set `is_read` when there is no more of it."""
    if "content-length" in request.headers and length_of(request) > most:
        raise message_too_large(most)
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise message_too_large(most)
    except ClientDisconnect:
        # Whoever watches for a caller that hangs up ends this.
        is_read.set()
        await asyncio.Event().wait()
    is_read.set()
    return bytes(body)


async def _read_json(body: bytes, kind: type[Message]) -> Message:
    if len(body) < _LARGE_BODY_BYTES:
        return codec.read_json(body, kind)
    return await asyncio.to_thread(codec.read_json, body, kind)


async def _written_json(answer: Message | bytes, kind: type[Message], size: int) -> bytes:
    def written() -> bytes:
        return codec.dump_json(kind.FromString(answer) if isinstance(answer, bytes) else answer)

    return written() if size < _LARGE_BODY_BYTES else await asyncio.to_thread(written)


async def _unless_gone(request: Request, is_read: asyncio.Event, work: Awaitable[Any]) -> Any:
    """Await the work, which reads the request's body; cancel it when the caller hangs up, as gRPC does."""

    async def hangs_up() -> None:
        await is_read.wait()
        await request.receive()

    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(hangs_up())
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
