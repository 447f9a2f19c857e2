"""Subjects in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import asyncpg

from skein_kit.audit_log.writer import target_of
from skein_kit.calls.call import Call
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.named_queries import Query, as_of
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import FieldInvalid
from skein_kit.filters.json_properties import Property
from skein_kit.policies.history import check_history
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.text.writers import Writers
from skein_tenancy.errors import SubjectDeleted, SubjectExists, SubjectNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import Resource, RowChange, RowDraft, RowStore, require_row
from skein_tenancy.subjects.model import OBJECTS, STATED_FIELDS, Subject, SubjectFilter, properties_of, writers_after

# All are kept until the purge, which clears them from recorded queries.
_TOO_MANY_NAMES = {
    "subjects_former_names_count": FieldInvalid(
        violations=[("subject.display_name", "would be one more than the hundred former names that a subject may have")]
    )
}
# Properties in list_subjects_with_properties; a request names no more.
_PROPERTY_CONDITIONS = 5


SUBJECT = Resource(
    noun="subject",
    of_record=Subject.of_row,
    not_found=SubjectNotFound,
    exists=SubjectExists,
    deleted=SubjectDeleted,
    violations=_TOO_MANY_NAMES,
)


class SubjectStore(RowStore[Subject]):
    """Subjects of a tenant, written together with their properties."""

    def __init__(self, database: Database, quota_counter: QuotaCounter) -> None:
        super().__init__(SUBJECT, database, quota_counter)

    async def create(
        self, tx: Transaction, tenant_id: UUID, draft: RowDraft, times: ImportTimes, *, created_by: str
    ) -> Subject:
        """Raises SubjectExists, SubjectDeleted, FieldInvalid for too many properties, and QuotaExceeded."""
        subject = await super().create(tx, tenant_id, draft, times, created_by=created_by)
        await _insert_properties(tx, tenant_id, subject.subject_id, draft.values)
        return subject

    async def locate(self, request: Any, call: Call) -> None:
        """Narrow a read that names a subject to the subject's space: several spaces may have the id."""
        subject_id = getattr(request, "subject_id", "")
        if not subject_id:
            return
        tenant_id = caller_of(call).require_tenant()
        async with self._database.transaction(tenant_id, TxOptions(read_only=True)) as tx:
            space_id = await tx.value(QUERIES["space_of_subject"], tenant_id=tenant_id, subject_id=subject_id)
        if space_id is not None:
            call.narrow_to(space_id)

    async def get(self, tenant_id: UUID, row_id: str) -> Subject:
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_subject"], tenant_id=tenant_id, subject_id=row_id)
            return await _read(tx, tenant_id, row, QUERIES["read_subject_trust"])

    async def get_subject_revision(self, tenant_id: UUID, subject_id: str, revision: int) -> Subject:
        """Read one revision of a subject. Raises SubjectNotFound."""
        async with self._database.transaction(tenant_id, TxOptions(read_only=True, skip_replica=True)) as tx:
            row = await tx.row(
                QUERIES["get_subject_revision"], tenant_id=tenant_id, subject_id=subject_id, revision=revision
            )
            return await _read(tx, tenant_id, row, QUERIES["read_subject_trust"])

    async def get_subject_as_of(
        self, tenant_id: UUID, subject_id: str, as_of_time: datetime, *, at: datetime
    ) -> Subject:
        """Read a subject as it was at a time, asked at `at`. Raises NotKnownThen, HistoryNotKept, SubjectNotFound."""
        options = TxOptions(read_only=True, as_of_time=as_of_time)
        async with self._database.transaction(tenant_id, options) as tx:
            await check_history(tx, tenant_id, as_of_time, at=at)
            row = await tx.row(as_of(QUERIES["get_subject"]), tenant_id=tenant_id, subject_id=subject_id)
            query = as_of(QUERIES["read_subject_trust"])
            return await _read(tx, tenant_id, row, query)

    async def list_subjects(
        self, tenant_id: UUID, subject_filter: SubjectFilter, *, after: tuple[str, UUID], size: int
    ) -> list[Subject]:
        """Read subjects in order of their ids and spaces, from after these; the empty id comes first."""
        after_id, after_space_id = after
        page: dict[str, object] = {
            "tenant_id": tenant_id,
            "status": subject_filter.status,
            "show_deleted": subject_filter.show_deleted,
            "after": after_id,
            "after_space_id": after_space_id,
            "size": size,
        }
        query = QUERIES["list_subjects"]
        if subject_filter.properties:
            query = QUERIES["list_subjects_with_properties"]
            page |= property_parameters(subject_filter.properties)
        async with self._database.transaction(tenant_id) as tx:
            return await _with_trust(tx, tenant_id, await tx.rows(query, **page), QUERIES["read_subject_trust"])

    async def update(self, tx: Transaction, tenant_id: UUID, change: RowChange, *, updated_by: str) -> Subject:
        """Raises RevisionStale, and FieldInvalid for too many properties or former names."""
        subject = await super().update(tx, tenant_id, change, updated_by=updated_by)
        if not change.values.keys().isdisjoint(OBJECTS):
            await tx.execute(QUERIES["delete_subject_properties"], **self._key(tenant_id, change.row_id))
            values = {name: getattr(subject, name) for name in OBJECTS} | dict(change.values)
            await _insert_properties(tx, tenant_id, change.row_id, values)
        return subject

    def _derived(self, current: asyncpg.Record | None, values: Mapping[str, object], *, by: str) -> dict[str, object]:
        """Return the writers: to create a subject or bring it back states all of its fields."""
        if current is None:
            return {"writers": Writers.of(STATED_FIELDS, by).text}
        if current["delete_time"] is not None:
            return {"writers": Writers.read(current["writers"]).joined(Writers.of(STATED_FIELDS, by)).text}
        return {"writers": writers_after(current, values, by=by).text}

    async def _purge(self, tx: Transaction, tenant_id: UUID, row_id: str, *, by: str) -> None:
        await tx.stop_history()
        await super()._purge(tx, tenant_id, row_id, by=by)
        await tx.execute(QUERIES["purge_subject_history"], **self._key(tenant_id, row_id))
        await tx.execute(QUERIES["clear_subject_events"], tenant_id=tenant_id, target=target_of("subject", row_id))


def property_parameters(properties: Sequence[Property]) -> dict[str, object]:
    """Return the parameters of list_subjects_with_properties; the last property fills the rest."""
    padding = [properties[-1]] * (_PROPERTY_CONDITIONS - len(properties))
    parameters: dict[str, object] = {}
    for number, (path, value) in enumerate([*properties, *padding], 1):
        parameters |= {f"path_{number}": path, f"value_{number}": value}
    return parameters


async def _read(tx: Transaction, tenant_id: UUID, row: asyncpg.Record | None, query: Query) -> Subject:
    """Return the subject of a row with the trust in its writers. Raises SubjectNotFound."""
    (subject,) = await _with_trust(tx, tenant_id, [require_row(row, SubjectNotFound)], query)
    return subject


async def _with_trust(tx: Transaction, tenant_id: UUID, rows: Sequence[asyncpg.Record], query: Query) -> list[Subject]:
    """Return the subjects of rows with the trust in their writers, which the query reads."""
    subjects = [Subject.of_row(row) for row in rows]
    keys = sorted({key for subject in subjects for key in subject.writers.keys})
    if not keys:
        return subjects
    ratings = {row["source_key"]: row["trust"] for row in await tx.rows(query, tenant_id=tenant_id, source_keys=keys)}
    return [replace(subject, trust=subject.writers.trust(ratings)) for subject in subjects] if ratings else subjects


async def _insert_properties(tx: Transaction, tenant_id: UUID, subject_id: str, values: Mapping[str, object]) -> None:
    properties = properties_of({name: cast("str | None", values[name]) for name in OBJECTS})
    rows = [{"path": path, "value": value, "subject_id": subject_id} for path, value in sorted(properties)]
    await tx.insert(QUERIES["insert_subject_properties"], tenant_id, rows)
