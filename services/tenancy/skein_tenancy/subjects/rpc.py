"""The RPCs of subjects: parse, one call, reply."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import PageTokenInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now, parse_id
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc import pagination
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.subjects import convert
from skein_tenancy.subjects.store import SubjectStore


class SubjectHandlers:
    """Subjects of a tenant."""

    def __init__(self, store: SubjectStore, idempotency: IdempotencyStore) -> None:
        self._store = store
        self._idempotency = idempotency

    async def CreateSubject(self, request: pb.CreateSubjectRequest, context: Context) -> pb.CreateSubjectResponse:
        caller = caller_of(context)
        draft = convert.draft(request.subject)
        times = ImportTimes.read(request.subject, caller, now(), keep_times=request.keep_times)
        async with self._idempotency.begin(caller, request) as write:
            subject = await self._store.create_subject(
                write.tx, caller.require_tenant(), draft, times, created_by=caller.principal
            )
            return await write.save(pb.CreateSubjectResponse(subject=convert.subject(subject)))

    async def GetSubject(self, request: pb.GetSubjectRequest, context: Context) -> pb.GetSubjectResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        if request.revision:
            subject = await self._store.get_subject_revision(tenant_id, request.subject_id, request.revision)
        elif as_of_time is None:
            subject = await self._store.get_subject(tenant_id, request.subject_id)
        else:
            subject = await self._store.get_subject_as_of(tenant_id, request.subject_id, as_of_time, at=at)
        return pb.GetSubjectResponse(subject=convert.subject(subject))

    async def ListSubjects(self, request: pb.ListSubjectsRequest, context: Context) -> pb.ListSubjectsResponse:
        tenant_id, subject_filter = caller_of(context).require_tenant(), convert.subject_filter(request)
        size = pagination.resolve_page_size(request.page_size)
        position = pagination.read_token(request.page_token, tenant_id, request)
        rows = await self._store.list_subjects(tenant_id, subject_filter, after=_position(position), size=size + 1)
        page, token = pagination.fit_rows(
            rows,
            convert.subject,
            lambda subject: [subject.subject_id, str(subject.space_id)],
            request,
            tenant_id,
            size=size,
        )
        return pb.ListSubjectsResponse(subjects=page, next_page_token=token)

    async def UpdateSubject(self, request: pb.UpdateSubjectRequest, context: Context) -> pb.UpdateSubjectResponse:
        caller = caller_of(context)
        change = convert.change(request.subject, request.update_mask)
        async with self._idempotency.begin(caller, request) as write:
            subject = await self._store.update_subject(
                write.tx, caller.require_tenant(), change, updated_by=caller.principal
            )
            return await write.save(pb.UpdateSubjectResponse(subject=convert.subject(subject)))

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
            return await write.save(pb.UndeleteSubjectResponse(subject=convert.subject(subject)))

    async def PurgeSubject(self, request: pb.PurgeSubjectRequest, context: Context) -> pb.PurgeSubjectResponse:
        caller, subject_id = caller_of(context), request.subject_id
        async with self._idempotency.begin(caller, request) as write:
            await self._store.purge_subject(write.tx, caller.require_tenant(), subject_id)
            await self._store.clear_responses(
                write.tx,
                caller.require_tenant(),
                methods=convert.METHODS_WITH_SUBJECT,
                prefix=convert.subject_prefix(subject_id),
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
