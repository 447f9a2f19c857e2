"""The errors that are part of the interface. Knows statuses, not transports.

Each error is a class. Its docstring is the message that the caller reads. Its `reason` is a value of
`skein.errors.v1.ErrorReason`. Its keywords become the metadata of the ErrorInfo. The message may contain a keyword in
braces, which its value replaces. The violations follow, field by field. For an invalid argument the other keywords
follow too, so that the message alone is enough to correct the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import ClassVar

import grpc
from google.protobuf.any_pb2 import Any as PackedAny
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status
from grpc import aio
from grpc_status import rpc_status

from skein_kit.violations import format_violations, truncate_violations

DOMAIN = "skein"
STATUS_DETAILS_KEY = "grpc-status-details-bin"
# gRPC drops the whole status when its details pass 8 KiB, the real code included.
MAX_DETAIL_BYTES = 4096
MAX_METADATA_CHARACTERS = 255


class RpcError(Exception):
    """The call was refused."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN
    reason: ClassVar[str] = ""
    # Seconds until a retry may succeed; None when a retry does not help.
    retry_after: float | None = None

    def __init__(self, *, violations: Sequence[tuple[str, str]] = (), **keywords: object) -> None:
        """`violations` and `keywords` are sent to the caller: never pass content or a secret."""
        self.violations = truncate_violations(violations)
        self.metadata: Mapping[str, str] = {
            name: str(value)[:MAX_METADATA_CHARACTERS] for name, value in keywords.items() if value is not None
        }
        template = inspect.getdoc(type(self)) or type(self).__name__
        metadata = self.metadata if self.code is grpc.StatusCode.INVALID_ARGUMENT else {}
        extra_metadata = {name: value for name, value in metadata.items() if f"{{{name}}}" not in template}
        self.message = template.format_map(self.metadata) + format_violations(self.violations, extra_metadata)
        super().__init__(self.message)

    def name(self, identifier: tuple[str, str] | None) -> None:
        """Add the name and value of the id that the error is about, if any, to its metadata and its message."""
        if identifier is not None:
            name, value = identifier
            self.metadata = {**self.metadata, name: value[:MAX_METADATA_CHARACTERS]}
            self.message = f"{self.message.removesuffix('.')}: {name} {value[:MAX_METADATA_CHARACTERS]}."

    def status(self) -> Status:
        """Return the error as a rich status, within the size that gRPC can carry."""
        details: list[Message] = [
            error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata)
        ]
        if self.retry_after is not None:
            seconds = int(self.retry_after)
            nanos = int((self.retry_after - seconds) * 1e9)
            details.append(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos)))
        bad_request = error_details_pb2.BadRequest()
        for field, description in self.violations:
            bad_request.field_violations.add(field=field, description=description)
            if bad_request.ByteSize() > MAX_DETAIL_BYTES - 2048:
                del bad_request.field_violations[-1]
                break
        if bad_request.field_violations:
            details.append(bad_request)
        return Status(code=self.code.value[0], message=self.message, details=[pack_any(detail) for detail in details])


def pack_any(message: Message) -> PackedAny:
    """Wrap a message in an Any."""
    result = PackedAny()
    result.Pack(message)
    return result


class InvalidArgument(RpcError):
    """The request breaks a rule."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    reason = "INVALID_FIELD"


class NotFound(RpcError):
    """No such row is visible to the caller."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(RpcError):
    """The name is taken."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(RpcError):
    """The state of the row does not allow it."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class DataLoss(RpcError):
    """Stored data is damaged or lost."""

    code = grpc.StatusCode.DATA_LOSS


class Aborted(RpcError):
    """The data changed at the same time; repeat the call."""

    code = grpc.StatusCode.ABORTED


class Unauthenticated(RpcError):
    """The caller is not authenticated."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(RpcError):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Unavailable(RpcError):
    """A part of the cluster does not answer."""

    code = grpc.StatusCode.UNAVAILABLE
    retry_after = 0.5


class FieldInvalid(InvalidArgument):
    """A field of the request is not valid."""

    reason = "INVALID_FIELD"


class TextNotStorable(InvalidArgument):
    """A text holds a NUL character, which cannot be stored; remove it."""

    reason = "TEXT_NOT_STORABLE"


class PageTokenInvalid(InvalidArgument):
    """The page_token is damaged, or belongs to another list, filter or order; start again without one."""

    reason = "PAGE_TOKEN_INVALID"


class UpdateMaskInvalid(InvalidArgument):
    """The update_mask is empty, or names a field that cannot be updated."""

    reason = "UPDATE_MASK_INVALID"


class ContentTooLong(InvalidArgument):
    """The content is longer than the plan allows, which is {limit} characters."""

    reason = "CONTENT_TOO_LONG"


class ContentEmpty(InvalidArgument):
    """The content needs at least one character that is not a space, or structured content."""

    reason = "CONTENT_EMPTY"


class ContentRefused(InvalidArgument):
    """A text holds a secret or personal data, which the tenant's policy refuses: leave it out, or use the vault."""

    reason = "CONTENT_REFUSED"


class FilterInvalid(InvalidArgument):
    """The filter has a syntax error; the violation names its position."""

    reason = "FILTER_INVALID"


class FilterFieldUnknown(InvalidArgument):
    """The filter names a field that does not exist."""

    reason = "FILTER_FIELD_UNKNOWN"


class DuplicateInBatch(InvalidArgument):
    """The batch names the same id or key twice."""

    reason = "DUPLICATE_IN_BATCH"


class RequestIdReused(InvalidArgument):
    """This request_id was used before with another request; choose a new one."""

    reason = "REQUEST_ID_REUSED"


class DimensionsMismatch(InvalidArgument):
    """The vector does not have the dimensions of the active model."""

    reason = "DIMENSIONS_MISMATCH"


class ExternalIdTaken(AlreadyExists):
    """Another row of the tenant has this external_id; use another one."""

    reason = "EXTERNAL_ID_TAKEN"


class RevisionStale(Aborted):
    """The row changed since it was read; read it again, then retry."""

    reason = "REVISION_STALE"


class TransactionConflict(Aborted):
    """The database could not order this change among others; retry the call."""

    reason = "TRANSACTION_CONFLICT"
    retry_after = 0.05


class CredentialMissing(Unauthenticated):
    """The call carries no credential; send "authorization: Bearer <key>"."""

    reason = "CREDENTIAL_MISSING"


class CredentialInvalid(Unauthenticated):
    """The credential is damaged, unknown or revoked."""

    reason = "CREDENTIAL_INVALID"


class CredentialExpired(Unauthenticated):
    """The credential has expired; get a new one."""

    reason = "CREDENTIAL_EXPIRED"


class PermissionMissing(PermissionDenied):
    """The credential does not carry the permission that this call needs, which is {permission}."""

    reason = "PERMISSION_MISSING"


class ApprovalRequired(PermissionDenied):
    """The policy lets this caller's memories wait for approval, and this call cannot wait; ask an approver."""

    reason = "APPROVAL_REQUIRED"


class PermissionEscalation(PermissionDenied):
    """A caller can grant only permissions that it has, to a member, a key or a service account."""

    reason = "PERMISSION_ESCALATION"


class AgentBound(PermissionDenied):
    """The credential is bound to the agent {agent_id}: it acts as that agent alone, and not for the whole tenant."""

    reason = "AGENT_BOUND"


class SpacesUnsupported(PermissionDenied):
    """The tenant has spaces, and this call does not keep to them yet, or works in the default space alone."""

    reason = "SPACES_UNSUPPORTED"


class SpaceNotFound(NotFound):
    """No such space, or none that the caller sees."""

    reason = "SPACE_NOT_FOUND"


class SpaceReadOnly(PermissionDenied):
    """The caller may read this space and not write in it."""

    reason = "SPACE_READ_ONLY"


class SpaceMissing(InvalidArgument):
    """The caller sees several spaces; name one for a write in the header skein-space-id (gRPC: metadata)."""

    reason = "SPACE_MISSING"


class SpacesChanged(PermissionDenied):
    """The spaces of the caller have changed since the stream began; open it again."""

    reason = "SPACES_CHANGED"


class AccountRequired(PermissionDenied):
    """Only a logged-in account may do this, not a key or an application."""

    reason = "ACCOUNT_REQUIRED"


class TenantMissing(InvalidArgument):
    """The tenant is missing; operators and accounts send its id in the header skein-tenant-id (gRPC: metadata)."""

    reason = "TENANT_MISSING"


class TenantNotFound(NotFound):
    """No such tenant."""

    reason = "TENANT_NOT_FOUND"


class HistoryNotKept(FailedPrecondition):
    """This cluster keeps no former versions of rows, because its tables are distributed by Citus."""

    reason = "HISTORY_NOT_KEPT"


class TenantNotDeleted(FailedPrecondition):
    """The tenant is not deleted; delete it first."""

    reason = "TENANT_NOT_DELETED"


class ResourceExhausted(RpcError):
    """A limit is reached."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED

    def __init__(self, *, retry_after: float | None = None, **keywords: object) -> None:
        """`retry_after` is the number of seconds until a retry may succeed."""
        super().__init__(violations=(), **keywords)
        if retry_after is not None:
            self.retry_after = retry_after


class QuotaExceeded(ResourceExhausted):
    """The quota is used up; delete something, or ask the operator for more."""

    reason = "QUOTA_EXCEEDED"


class RateLimited(ResourceExhausted):
    """The rate limit is reached; wait as long as RetryInfo says."""

    reason = "RATE_LIMITED"


class NotKnownThen(FailedPrecondition):
    """What was known at that time is not kept; the earliest as_of_time is {earliest_time}."""

    reason = "NOT_KNOWN_THEN"


class JobPaused(FailedPrecondition):
    """This kind of work is paused in the tenant; ResumeJob ends the pause."""

    reason = "JOB_PAUSED"


class JobLimited(ResourceExhausted):
    """The tenant's limit of this kind of work is reached; wait as long as RetryInfo says."""

    reason = "JOB_LIMITED"


class Overloaded(ResourceExhausted):
    """The service is overloaded; wait as long as RetryInfo says, then repeat the call."""

    reason = "OVERLOADED"


class ReadTooCostly(ResourceExhausted):
    """The call reads too much; narrow it by a person, a session, a type, a tag or a time, or use a smaller limit."""

    reason = "READ_TOO_COSTLY"


class DatabaseUnavailable(Unavailable):
    """The database does not answer; try again soon."""

    reason = "DATABASE_UNAVAILABLE"


class DatabaseFull(Unavailable):
    """The disk of the database is full, so it takes no writes; the operator must free space. Reads continue."""

    reason = "DATABASE_FULL"
    # Space does not return by itself.
    retry_after = 5.0


class AgentNotActive(FailedPrecondition):
    """The agent is deleted and accepts nothing new; restore it with UndeleteAgent."""

    reason = "AGENT_NOT_ACTIVE"


class ContentGuardUnavailable(Unavailable):
    """The operator's detector of secrets did not answer, and nothing is stored unsearched; try again soon."""

    reason = "CONTENT_GUARD_UNAVAILABLE"


class AccessLogUnavailable(Unavailable):
    """The tenant requires a record of every access, and the access log failed; try again with the same request_id."""

    reason = "ACCESS_LOG_UNAVAILABLE"


class DatabaseBusy(Unavailable):
    """All database connections are in use; try again soon."""

    reason = "DATABASE_BUSY"


class ServiceUnavailable(Unavailable):
    """A service of the cluster does not answer; try again soon."""

    reason = "SERVICE_UNAVAILABLE"


class DeadlineExceeded(RpcError):
    """The deadline has passed and the work was cancelled; repeat the call with a later deadline."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class MessageTooLarge(RpcError):
    """The message is larger than 4 MiB; send it in parts."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "MESSAGE_TOO_LARGE"


class AnonymousMessageTooLarge(MessageTooLarge):
    """The message is larger than {limit} bytes, the most that is read without a credential."""


class StreamEnded(Unavailable):
    """The service ended this stream; call again and resume where it ended."""

    reason = "STREAM_ENDED"


class TooManyStreams(ResourceExhausted):
    """The tenant has the maximum number of open streams; end one."""

    reason = "TOO_MANY_STREAMS"


class MethodNotFound(RpcError):
    """No such method."""

    code = grpc.StatusCode.UNIMPLEMENTED
    reason = "METHOD_NOT_FOUND"


class ArchiveDamaged(DataLoss):
    """The archive's file is missing or damaged; restore it from a backup of the archive folder."""

    reason = "ARCHIVE_DAMAGED"


class InternalError(RpcError):
    """Skein failed; find the reason in the logs by the request id."""

    code = grpc.StatusCode.INTERNAL
    reason = "INTERNAL"


class UpstreamError(RpcError):
    """An error of another service, passed on unchanged."""

    def __init__(self, status: Status) -> None:
        """`status` is that of the other service."""
        super().__init__()
        self._status = status
        self.message = status.message

    def status(self) -> Status:
        """Return the status of the other service."""
        return self._status


def status_code(status: Status) -> grpc.StatusCode:
    """Return the status code of a status."""
    return CODES[status.code]


def status_of_call(error: aio.AioRpcError) -> Status | None:
    """Return the status with which a service ended a call; None for one that the transport ended."""
    try:
        status: Status | None = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
    except ValueError:
        return None
    return status


def reason_of_call(error: aio.AioRpcError) -> str:
    """Return the reason with which a service ended a call; empty without one."""
    status = status_of_call(error)
    return "" if status is None else status_reason(status)


def status_reason(status: Status) -> str:
    """Return the reason in a status's ErrorInfo; empty without one."""
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            return str(info.reason)
    return ""


CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
