"""Subjects in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import new_id, now
from skein_tenancy import convert as wire
from skein_tenancy.errors import SubjectDeleted, SubjectExists, SubjectNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import StoreBase, check_revision, require_row
from skein_tenancy.subjects.model import OBJECTS
from skein_tenancy.subjects.properties import properties_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.rpc.row_times import ImportTimes
    from skein_tenancy.subjects import model as subjects

# As many as one question may name, and the statement asks for.
_MATCHES = 5
# Requests whose stored answers show a subject.
_SHOWING = [
    kind.DESCRIPTOR.full_name for kind in (pb.CreateSubjectRequest, pb.UpdateSubjectRequest, pb.UndeleteSubjectRequest)
]


class SubjectStore(StoreBase):
    """The subjects of a tenant. Each is written with the properties that it is found by."""

    async def create_subject(
        self, tenant_id: UUID, draft: subjects.Draft, times: ImportTimes, once: IdempotencyKey, *, created_by: str
    ) -> pb.CreateSubjectResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateSubjectResponse.FromString(first)
            row = await tx.row(
                QUERIES["create_subject"],
                tenant_id=tenant_id,
                subject_id=draft.subject_id or str(new_id(now())),
                create_time=times.create_time,
                update_time=times.update_time,
                created_by=created_by,
                **draft.values,
            )
            if row is None:
                known = await tx.row(QUERIES["subject_delete_time"], tenant_id=tenant_id, subject_id=draft.subject_id)
                raise SubjectExists if known is None or known["delete_time"] is None else SubjectDeleted
            await _put_properties(tx, tenant_id, row["subject_id"], draft.values)
            response = pb.CreateSubjectResponse(subject=wire.subject(row))
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"subjects": 1})
            return response

    async def get_subject(self, tenant_id: UUID, subject_id: str) -> pb.Subject:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["get_subject"], tenant_id=tenant_id, subject_id=subject_id)
        if row is None:
            raise SubjectNotFound
        return wire.subject(row)

    async def list_subjects(
        self, tenant_id: UUID, wanted: subjects.SubjectFilter, *, after: str, size: int
    ) -> list[pb.Subject]:
        """Read subjects whose ids come after `after`; the empty text comes before all."""
        page: dict[str, object] = {
            "tenant_id": tenant_id,
            "status": wanted.status,
            "show_deleted": wanted.show_deleted,
            "after": after,
            "size": size,
        }
        query = QUERIES["list_subjects"]
        if wanted.properties:
            query = QUERIES["list_subjects_with_properties"]
            page |= property_parameters(wanted)
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(query, **page)
        return [wire.subject(row) for row in rows]

    async def update_subject(
        self, tenant_id: UUID, change: subjects.Change, once: IdempotencyKey, *, updated_by: str
    ) -> pb.UpdateSubjectResponse:
        query = QUERIES["update_subject"]
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdateSubjectResponse.FromString(first)
            current = await tx.row(QUERIES["lock_subject"], tenant_id=tenant_id, subject_id=change.subject_id)
            if current is None or current["delete_time"] is not None:
                raise SubjectNotFound
            check_revision(change.revision, current)
            values = {
                "tenant_id": tenant_id,
                **current,
                **change.values,
                "updated_by": updated_by,
                "update_time": now(),
            }
            row = await tx.row(query, **{name: values[name] for name in query.parameters})
            if not change.values.keys().isdisjoint(OBJECTS):
                await tx.execute(
                    QUERIES["delete_subject_properties"], tenant_id=tenant_id, subject_id=change.subject_id
                )
                await _put_properties(tx, tenant_id, change.subject_id, values)
            response = pb.UpdateSubjectResponse(subject=wire.subject(require_row(row)))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def delete_subject(
        self, tenant_id: UUID, subject_id: str, once: IdempotencyKey, *, deleted_by: str
    ) -> pb.DeleteSubjectResponse:
        """Mark a subject as deleted; its properties stay for the day that it is brought back."""
        named, response = {"tenant_id": tenant_id, "subject_id": subject_id}, pb.DeleteSubjectResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.DeleteSubjectResponse.FromString(first)
            if not await tx.execute(QUERIES["delete_subject"], **named, delete_time=now(), deleted_by=deleted_by):
                raise SubjectNotFound
            await self._answer(tx, tenant_id, once, response)
            await self._quotas.charge(tx, tenant_id, {"subjects": -1})
        return response

    async def undelete_subject(
        self, tenant_id: UUID, subject_id: str, once: IdempotencyKey, *, updated_by: str
    ) -> pb.UndeleteSubjectResponse:
        """Bring a deleted subject back; one that is not deleted stays as it is."""
        named = {"tenant_id": tenant_id, "subject_id": subject_id}
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UndeleteSubjectResponse.FromString(first)
            row = await tx.row(QUERIES["lock_subject"], **named)
            if row is None:
                raise SubjectNotFound
            if row["delete_time"] is not None:
                row = require_row(
                    await tx.row(QUERIES["undelete_subject"], **named, update_time=now(), updated_by=updated_by)
                )
                await self._quotas.charge(tx, tenant_id, {"subjects": 1})
            response = pb.UndeleteSubjectResponse(subject=wire.subject(row))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def purge_subject(self, tenant_id: UUID, subject_id: str, once: IdempotencyKey) -> pb.PurgeSubjectResponse:
        """Remove a subject for good, deleted or not, and what stored answers show of it."""
        named, response = {"tenant_id": tenant_id, "subject_id": subject_id}, pb.PurgeSubjectResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.PurgeSubjectResponse.FromString(first)
            row = await tx.row(QUERIES["lock_subject"], **named)
            if row is None:
                raise SubjectNotFound
            await tx.execute(QUERIES["purge_subject"], **named)
            await tx.execute(
                QUERIES["empty_subject_answers"],
                tenant_id=tenant_id,
                since_time=now() - LIFETIME,
                methods=_SHOWING,
                # As an answer begins to name a subject.
                name=pb.Subject(subject_id=subject_id).SerializeToString(),
            )
            await self._answer(tx, tenant_id, once, response)
            if row["delete_time"] is None:
                await self._quotas.charge(tx, tenant_id, {"subjects": -1})
        return response


def property_parameters(wanted: subjects.SubjectFilter) -> dict[str, object]:
    """Return the statement's places for properties: those wanted, the last of them repeated."""
    given = [*wanted.properties, *[wanted.properties[-1]] * (_MATCHES - len(wanted.properties))]
    places: dict[str, object] = {}
    for number, (path, value) in enumerate(given, 1):
        places |= {f"path_{number}": path, f"value_{number}": value}
    return places


async def _put_properties(tx: Transaction, tenant_id: UUID, subject_id: str, values: Mapping[str, object]) -> None:
    found = properties_of({name: cast("str | None", values[name]) for name in OBJECTS})
    rows = [{"path": path, "value": value, "subject_id": subject_id} for path, value in sorted(found)]
    await tx.insert(QUERIES["insert_subject_properties"], tenant_id, rows)
