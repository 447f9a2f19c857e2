"""What pc2 refuses, in the words of the orchestrator's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from skein_kit.errors import reason_of

if TYPE_CHECKING:
    from google.rpc.status_pb2 import Status
    from grpc import aio

INVALID_REQUEST = "invalid_request"
MEMORY_NOT_FOUND = "memory_not_found"
SESSION_NOT_FOUND = "session_not_found"
PERMISSION_DENIED = "permission_denied"
STORAGE_ERROR = "storage_error"
SEARCH_ERROR = "search_error"
VALIDATION_ERROR = "validation_error"
RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
INTERNAL_ERROR = "internal_error"

_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: VALIDATION_ERROR,
    grpc.StatusCode.FAILED_PRECONDITION: VALIDATION_ERROR,
    grpc.StatusCode.OUT_OF_RANGE: VALIDATION_ERROR,
    grpc.StatusCode.ALREADY_EXISTS: VALIDATION_ERROR,
    grpc.StatusCode.NOT_FOUND: MEMORY_NOT_FOUND,
    grpc.StatusCode.UNAUTHENTICATED: PERMISSION_DENIED,
    grpc.StatusCode.PERMISSION_DENIED: PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: RATE_LIMIT_EXCEEDED,
}
_REASONS = {
    "SESSION_NOT_FOUND": SESSION_NOT_FOUND,
    "MESSAGE_TOO_LARGE": VALIDATION_ERROR,
}
# The services behind are away, late or at odds: trying again later may help.
_TRANSIENT = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
    }
)


class RequestError(Exception):
    """The request cannot be done; `code` is one of the protocol's."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


def reason_of_call(error: aio.AioRpcError) -> str:
    """Find why a service refused, as a value of `skein.errors.v1.ErrorReason`; empty when it does not say."""
    status = _status(error)
    return reason_of(status) if status is not None else ""


def retry_seconds(error: aio.AioRpcError) -> float:
    """Find how long a service asks to be left alone before the call is repeated; 0 when it does not say."""
    status, retry = _status(error), error_details_pb2.RetryInfo()
    if status is None or not any(detail.Unpack(retry) for detail in status.details):
        return 0.0
    return float(retry.retry_delay.ToTimedelta().total_seconds())


def to_request_error(error: aio.AioRpcError, *, transient: str) -> RequestError:
    """Say another service's refusal in the protocol's codes; `transient` is the code for services that are away."""
    status = _status(error)
    reason = reason_of(status) if status is not None else ""
    known = _REASONS.get(reason) or _CODES.get(error.code(), INTERNAL_ERROR)
    code = transient if error.code() in _TRANSIENT else known
    details: dict[str, Any] = {"reason": reason} if reason else {}
    violations = _violations(status) if status is not None else []
    if violations:
        details["violations"] = violations
    # Without a reason the text is the transport's own and names addresses.
    message = error.details() if reason else "A service of the cluster does not answer; try again soon."
    return RequestError(code, message or code, **details)


def _status(error: aio.AioRpcError) -> Status | None:
    try:
        return rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    except ValueError:
        return None


def _violations(status: Status) -> list[dict[str, str]]:
    for detail in status.details:
        if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            return [{"field": found.field, "description": found.description} for found in bad.field_violations]
    return []
