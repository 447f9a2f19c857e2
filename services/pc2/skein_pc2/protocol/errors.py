"""Errors that pc2 replies with, by the codes of the envelope dialect."""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc import aio

from skein_kit.errors import reason_of_call, status_of_call

INVALID_REQUEST = "invalid_request"
MEMORY_NOT_FOUND = "memory_not_found"
SESSION_NOT_FOUND = "session_not_found"
PERMISSION_DENIED = "permission_denied"
STORAGE_ERROR = "storage_error"
SEARCH_ERROR = "search_error"
VALIDATION_ERROR = "validation_error"
RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
INTERNAL_ERROR = "internal_error"
# The reason of a write that waits for approval.
WAITS_FOR_APPROVAL = "WAITS_FOR_APPROVAL"

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
# Services are unavailable, late or in conflict: a later attempt may succeed.
_TRANSIENT = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
    }
)
# Failures that background work retries.
RETRYABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


class RequestError(Exception):
    """A request that fails; `code` is one of the protocol's."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


def waits_for_approval(pending_id: str) -> RequestError:
    """Return the error of a write that waits for approval: it is stored under `pending_id`, and no memory yet."""
    message = f"The memory waits for approval as {pending_id} and is not saved yet; do not send it again"
    return RequestError(PERMISSION_DENIED, message, reason=WAITS_FOR_APPROVAL, pending_id=pending_id)


def error_text(error: RequestError, separator: str = ": ") -> str:
    """Return an error as one text, with the invalid fields and their rules."""
    violations = error.details.get("violations") or []
    unmentioned_violations = [violation for violation in violations if violation["description"] not in error.message]
    fields = "; ".join(
        f"{violation['field']}{separator}{violation['description']}" for violation in unmentioned_violations
    )
    return f"{error.message} ({fields})" if fields else error.message


def log_reason(error: aio.AioRpcError | RequestError) -> str:
    """Return the reason of an error for a log line."""
    return error.code if isinstance(error, RequestError) else reason_of_call(error) or error.code().name


def retry_seconds(error: aio.AioRpcError) -> float:
    """Return the pause in seconds that a service demands before a repeat; 0 for none."""
    status, retry = status_of_call(error), error_details_pb2.RetryInfo()
    if status is None or not any(detail.Unpack(retry) for detail in status.details):
        return 0.0
    return float(retry.retry_delay.ToTimedelta().total_seconds())


def to_request_error(error: aio.AioRpcError, *, transient_code: str) -> RequestError:
    """Convert a service's error to the protocol's codes; `transient_code` is the code for unavailable services."""
    status = status_of_call(error)
    reason = reason_of_call(error)
    code_by_status = _REASONS.get(reason) or _CODES.get(error.code(), INTERNAL_ERROR)
    code = transient_code if error.code() in _TRANSIENT else code_by_status
    details: dict[str, Any] = {"reason": reason} if reason else {}
    violations = _violations(status) if status is not None else []
    if violations:
        details["violations"] = violations
    # Without a reason the text comes from the transport and names addresses.
    message = error.details() if reason else "A service of the cluster does not answer; try again soon."
    return RequestError(code, message or code, **details)


def _violations(status: Status) -> list[dict[str, str]]:
    for detail in status.details:
        if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad_request = error_details_pb2.BadRequest()
            detail.Unpack(bad_request)
            return [
                {"field": violation.field, "description": violation.description}
                for violation in bad_request.field_violations
            ]
    return []
