"""Errors of calls: one class per status code, with the details that the server sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

_STATUS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Violation:
    """One invalid field of a request."""

    # Path of the field, e.g. "memory.tags[2]"; empty when the rule concerns the request as a whole.
    field: str
    description: str

    def __str__(self) -> str:
        return f"{self.field}: {self.description}" if self.field else self.description


class SkeinError(Exception):
    """A call that failed. Catch a subclass for a status code; read `reason` for the exact case."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        status: grpc.StatusCode | None = None,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[Violation] = (),
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        """`message` is the server's; the rest comes from the details of its status."""
        super().__init__(message)
        self.message = message
        # The status of the call; differs from `code` only for status codes without a class.
        self.status = status or self.code
        # A value of skein.errors.v1.ErrorReason without its prefix; empty when no Skein service answered.
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        # Seconds to wait before a retry can succeed; None when the server named none.
        self.retry_after = retry_after
        # Finds the call in the cluster's logs and traces.
        self.request_id = request_id

    def __str__(self) -> str:
        # Services of this version name the violations in the message already.
        extra_violations = [
            str(violation) for violation in self.violations if violation.description not in self.message
        ]
        violations = "; ".join(extra_violations)
        details = ", ".join(
            [self.reason or self.status.name, *(f"{name}={value}" for name, value in self.metadata.items())]
        )
        return f"{self.message} [{details}]{f' {violations}' if violations else ''} (request {self.request_id})"


class InvalidArgument(SkeinError):
    """The request breaks a rule; `violations` names the fields."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(SkeinError):
    """No such row is visible to this credential."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(SkeinError):
    """An id, name or key is taken."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(SkeinError):
    """The state of the row does not allow it."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(SkeinError):
    """Something changed meanwhile: read again, then retry."""

    code = grpc.StatusCode.ABORTED


class Unauthenticated(SkeinError):
    """The credential is missing, unknown, revoked or expired."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(SkeinError):
    """The credential does not allow this call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(SkeinError):
    """A limit is reached: a quota, a rate, or the size of a message."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(SkeinError):
    """The cluster, or a part of it, does not answer."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(SkeinError):
    """The time for the call was over. A mutation may have happened; repeat it with the same request_id."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Unimplemented(SkeinError):
    """The cluster does not know this method: it is older than this client, or something else answers there."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Internal(SkeinError):
    """A bug or a failure of the cluster; its operators find the call by `request_id`."""

    code = grpc.StatusCode.INTERNAL


_KINDS: Mapping[grpc.StatusCode, type[SkeinError]] = {kind.code: kind for kind in SkeinError.__subclasses__()}


def error_from_rpc(error: grpc.RpcError, request_id: str) -> SkeinError:
    """Turn gRPC's error, of either flavour, into the class of its kind."""
    # Every error of a finished call is also a Call; the type stubs do not say so.
    call: Any = error
    status: grpc.StatusCode = call.code()
    status_details = _status_details(call.trailing_metadata())
    info, retry_info, bad_request = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.RetryInfo(),
        error_details_pb2.BadRequest(),
    )
    retry_after: float | None = None
    for detail in status_details.details:
        # A detail unpacks into the message of its own kind only.
        detail.Unpack(info)
        detail.Unpack(bad_request)
        if detail.Unpack(retry_info):
            retry_after = retry_info.retry_delay.seconds + retry_info.retry_delay.nanos / 1e9
    return _KINDS.get(status, SkeinError)(
        status_details.message or call.details() or status.name,
        status=status,
        reason=info.reason,
        metadata=info.metadata,
        violations=[Violation(violation.field, violation.description) for violation in bad_request.field_violations],
        retry_after=retry_after,
        request_id=request_id,
    )


def _status_details(metadata: Any) -> Status:
    for key, value in metadata or ():
        if key == _STATUS_KEY and isinstance(value, bytes):
            try:
                return Status.FromString(value)
            except DecodeError:
                break
    return Status()
