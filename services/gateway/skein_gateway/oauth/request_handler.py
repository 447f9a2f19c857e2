"""Runs HTTP requests of OAuth and the console as calls of the cluster, and turns errors into OAuth errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import grpc
import structlog
from google.rpc.status_pb2 import Status
from grpc import aio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from skein_gateway.identity import challenges
from skein_gateway.identity.trusted_proxies import TrustedProxies
from skein_gateway.oauth.forms import ClientInvalid, FormInvalid, Parameters, is_form
from skein_kit import errors
from skein_kit.admission.body_memory import ANONYMOUS_BODIES, AUTHENTICATED_BODIES, BodyMemory
from skein_kit.calls.call import REQUEST_ID_KEY, Call, CallAborted, as_current_call, current_call
from skein_kit.errors import RpcError, status_code, status_reason
from skein_kit.network.source_network import source_network
from skein_kit.rpc.grpc_handler import FORWARDED, FORWARDED_FOR
from skein_kit.rpc.interceptors import translate_upstream

MAX_BODY = 64 * 1024
# Of a form with texts that an identified caller sends: the longest texts that services store, form-encoded.
MAX_TEXT_BODY = 2 * 1024 * 1024
NO_STORE: Mapping[str, str] = {"cache-control": "no-store", "pragma": "no-cache"}
_OAUTH_PREFIX = "OAUTH_"
# HTTP status of OAuth errors; 400 for all others.
_STATUS_BY_ERROR = {"invalid_client": 401, "invalid_token": 401, "insufficient_scope": 403}
_ERRORS_BY_CODE: Mapping[grpc.StatusCode, tuple[int, str]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (400, "invalid_request"),
    grpc.StatusCode.FAILED_PRECONDITION: (400, "invalid_request"),
    grpc.StatusCode.NOT_FOUND: (404, "invalid_request"),
    grpc.StatusCode.ALREADY_EXISTS: (409, "invalid_request"),
    grpc.StatusCode.ABORTED: (409, "invalid_request"),
    grpc.StatusCode.UNAUTHENTICATED: (401, "invalid_token"),
    grpc.StatusCode.PERMISSION_DENIED: (403, "insufficient_scope"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (429, "temporarily_unavailable"),
    grpc.StatusCode.UNAVAILABLE: (503, "temporarily_unavailable"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (503, "temporarily_unavailable"),
}

log = structlog.get_logger("gateway")

# Memory of request bodies, released when the request ends.
_reservations: ContextVar[ExitStack | None] = ContextVar("skein_oauth_body_reservations", default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthError:
    """An error with OAuth's error code and a description."""

    status: int
    # OAuth's error code, such as "invalid_grant".
    error: str
    description: str
    # The ErrorInfo reason; empty for errors of the gateway itself.
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class RequestHandler:
    """Gives each request a call with its origin and a deadline, and handles errors."""

    def __init__(self, proxies: TrustedProxies, seconds: float) -> None:
        """Allow each request this many seconds."""
        self._proxies = proxies
        self._seconds = seconds

    def call(self, request: Request) -> Call:
        """Return the call of a request, without a credential."""
        peer = request.client.host if request.client else ""
        metadata = {name: request.headers.get(name, "") for name in (REQUEST_ID_KEY, "user-agent")}
        call = Call(
            path=request.url.path,
            metadata={key: value for key, value in metadata.items() if value.isascii() and value.isprintable()},
            deadline=asyncio.get_running_loop().time() + self._seconds,
            peer=peer,
        )
        call.set_origin(
            self._proxies.client(peer, request.headers.getlist(FORWARDED_FOR), FORWARDED in request.headers)
        )
        return call

    async def handle(
        self,
        request: Request,
        work: Callable[[Call], Awaitable[Response]],
        error_response: Callable[[OAuthError], Response],
    ) -> Response:
        """Run `work` as a call. Errors go through `error_response`; unexpected ones are logged as well."""
        call = self.call(request)
        # The body keeps its reservation until the call ends, also while it queues at a service.
        with as_current_call(call), _body_reservations():
            try:
                async with asyncio.timeout_at(call.deadline):
                    response = await work(call)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:  # noqa: BLE001 - clients get documented errors only.
                response = error_response(self._problem(error, call))
        response.headers[REQUEST_ID_KEY] = call.request_id
        return response

    @staticmethod
    def _problem(error: Exception, call: Call) -> OAuthError:
        if isinstance(error, FormInvalid):
            return OAuthError(status=400, error="invalid_request", description=str(error))
        if isinstance(error, ClientInvalid):
            return OAuthError(status=401, error="invalid_client", description=str(error))
        if isinstance(error, TimeoutError):
            return oauth_error(errors.DeadlineExceeded().status())
        status = status_of(error)
        if status is None:
            log.error("internal_error", method=call.path, exc_info=error, **call.log_fields())
            message = f"Skein failed; the server's log has details of request {call.request_id}."
            return OAuthError(status=500, error="server_error", description=message)
        return oauth_error(status)


def status_of(error: BaseException) -> Status | None:
    """Return the status of a failed RPC; None for any other exception."""
    if isinstance(error, aio.AioRpcError):
        return translate_upstream(error).status()
    if isinstance(error, RpcError):
        return error.status()
    return error.status if isinstance(error, CallAborted) else None


def error_reason(error: BaseException) -> str:
    """Return the reason of a failed RPC; empty for any other exception."""
    status = status_of(error)
    return "" if status is None else status_reason(status)


def oauth_error(status: Status) -> OAuthError:
    """Return a status as an OAuth error."""
    reason, code = status_reason(status), status_code(status)
    violations = "; ".join(f"{field} {problem}".strip() for field, problem in challenges.unstated_violations_in(status))
    message = f"{status.message} ({violations})" if violations else status.message
    if reason.startswith(_OAUTH_PREFIX):
        error = reason.removeprefix(_OAUTH_PREFIX).lower()
        return OAuthError(status=_STATUS_BY_ERROR.get(error, 400), error=error, description=message, reason=reason)
    http_status, error = _ERRORS_BY_CODE.get(code, (500, "server_error"))
    description = message if http_status < 500 or http_status == 503 else "Skein failed."  # noqa: PLR2004 - as in the table.
    return OAuthError(
        status=http_status, error=error, description=description, reason=reason, headers=challenges.retry_after(status)
    )


def json_error_response(problem: OAuthError, issuer: str = "") -> JSONResponse:
    """Return an error as JSON (RFC 6749, 5.2)."""
    headers = {**NO_STORE, **problem.headers}
    if problem.error == "invalid_client" and problem.status == 401:  # noqa: PLR2004 - as HTTP calls it.
        headers["www-authenticate"] = 'Basic realm="skein"'
    elif problem.error == "invalid_token":
        # RFC 6750, 3.1: a request without a credential gets no error code.
        error = "" if problem.reason == "CREDENTIAL_MISSING" else problem.error
        headers["www-authenticate"] = challenges.bearer(issuer, error=error)
    elif problem.error == "insufficient_scope":
        headers["www-authenticate"] = challenges.bearer(issuer, error=problem.error)
    body = {"error": problem.error, "error_description": _ascii_description(problem.description)}
    return JSONResponse(body, status_code=problem.status, headers=headers)


async def read_form(request: Request) -> Parameters:
    """Read and parse a form. Raises FormInvalid."""
    if not is_form(request.headers.get("content-type", "")):
        raise FormInvalid("Send application/x-www-form-urlencoded.")
    return Parameters.of_bytes(await read_body(request))


async def read_text_form(request: Request, tenant_id: str) -> Parameters:
    """Read and parse a form of at most MAX_TEXT_BODY bytes that an identified caller of a tenant sends.

    Raises FormInvalid and Overloaded.
    """
    if not is_form(request.headers.get("content-type", "")):
        raise FormInvalid("Send application/x-www-form-urlencoded.")
    return Parameters.of_bytes(await _read(request, AUTHENTICATED_BODIES, tenant_id, MAX_TEXT_BODY), MAX_TEXT_BODY)


async def read_body(request: Request) -> bytes:
    """Read a body of at most MAX_BODY bytes. It is reserved in the memory budget until the call ends.

    Raises FormInvalid and Overloaded.
    """
    call = current_call()
    source = source_network("" if call is None else call.client_address)
    return await _read(request, ANONYMOUS_BODIES, source, MAX_BODY)


async def _read(request: Request, budget: BodyMemory, source: Hashable, max_bytes: int) -> bytes:
    body = bytearray()
    async with budget.reserve(source, max_bytes) as reservation:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise FormInvalid("The request is too long.")
        reservations = _reservations.get()
        if reservations is not None:
            reservations.enter_context(reservation.transfer(len(body)))
    return bytes(body)


@contextmanager
def _body_reservations() -> Iterator[None]:
    with ExitStack() as reservations:
        token = _reservations.set(reservations)
        try:
            yield
        finally:
            _reservations.reset(token)


def _ascii_description(text: str) -> str:
    """Return a description with only the characters that RFC 6749 allows."""
    return "".join(letter if " " <= letter <= "~" and letter not in '"\\' else "'" for letter in text)
