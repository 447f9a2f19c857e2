"""The RPCs that concern subjects: parse, one call, reply."""

from __future__ import annotations

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.rpc_base import Rpcs
from skein_tenancy.subjects import model as subjects


class SubjectRpcs(Rpcs):
    """The subjects of a tenant."""

    async def CreateSubject(self, request: pb.CreateSubjectRequest, context: Context) -> pb.CreateSubjectResponse:
        who = caller(context)
        draft = subjects.Draft.of(request.subject)
        times = ImportTimes.of(request.subject, who, now(), keep_times=request.keep_times)
        return await self._parts.subjects.create_subject(
            who.tenant(), draft, times, IdempotencyKey.of(who, request), created_by=who.principal
        )

    async def GetSubject(self, request: pb.GetSubjectRequest, context: Context) -> pb.GetSubjectResponse:
        subject = await self._parts.subjects.get_subject(caller(context).tenant(), request.subject_id)
        return pb.GetSubjectResponse(subject=subject)

    async def ListSubjects(self, request: pb.ListSubjectsRequest, context: Context) -> pb.ListSubjectsResponse:
        tenant_id, wanted = caller(context).tenant(), subjects.SubjectFilter.of(request)
        size = pagination.resolve_page_size(request.page_size)
        place = pagination.read_token(request.page_token, tenant_id, request)
        after = place[0] if place else ""
        found = await self._parts.subjects.list_subjects(tenant_id, wanted, after=after, size=size + 1)
        page = pagination.fit_items(found[:size])
        response = pb.ListSubjectsResponse(subjects=page)
        if len(found) > len(page):
            response.next_page_token = pagination.write_token([page[-1].subject_id], tenant_id, request)
        return response

    async def UpdateSubject(self, request: pb.UpdateSubjectRequest, context: Context) -> pb.UpdateSubjectResponse:
        who = caller(context)
        change = subjects.Change.of(request.subject, request.update_mask)
        return await self._parts.subjects.update_subject(
            who.tenant(), change, IdempotencyKey.of(who, request), updated_by=who.principal
        )

    async def DeleteSubject(self, request: pb.DeleteSubjectRequest, context: Context) -> pb.DeleteSubjectResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.subjects.delete_subject(
            who.tenant(), request.subject_id, once, deleted_by=who.principal
        )

    async def UndeleteSubject(self, request: pb.UndeleteSubjectRequest, context: Context) -> pb.UndeleteSubjectResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.subjects.undelete_subject(
            who.tenant(), request.subject_id, once, updated_by=who.principal
        )

    async def PurgeSubject(self, request: pb.PurgeSubjectRequest, context: Context) -> pb.PurgeSubjectResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.subjects.purge_subject(who.tenant(), request.subject_id, once)
