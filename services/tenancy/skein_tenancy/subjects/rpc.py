"""The RPCs of subjects: parse, one call, reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PageTokenInvalid
from skein_kit.filters.json_properties import parse_matches
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now, parse_id
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc import pagination, well_known_types
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.rows import RowChange, RowDraft
from skein_tenancy.subjects.model import OBJECTS, Subject, SubjectFilter, parse_timezone
from skein_tenancy.subjects.store import SubjectStore

_UPDATABLE = ("display_name", "status", "timezone", *OBJECTS, "account_id")
_STATUS_PREFIX = "SUBJECT_STATUS_"
# Requests whose saved responses contain a subject.
METHODS_WITH_SUBJECT = [
    kind.DESCRIPTOR.full_name for kind in (pb.CreateSubjectRequest, pb.UpdateSubjectRequest, pb.UndeleteSubjectRequest)
]


class SubjectHandlers:
    """Subjects of a tenant."""

    def __init__(self, store: SubjectStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateSubject(self, request: pb.CreateSubjectRequest, context: Context) -> pb.CreateSubjectResponse:
        caller = caller_of(context)
        draft = read_draft(request.subject)
        times = ImportTimes.read(request.subject, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            subject = await self._store.create_subject(
                write.tx, caller.require_tenant(), draft, times, created_by=caller.principal
            )
            return await write.save(pb.CreateSubjectResponse(subject=subject_message(subject)))

    async def GetSubject(self, request: pb.GetSubjectRequest, context: Context) -> pb.GetSubjectResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        if request.revision:
            subject = await self._store.get_subject_revision(tenant_id, request.subject_id, request.revision)
        elif as_of_time is None:
            subject = await self._store.get_subject(tenant_id, request.subject_id)
        else:
            subject = await self._store.get_subject_as_of(tenant_id, request.subject_id, as_of_time, at=at)
        return pb.GetSubjectResponse(subject=subject_message(subject))

    async def ListSubjects(self, request: pb.ListSubjectsRequest, context: Context) -> pb.ListSubjectsResponse:
        tenant_id, subject_filter = caller_of(context).require_tenant(), read_filter(request)
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_subjects(tenant_id, subject_filter, after=_position(position), size=size + 1)
        page, token = pagination.fit_rows(
            rows,
            subject_message,
            lambda subject: [subject.subject_id, str(subject.space_id)],
            request,
            tenant_id,
            size=size,
        )
        return pb.ListSubjectsResponse(subjects=page, next_page_token=token)

    async def UpdateSubject(self, request: pb.UpdateSubjectRequest, context: Context) -> pb.UpdateSubjectResponse:
        caller = caller_of(context)
        change = read_change(request.subject, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            subject = await self._store.update_subject(
                write.tx, caller.require_tenant(), change, updated_by=caller.principal
            )
            return await write.save(pb.UpdateSubjectResponse(subject=subject_message(subject)))

    async def DeleteSubject(self, request: pb.DeleteSubjectRequest, context: Context) -> pb.DeleteSubjectResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_subject(
                write.tx, caller.require_tenant(), request.subject_id, deleted_by=caller.principal
            )
        return pb.DeleteSubjectResponse()

    async def UndeleteSubject(self, request: pb.UndeleteSubjectRequest, context: Context) -> pb.UndeleteSubjectResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            subject = await self._store.undelete_subject(
                write.tx, caller.require_tenant(), request.subject_id, updated_by=caller.principal
            )
            return await write.save(pb.UndeleteSubjectResponse(subject=subject_message(subject)))

    async def PurgeSubject(self, request: pb.PurgeSubjectRequest, context: Context) -> pb.PurgeSubjectResponse:
        caller, subject_id = caller_of(context), request.subject_id
        async with self._idempotency.begin(caller, request) as write:
            await self._store.purge_subject(write.tx, caller.require_tenant(), subject_id)
            await self._store.clear_responses(
                write.tx,
                caller.require_tenant(),
                methods=METHODS_WITH_SUBJECT,
                prefix=subject_prefix(subject_id),
            )
        return pb.PurgeSubjectResponse()


def _position(token: Sequence[str] | None) -> tuple[str, UUID]:
    """Return the id and the space of the last subject of the page before. Raises PageTokenInvalid."""
    if token is None:
        return "", DEFAULT_SPACE
    space_id = parse_id(token[-1])
    if len(token) != 2 or space_id is None:  # noqa: PLR2004 - an id and its space.
        raise PageTokenInvalid
    return token[0], space_id


def subject_message(value: Subject) -> pb.Subject:
    return well_known_types.to_message(pb.Subject, value, writers=value.writers.names)


def subject_prefix(subject_id: str) -> bytes:
    """Return the bytes with which the subject begins inside a saved response."""
    return pb.Subject(subject_id=subject_id).SerializeToString()


def read_draft(message: pb.Subject) -> RowDraft:
    return RowDraft(row_id=message.subject_id, values=_values(message, _UPDATABLE))


def read_change(message: pb.Subject, mask: FieldMask) -> RowChange:
    """Read the fields that the mask names, or all when it is empty."""
    updated_names = well_known_types.updated_fields(mask, _UPDATABLE)
    return RowChange(row_id=message.subject_id, revision=message.revision, values=_values(message, updated_names))


def read_filter(request: pb.ListSubjectsRequest) -> SubjectFilter:
    return SubjectFilter(
        properties=parse_matches(request.properties),
        status=_status_name(request.status) if request.status else None,
        show_deleted=request.show_deleted,
    )


def _values(message: pb.Subject, names: Iterable[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        if name in OBJECTS:
            values[name] = well_known_types.json_text(message, name)
        elif name == "status":
            values[name] = _status_name(message.status or pb.SUBJECT_STATUS_ACTIVE)
        elif name == "timezone":
            values[name] = parse_timezone(message.timezone)
        elif name == "account_id":
            values[name] = UUID(message.account_id) if message.account_id else None
        else:
            values[name] = message.display_name
    return values


def _status_name(value: pb.SubjectStatus) -> str:
    return pb.SubjectStatus.Name(value).removeprefix(_STATUS_PREFIX).lower()
