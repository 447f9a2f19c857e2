"""What happens to every call, in this order, over a socket or in process.

    masking      nothing but documented statuses leaves; a fault is logged whole and shown as INTERNAL; every log line
                 and every outgoing call knows the call that it is for
    metrics      count, latency, in-flight
    trace        a server span, continuing the caller's trace or, at the edge, linked to it
    deadline     a time limit for calls without one and for those with too much; work is cancelled when the time is over
    identity     who calls, verified, and whether the access table allows it
    admission    whether the caller has calls left; at the edge only
    body         the request's message is read, within the memory budget of such callers, until it is parsed
    turn         whether the service has room for the call; until then it waits for its turn, and not for long
    refusals     bytes that are no message, protovalidate's findings and other services' statuses become refusals

Each is a function from (method, handler) to handler, applied once when the service starts.

A call that answers with a stream passes the same ones: its handler returns when the stream is over and writes the
messages while it lasts. Two of them are others for it (skein_kit.rpc.streaming): `lasting` takes the place of deadline,
and `standing`, in the place of turn, counts the tenant's streams and looks at the caller again while they last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import protovalidate
import structlog
from google.protobuf.message import DecodeError, Message
from grpc import aio
from grpc_status import rpc_status
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import rpc_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind

from skein_kit import errors
from skein_kit.admission.overload import AdmissionControl
from skein_kit.calls.call import AUTHORIZATION_KEY, Call, CallAborted, as_current_call
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES, AccessRule
from skein_kit.json_values import fields
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, CompleteBody, body
from skein_kit.rpc.streaming import StreamLimiter
from skein_kit.rpc.well_known_types import normalize_mask
from skein_kit.telemetry.metrics import IN_FLIGHT, LATENCY, REQUESTS, TRACING, context_from, exemplar, links_to
from skein_kit.violations import violation_description

# Takes the request as a message, as the bytes that came over a socket, or as a Body, which is read once it is known who
# calls.
# The free JSON of larger requests is read in a thread.
_LARGE_BYTES = 64 * 1024
Handler = Callable[[Any, Call], Awaitable[Any]]
Identify = Callable[[Call], Awaitable[Caller]]
# Refuses a call that is one too many.
Admit = Callable[[Call], Awaitable[None]]

# gRPC's own words for a message beyond its limit; it ends calls with the same code when it lacks memory or room.
_TOO_LARGE = "message larger than max"

log = structlog.get_logger("skein")


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """One RPC as a service answers it: with one message, or with a stream of them."""

    # "/skein.memory.v1.MemoryService/CreateMemory"
    path: str
    handler: Handler
    # None: the request stays bytes.
    deserializer: Callable[[bytes], Any] | None
    # None: the response is bytes already.
    serializer: Callable[[Any], bytes] | None
    # The handler writes messages and returns None.
    streams: bool = False

    @property
    def service(self) -> str:
        """Return "skein.memory.v1.MemoryService"."""
        return self.path.split("/")[1]

    @property
    def name(self) -> str:
        """Return "CreateMemory"."""
        return self.path.split("/")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class InterceptorChain:
    """The interceptors of one service."""

    # How this service learns who calls: the gateway exchanges credentials, all others verify signed identities.
    identify: Identify
    # Seconds for a call that has no deadline, and the most that any gets.
    default_deadline: float
    max_deadline: float
    # How this service counts calls; None: it lets all of them through.
    admit: Admit | None = None
    # Whose turn it is when there is more to do than can be done; None: everybody's.
    overload: AdmissionControl | None = None
    # False: a caller cannot have a trace recorded by marking its own as sampled.
    continues_trace: bool = True
    rules: dict[str, AccessRule] = field(default_factory=lambda: dict(ACCESS_RULES))
    # What page tokens are signed with.
    handle_key: Callable[[], bytes] = bytes
    # The calls that answer with many messages.
    streams: StreamLimiter = field(default_factory=StreamLimiter)
    # How it is seen while a stream lasts whether its caller is still welcome; None: as at its beginning.
    identify_again: Identify | None = None

    def around(self, method: Method) -> Handler:
        """Wrap a method's handler in everything above."""
        rule = self.rules.get(method.path)
        if rule is None:
            message = f"{method.path} has no access rule; add one to skein_kit.identity.permissions."
            raise LookupError(message)
        handler = parse_and_validate(method, method.handler)
        if method.streams:
            handler = self.streams.standing(
                rule, translate_identify_errors(self.identify_again or self.identify), handler
            )
        elif self.overload is not None:
            handler = self.overload.in_turn(method.path, handler)
        handler = body(handler)
        handler = admission(self.admit, handler)
        handler = identity(rule, self.identify, handler)
        if method.streams:
            handler = self.streams.lasting(handler)
        else:
            handler = deadline(self.default_deadline, self.max_deadline, handler)
        handler = trace(method, handler, continues=self.continues_trace)
        handler = metrics(method, handler)
        return mask_errors(method, handler, self.handle_key)


def mask_errors(method: Method, handler: Handler, handle_key: Callable[[], bytes]) -> Handler:
    """Let nothing but documented statuses out, and make the call the current one for all that is done for it."""

    async def answer(request: Any, call: Call) -> Any:
        call.handle_key = handle_key()
        with as_current_call(call):
            try:
                return await handler(request, call)
            except RpcError as refusal:
                raise CallAborted(refusal.status()) from None
            except CallAborted:
                raise
            except Exception:
                log.exception("fault", method=method.path, **call.facts())
                raise CallAborted(errors.InternalError(request_id=call.request_id).status()) from None

    return answer


def metrics(method: Method, handler: Handler) -> Handler:
    """Count, time and gauge; the children are looked up once."""
    streams = method.streams
    latency = LATENCY.labels(method.service, method.name)
    in_flight = IN_FLIGHT.labels(method.service, method.name)
    counters = {code: REQUESTS.labels(method.service, method.name, code.name) for code in _COUNTED}

    async def answer(request: Any, call: Call) -> Any:
        started = time.perf_counter()
        in_flight.inc()
        code = grpc.StatusCode.INTERNAL
        try:
            response = await handler(request, call)
        except BaseException as error:
            code = code_of(error)
            left = call.remaining()
            if code is grpc.StatusCode.CANCELLED and not streams and left is not None and left < _HANGING_UP_SECONDS:
                code = grpc.StatusCode.DEADLINE_EXCEEDED
            raise
        else:
            code = grpc.StatusCode.OK
            return response
        finally:
            in_flight.dec()
            if not streams:
                # How long somebody listens says nothing about how fast we are.
                latency.observe(time.perf_counter() - started, call.exemplar)
            counter = counters.get(code)
            if counter is None:
                counter = counters[code] = REQUESTS.labels(method.service, method.name, code.name)
            counter.inc()

    return answer


def trace(method: Method, handler: Handler, *, continues: bool = True) -> Handler:
    """Give the call a server span that continues the caller's trace, or begins a trace that is linked to it."""
    name = method.path[1:]
    attributes = {rpc_attributes.RPC_SYSTEM_NAME: "grpc", rpc_attributes.RPC_METHOD: name}

    async def traced(request: Any, call: Call) -> Any:
        with TRACING.tracer.start_as_current_span(
            name,
            context=context_from(call.metadata) if continues else Context(),
            links=None if continues else links_to(call.metadata),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            call.trace_id = f"{span.get_span_context().trace_id:032x}"
            call.exemplar = exemplar(span)
            try:
                response = await handler(request, call)
            except BaseException as error:
                code = code_of(error)
                span.set_attribute(rpc_attributes.RPC_RESPONSE_STATUS_CODE, code.name)
                if code in _SERVER_FAULTS:
                    span.set_attribute(error_attributes.ERROR_TYPE, code.name)
                    span.set_status(otel.StatusCode.ERROR)
                raise
            span.set_attribute(rpc_attributes.RPC_RESPONSE_STATUS_CODE, "OK")
            return response

    def answer(request: Any, call: Call) -> Awaitable[Any]:
        return traced(request, call) if TRACING.on else handler(request, call)

    return answer


def deadline(default: float, most: float, handler: Handler) -> Handler:
    """Cancel work whose time is over, and give every call an end: `most` seconds from now at the latest."""

    async def answer(request: Any, call: Call) -> Any:
        at = asyncio.get_running_loop().time()
        call.deadline = min(at + default if call.deadline is None else call.deadline, at + most)
        try:
            async with asyncio.timeout_at(call.deadline) as limit:
                return await handler(request, call)
        except TimeoutError:
            if limit.expired():
                raise errors.DeadlineExceeded from None
            raise

    return answer


def identity(rule: AccessRule, identify: Identify, handler: Handler) -> Handler:
    """Verify the caller and hold it against the access table."""
    if rule.public:
        return handler

    async def answer(request: Any, call: Call) -> Any:
        try:
            call.caller = await identify(call)
        except aio.AioRpcError as error:
            raise translate_upstream(error) from None
        rule.check(call.caller)
        return await handler(request, call)

    return answer


def translate_identify_errors(identify: Identify) -> Identify:
    """Turn what another service answers about the caller of a stream into a refusal."""

    async def asked(call: Call) -> Caller:
        try:
            return await identify(call)
        except aio.AioRpcError as error:
            raise translate_upstream(error) from None

    return asked


def admission(admit: Admit | None, handler: Handler) -> Handler:
    """Let a call through while its caller has calls left."""
    if admit is None:
        return handler

    async def answer(request: Any, call: Call) -> Any:
        await admit(call)
        return await handler(request, call)

    return answer


def parse_and_validate(method: Method, handler: Handler) -> Handler:
    """Read and validate the request, and turn what other services answered into refusals."""

    async def answer(request: Any, call: Call) -> Any:
        if isinstance(request, CompleteBody):
            request = await request.message()
        if isinstance(request, bytes):
            request = parse_request(method, request)
        if method.deserializer is not None:
            normalize_mask(request)
            if request.ByteSize() > _LARGE_BYTES:
                await asyncio.to_thread(fields.complete_json_fields, request)
            else:
                fields.complete_json_fields(request)
            validate(request)
        try:
            return await handler(request, call)
        except aio.AioRpcError as error:
            raise translate_upstream(error) from None

    return answer


def validate(request: Message) -> None:
    """Refuse a request that breaks a rule written in the protos."""
    try:
        violations = protovalidate.collect_violations(request)
    except (protovalidate.CompilationError, RuntimeError) as error:
        message = f"the rules of {request.DESCRIPTOR.full_name} do not compile"
        raise TypeError(message) from error
    if violations:
        kind: Any = request.DESCRIPTOR
        found = [(_path(violation), violation_description(violation, kind)) for violation in violations]
        raise errors.FieldInvalid(violations=found)


def translate_upstream(error: aio.AioRpcError, *, service: str | None = None) -> RpcError:
    """Turn another service's answer into a refusal: passed on when it is documented, masked when it is not.

    `service` is named to the caller when it cannot be reached.
    """
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    except ValueError:
        status = None
    if status is not None and errors.reason_of(status):
        return errors.UpstreamError(status)
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in (error.details() or ""):
        return errors.MessageTooLarge()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.MethodNotFound()
    return errors.ServiceUnavailable(service=service)


def code_of(error: BaseException) -> grpc.StatusCode:
    """Return the status code that an exception will end its call with."""
    if isinstance(error, errors.UpstreamError):
        return errors.status_code(error.status())
    if isinstance(error, RpcError):
        return error.code
    if isinstance(error, CallAborted):
        return errors.status_code(error.status)
    if isinstance(error, asyncio.CancelledError):
        return grpc.StatusCode.CANCELLED
    return grpc.StatusCode.INTERNAL


def bearer_credential(call: Call) -> str:
    """Return the credential of a call; refuse a call without one."""
    scheme, _, credential = call.metadata.get(AUTHORIZATION_KEY, "").partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise errors.CredentialMissing
    return credential.strip()


def parse_request(method: Method, request: bytes) -> Any:
    """Read a request's bytes; refuse what is too large or not of the message's form."""
    if len(request) > MAX_MESSAGE_BYTES:
        raise errors.MessageTooLarge(limit=MAX_MESSAGE_BYTES, size=len(request))
    if method.deserializer is None:
        return request
    try:
        return method.deserializer(request)
    except DecodeError:
        raise errors.FieldInvalid(violations=[("", "is not a message of this method")]) from None


def _path(violation: protovalidate.Violation) -> str:
    field_path: Any = violation.proto.field
    if field_path is None:
        return ""
    parts: list[str] = []
    for element in field_path.elements:
        subscript = element.subscript
        parts.append(element.field_name + (f"[{subscript.value}]" if subscript is not None else ""))
    return ".".join(parts)


_SERVER_FAULTS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
# Shown from the start: what comes into being with the first fault was never seen at 0, so no alert sees it rise.
_COUNTED = (
    grpc.StatusCode.OK,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.DATA_LOSS,
)
# A caller whose time is over hangs up, and is mostly the first to say so: its clock ran before the call came here.
_HANGING_UP_SECONDS = 0.15
