"""The interceptors around every call, in this order, over a socket or in process.

    mask_errors          lets only documented statuses out: any other exception is logged and becomes INTERNAL; makes
                         the call the current one for log lines and outgoing calls
    metrics              counts calls, their latency and those in flight
    trace                opens a server span that continues the caller's trace or, at the edge, links to it
    deadline             limits the time of the call and cancels its work at the end
    identity             verifies the calling service and the caller
    refusals             records calls that the next interceptors refuse, where the service has a recorder
    permission           checks the access table
    admission            takes a token of the caller's rate limit; at the edge only
    body                 reads the request's message within a memory budget; over a socket only
    limit_concurrency    runs the call, or queues it until the service has capacity for it
    encode_response      turns the response into what the caller's port sends, where that is work
    parse_and_validate   parses the request, puts its names into one form of Unicode, validates it, and translates
                         errors of other services
    memory_span          opens a span for an operation on memories, where the method declares one
    access log           records the call, where the method declares it
    repeats              answers a repeated request as the first one
    guard                screens the texts of the request, where the method declares it
    approval             refuses a write of a source whose memories wait, or stores it apart, as the method declares

Each is a function from (method, handler) to handler, applied once when the service starts. What a method does not
declare in its proto keeps the service from starting (skein_kit.rpc.declarations).

A streaming method has the same interceptors: its handler writes the messages and returns at the end of the stream. Two
of them differ (skein_kit.rpc.streaming): `limit_duration` replaces deadline. `limit_and_recheck` replaces
limit_concurrency: it counts the tenant's streams and rechecks their callers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import grpc
import protovalidate
import structlog
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from grpc import aio
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import rpc_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind
from prometheus_client import Counter, Gauge, Histogram

from skein_kit import errors
from skein_kit.admission.overload import AdmissionControl
from skein_kit.admission.processor_time import run_by_size
from skein_kit.calls.call import AUTHORIZATION_KEY, Call, CallAborted, as_current_call
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES, AccessRule
from skein_kit.ids import now
from skein_kit.json_values import fields
from skein_kit.rpc.declarations import memory_operation
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_kit.rpc.plain_names import make_names_plain
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES, CompleteBody, body
from skein_kit.rpc.streaming import StreamLimiter, stream_handler
from skein_kit.rpc.well_known_types import normalize_mask
from skein_kit.telemetry import memory_spans
from skein_kit.telemetry.logs import LogThrottle
from skein_kit.telemetry.memory_spans import MemorySpans
from skein_kit.telemetry.metrics import IN_FLIGHT, LATENCY, REQUESTS, TRACING, context_from, exemplar, links_to
from skein_kit.violations import violation_description

if TYPE_CHECKING:
    from skein_kit.rpc.streaming import Messages

# Its request is a message, the bytes of one, or a RequestBody that is read after the caller is identified.
Handler = Callable[[Any, Call], Awaitable[Any]]
Identify = Callable[[Call], Awaitable[Caller]]
# Raises RateLimited for a call beyond the rate limit.
Admit = Callable[[Call], Awaitable[None]]

# The attribute of a server span with the id that the caller was told.
REQUEST_ID_ATTRIBUTE = "skein.request_id"
SLOW_CALL_SECONDS = 1.0
_CALL_LOG: LogThrottle[tuple[str, grpc.StatusCode]] = LogThrottle(1.0, max_kinds=1000)

# gRPC's message for a message beyond its limit; the same code also means a lack of memory or of streams.
_TOO_LARGE = "message larger than max"

log = structlog.get_logger("skein")


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """One RPC of a service, which answers with one message or with a stream."""

    # "/skein.memory.v1.MemoryService/CreateMemory"
    path: str
    # The first answers with one message, the second with a stream.
    handler: Handler | Messages
    # None: the request stays bytes.
    deserializer: Callable[[bytes], Any] | None
    # None: the response is bytes already.
    serializer: Callable[[Any], bytes] | None
    is_streaming: bool = False
    # False: another service does what the method declares.
    is_served_here: bool = True

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

    # Verifies the caller: the gateway exchanges credentials, all other services verify identity tokens.
    identify: Identify
    # Limits of streaming calls.
    streams: StreamLimiter
    # Seconds for a call without a deadline, and the longest deadline of any call.
    default_deadline: float
    max_deadline: float
    # Applies the rate limit; None: there is none.
    admit: Admit | None = None
    # Admission control; None: every call runs.
    overload: AdmissionControl | None = None
    # Logs slow and failed calls: once for each, where it comes in.
    is_edge: bool = False
    # False at the edge: a caller must not cause a trace to be recorded by marking its own as sampled.
    continues_trace: bool = True
    # Returns the key that signs page tokens.
    page_token_key: Callable[[], bytes] = bytes
    steps: DeclaredSteps = dataclasses.field(default_factory=DeclaredSteps)

    def wrap(self, method: Method) -> Handler:
        """Wrap a method's handler in all interceptors. Raises LookupError for a method that declares too little."""
        rule = ACCESS_RULES[method.path]
        handler = parse_and_validate(method, acting_agent(rule, method, memory_span(method, self._declared(method))))
        if method.is_streaming:
            handler = self.streams.limit_and_recheck(rule, handler)
        else:
            handler = encode_response(handler)
            if self.overload is not None:
                handler = self.overload.limit_concurrency(method.path, handler)
        handler = body(handler)
        handler = admission(self.admit, handler)
        handler = permission(rule, handler)
        handler = self.steps.record_refusals(method.path, handler, is_served_here=method.is_served_here)
        handler = identity(rule, self.identify, handler)
        if method.is_streaming:
            handler = self.streams.limit_duration(handler)
        else:
            handler = deadline(self.default_deadline, self.max_deadline, handler)
        handler = trace(method, handler, continues=self.continues_trace)
        handler = metrics(method, handler, is_edge=self.is_edge)
        return mask_errors(method, handler, self.page_token_key)

    def _declared(self, method: Method) -> Handler:
        """Return a method's own work within the steps that it declares."""
        if method.is_streaming:
            messages = cast("Messages", method.handler)
            if method.is_served_here:
                messages = self.steps.wrap_stream(method.path, messages)
            return stream_handler(method.path, messages)
        handler = cast("Handler", method.handler)
        return self.steps.wrap(method.path, handler) if method.is_served_here else handler


def mask_errors(method: Method, handler: Handler, page_token_key: Callable[[], bytes]) -> Handler:
    """Turn every exception into CallAborted with a documented status, and make the call the current one."""

    async def answer(request: Any, call: Call) -> Any:
        call.page_token_key = page_token_key()
        with as_current_call(call):
            try:
                return await handler(request, call)
            except RpcError as error:
                raise CallAborted(error.status()) from None
            except CallAborted:
                raise
            except Exception:
                log.exception("internal_error", method=method.path, **call.log_fields())
                raise CallAborted(errors.InternalError(request_id=call.request_id).status()) from None

    return answer


def metrics(method: Method, handler: Handler, *, is_edge: bool = False) -> Handler:
    """Count calls by status, their latency and those in flight; log slow and failed ones at the edge."""
    streams = method.is_streaming
    labels = method.service, method.name
    in_flight: Gauge | None = None
    latency: Histogram | None = None
    counters: dict[grpc.StatusCode, Counter] = {}

    async def answer(request: Any, call: Call) -> Any:
        nonlocal in_flight, latency
        start_time = time.perf_counter()
        if in_flight is None:
            in_flight = IN_FLIGHT.labels(*labels)
        in_flight.inc()
        code = grpc.StatusCode.INTERNAL
        try:
            response = await handler(request, call)
        except BaseException as error:
            code = status_code_of(error)
            remaining = call.remaining_seconds()
            if (
                code is grpc.StatusCode.CANCELLED
                and not streams
                and remaining is not None
                and remaining < _DEADLINE_MARGIN_SECONDS
            ):
                code = grpc.StatusCode.DEADLINE_EXCEEDED
            raise
        else:
            code = grpc.StatusCode.OK
            return response
        finally:
            in_flight.dec()
            seconds = time.perf_counter() - start_time
            if not streams:
                # The length of a stream says nothing about speed.
                if latency is None:
                    latency = LATENCY.labels(*labels)
                latency.observe(seconds, call.exemplar)
            if is_edge:
                _log_call(method, call, code, 0.0 if streams else seconds)
            counter = counters.get(code)
            if counter is None:
                counter = counters[code] = REQUESTS.labels(*labels, code.name)
            counter.inc()

    return answer


def _log_call(method: Method, call: Call, code: grpc.StatusCode, seconds: float) -> None:
    """Log a call that failed or was slow, with the ids that lead to its trace; of many alike one in a second."""
    is_failed = code in _SERVER_ERRORS
    if (is_failed or seconds > SLOW_CALL_SECONDS) and _CALL_LOG.is_first((method.path, code)):
        event = "call_failed" if is_failed else "slow_call"
        log.warning(
            event, method=method.path[1:], code=code.name, milliseconds=round(seconds * 1000), **call.log_fields()
        )


def trace(method: Method, handler: Handler, *, continues: bool = True) -> Handler:
    """Run the call in a server span that continues the caller's trace, or in a new trace linked to it."""
    name = method.path[1:]
    attributes = {rpc_attributes.RPC_SYSTEM_NAME: "grpc", rpc_attributes.RPC_METHOD: name}

    async def call_in_span(request: Any, call: Call) -> Any:
        with TRACING.tracer.start_as_current_span(
            name,
            context=context_from(call.metadata) if continues else Context(),
            links=None if continues else links_to(call.metadata),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            # A message of an error, and a line of the log, have the request's id.
            span.set_attribute(REQUEST_ID_ATTRIBUTE, call.request_id)
            call.trace_id = f"{span.get_span_context().trace_id:032x}"
            call.exemplar = exemplar(span)
            try:
                response = await handler(request, call)
            except BaseException as error:
                code = status_code_of(error)
                span.set_attribute(rpc_attributes.RPC_RESPONSE_STATUS_CODE, code.name)
                if code in _SERVER_ERRORS:
                    span.set_attribute(error_attributes.ERROR_TYPE, code.name)
                    span.set_status(otel.StatusCode.ERROR)
                raise
            span.set_attribute(rpc_attributes.RPC_RESPONSE_STATUS_CODE, "OK")
            return response

    def answer(request: Any, call: Call) -> Awaitable[Any]:
        return call_in_span(request, call) if TRACING.on else handler(request, call)

    return answer


def memory_span(method: Method, handler: Handler) -> Handler:
    """Run an operation on memories in a span of its own, as the GenAI conventions describe it."""
    operation = memory_operation(method.path) if method.deserializer is not None and method.is_served_here else None
    if operation is None:
        return handler

    async def call_in_span(request: Any, call: Call) -> Any:
        with_content = TRACING.memory_spans is MemorySpans.CONTENT
        attributes = {memory_spans.OPERATION_NAME: operation.name, memory_spans.PROVIDER_NAME: memory_spans.PROVIDER}
        if call.caller is not None and call.caller.tenant_id is not None:
            attributes[memory_spans.STORE_ID] = str(call.caller.tenant_id)
        with TRACING.tracer.start_as_current_span(
            operation.name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            if not span.is_recording():
                return await handler(request, call)
            memory_spans.record_request(span, operation, request, with_content=with_content)
            try:
                response = await handler(request, call)
            except BaseException as error:
                span.set_attribute(error_attributes.ERROR_TYPE, status_code_of(error).name)
                span.set_status(otel.StatusCode.ERROR)
                raise
            if isinstance(response, Message):
                memory_spans.record_response(span, operation, request, response, with_content=with_content)
            return response

    def answer(request: Any, call: Call) -> Awaitable[Any]:
        return handler(request, call) if TRACING.memory_spans is MemorySpans.OFF else call_in_span(request, call)

    return answer


def deadline(default_seconds: float, max_seconds: float, handler: Handler) -> Handler:
    """Give every call a deadline, at most `max_seconds` seconds from now, and cancel its work then."""

    async def answer(request: Any, call: Call) -> Any:
        at = asyncio.get_running_loop().time()
        call.deadline = min(at + default_seconds if call.deadline is None else call.deadline, at + max_seconds)
        try:
            async with asyncio.timeout_at(call.deadline) as limit:
                return await handler(request, call)
        except TimeoutError:
            if limit.expired():
                raise errors.DeadlineExceeded from None
            raise

    return answer


def identity(rule: AccessRule, identify: Identify, handler: Handler) -> Handler:
    """Verify the calling service and the caller."""
    if rule.is_public and not rule.services:
        return handler

    async def answer(request: Any, call: Call) -> Any:
        rule.check_service(call.peer_services)
        if rule.is_public:
            return await handler(request, call)
        try:
            call.caller = await identify(call)
        except aio.AioRpcError as error:
            raise translate_upstream(error) from None
        return await handler(request, call)

    return answer


def permission(rule: AccessRule, handler: Handler) -> Handler:
    """Check the method's access rule."""
    if rule.is_public:
        return handler

    def answer(request: Any, call: Call) -> Awaitable[Any]:
        caller = caller_of(call)
        rule.check(caller)
        call.space_ids = rule.space_ids(caller, call.named_space)
        return handler(request, call)

    return answer


def translate_identify_errors(identify: Identify) -> Identify:
    """Return `identify` with errors of other services turned into errors of this one."""

    async def identify_and_translate(call: Call) -> Caller:
        try:
            return await identify(call)
        except aio.AioRpcError as error:
            raise translate_upstream(error) from None

    return identify_and_translate


def admission(admit: Admit | None, handler: Handler) -> Handler:
    """Refuse calls beyond the rate limit."""
    if admit is None:
        return handler

    async def answer(request: Any, call: Call) -> Any:
        await admit(call)
        return await handler(request, call)

    return answer


def encode_response(handler: Handler) -> Handler:
    """Encode the response for a port that asked for it: as part of the call, because it can cost more than the rest."""

    async def answer(request: Any, call: Call) -> Any:
        response = await handler(request, call)
        return response if call.encode is None else await call.encode(response)

    return answer


def acting_agent(rule: AccessRule, method: Method, handler: Handler) -> Handler:
    """Refuse a parsed request that acts as another agent than that of its credential."""
    if not rule.agent_field or method.deserializer is None:
        return handler

    def answer(request: Any, call: Call) -> Awaitable[Any]:
        if call.caller is not None:
            rule.check_agent(call.caller, request)
        return handler(request, call)

    return answer


def parse_and_validate(method: Method, handler: Handler) -> Handler:
    """Parse and validate the request, and translate errors of the services that the handler calls."""

    async def answer(request: Any, call: Call) -> Any:
        if isinstance(request, CompleteBody):
            request = await request.message()
        if isinstance(request, bytes):
            request = parse_request(method, request)
        if method.deserializer is not None:
            normalize_mask(request)
            make_names_plain(request)
            await run_by_size(request.ByteSize(), _complete_and_validate, request)
        call.handler_time = now()
        try:
            return await handler(request, call)
        except aio.AioRpcError as error:
            raise translate_upstream(error) from None
        except errors.NotFound as error:
            if method.deserializer is not None and not error.metadata:
                error.name(_requested_id(error.reason, request))
            raise

    return answer


def _complete_and_validate(request: Message) -> None:
    fields.complete_json_fields(request)
    validate(request)


def _requested_id(reason: str, request: Message) -> tuple[str, str] | None:
    """Return name and value of the field that names what is missing: `memory_id` for MEMORY_NOT_FOUND.

    It is a field of the request, or of a message in it. None where the request has no such field, or names several.
    """
    name = f"{reason.partition('_NOT_')[0].lower()}_id"
    for message in (request, *(value for field, value in request.ListFields() if _is_single_message(field))):
        value = getattr(message, name, None)
        if isinstance(value, str) and value:
            return name, value
    return None


def _is_single_message(field: FieldDescriptor) -> bool:
    return field.message_type is not None and not field.is_repeated


def validate(request: Message) -> None:
    """Check a request against the rules in the protos. Raises FieldInvalid."""
    try:
        violations = protovalidate.collect_violations(request)
    except (protovalidate.CompilationError, RuntimeError) as error:
        message = f"the rules of {request.DESCRIPTOR.full_name} do not compile"
        raise TypeError(message) from error
    if violations:
        kind: Any = request.DESCRIPTOR
        descriptions = [(_path(violation), violation_description(violation, kind)) for violation in violations]
        raise errors.FieldInvalid(violations=descriptions)


def translate_upstream(error: aio.AioRpcError, *, service: str | None = None) -> RpcError:
    """Return the error for a failed call of another service: its own if documented, else a general one.

    `service` is named in the error when it is unavailable.
    """
    status = errors.status_of_call(error)
    if status is not None and errors.status_reason(status):
        return errors.UpstreamError(status)
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceeded()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in (error.details() or ""):
        return errors.MessageTooLarge()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.MethodNotFound()
    return errors.ServiceUnavailable(service=service)


def status_code_of(error: BaseException) -> grpc.StatusCode:
    """Return the status code with which an exception ends its call."""
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
    """Return the bearer credential of a call. Raises CredentialMissing."""
    scheme, _, credential = call.metadata.get(AUTHORIZATION_KEY, "").partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise errors.CredentialMissing
    return credential.strip()


def parse_request(method: Method, request: bytes) -> Any:
    """Return the message of a request's bytes. Raises MessageTooLarge and FieldInvalid."""
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


_SERVER_ERRORS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
# A cancellation this shortly before the deadline counts as DEADLINE_EXCEEDED: the caller's clock started first.
_DEADLINE_MARGIN_SECONDS = 0.15
