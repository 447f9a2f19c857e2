"""The RPCs of subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

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
from skein_tenancy.row_handlers import RowHandlers
from skein_tenancy.subjects.model import OBJECTS, Subject, SubjectFilter, parse_timezone
from skein_tenancy.subjects.store import SubjectStore

_STATUS_PREFIX = "SUBJECT_STATUS_"


class SubjectHandlers(RowHandlers[Subject]):
    """Subjects of a tenant."""

    noun, message = "subject", pb.Subject
    updatable = ("display_name", "status", "timezone", *OBJECTS, "account_id")

    def __init__(self, store: SubjectStore, idempotency: IdempotencyStore) -> None:
        super().__init__(store, idempotency)
        self._store = store

    async def values(self, message: pb.Subject, names: Iterable[str]) -> dict[str, object]:
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

    def to_message(self, row: Subject) -> pb.Subject:
        return well_known_types.to_message(pb.Subject, row, writers=row.writers.names)

    async def CreateSubject(self, request: pb.CreateSubjectRequest, context: Context) -> pb.CreateSubjectResponse:
        return await self.create(request, context, pb.CreateSubjectResponse)

    async def GetSubject(self, request: pb.GetSubjectRequest, context: Context) -> pb.GetSubjectResponse:
        at, tenant_id = now(), caller_of(context).require_tenant()
        as_of_time = read_as_of_time(request, at=at)
        if request.revision:
            subject = await self._store.get_subject_revision(tenant_id, request.subject_id, request.revision)
        elif as_of_time is None:
            subject = await self._store.get(tenant_id, request.subject_id)
        else:
            subject = await self._store.get_subject_as_of(tenant_id, request.subject_id, as_of_time, at=at)
        return pb.GetSubjectResponse(subject=self.to_message(subject))

    async def ListSubjects(self, request: pb.ListSubjectsRequest, context: Context) -> pb.ListSubjectsResponse:
        tenant_id, subject_filter = caller_of(context).require_tenant(), read_filter(request)
        after = _position(pagination.read_token(request.page_token, tenant_id, request))
        size = pagination.resolve_page_size(request.page_size) + 1
        rows = await self._store.list_subjects(tenant_id, subject_filter, after=after, size=size)
        return self.page(
            request,
            tenant_id,
            rows,
            pb.ListSubjectsResponse,
            position=lambda subject: [subject.subject_id, str(subject.space_id)],
        )

    async def UpdateSubject(self, request: pb.UpdateSubjectRequest, context: Context) -> pb.UpdateSubjectResponse:
        return await self.update(request, context, pb.UpdateSubjectResponse)

    async def DeleteSubject(self, request: pb.DeleteSubjectRequest, context: Context) -> pb.DeleteSubjectResponse:
        return await self.delete(request, context, pb.DeleteSubjectResponse)

    async def UndeleteSubject(self, request: pb.UndeleteSubjectRequest, context: Context) -> pb.UndeleteSubjectResponse:
        return await self.undelete(request, context, pb.UndeleteSubjectResponse)

    async def PurgeSubject(self, request: pb.PurgeSubjectRequest, context: Context) -> pb.PurgeSubjectResponse:
        saved_by = (pb.CreateSubjectRequest, pb.UpdateSubjectRequest, pb.UndeleteSubjectRequest)
        return await self.purge(request, context, pb.PurgeSubjectResponse, saved_by=saved_by)


def _position(token: Sequence[str] | None) -> tuple[str, UUID]:
    """Return the id and the space of the last subject of the page before. Raises PageTokenInvalid."""
    if token is None:
        return "", DEFAULT_SPACE
    space_id = parse_id(token[-1])
    if len(token) != 2 or space_id is None:  # noqa: PLR2004 - an id and its space.
        raise PageTokenInvalid
    return token[0], space_id


def read_filter(request: pb.ListSubjectsRequest) -> SubjectFilter:
    return SubjectFilter(
        properties=parse_matches(request.properties),
        status=_status_name(request.status) if request.status else None,
        show_deleted=request.show_deleted,
    )


def _status_name(value: pb.SubjectStatus) -> str:
    return pb.SubjectStatus.Name(value).removeprefix(_STATUS_PREFIX).lower()
