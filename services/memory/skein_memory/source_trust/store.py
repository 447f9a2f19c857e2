"""Trust in sources, in the database."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import TransactionConflict
from skein_memory.errors import SourceTrustNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.events.writer import Revision
from skein_memory.lineage import store as lineage
from skein_memory.queries import QUERIES
from skein_memory.source_trust.model import SourceTrust, TrustDraft

_KIND = "source_trust"


class SourceTrustStore:
    """Reads and writes how far sources are trusted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set_source_trust(
        self, tx: Transaction, tenant_id: UUID, draft: TrustDraft, *, at: datetime, by: str
    ) -> SourceTrust:
        """Store the trust in a source, and its revision before."""
        before = await _lock(tx, tenant_id, draft.source_key)
        if before is None:
            last = await writer.last_revision(tx, tenant_id, _KIND, SourceTrust.id_of(draft.source_key))
            after = draft.to_source_trust(None, last, at=at, by=by)
            if not await tx.execute(QUERIES["insert_source_trust"], tenant_id=tenant_id, **asdict(after)):
                # Another transaction has just inserted the first row of this source.
                raise TransactionConflict
        else:
            after = draft.to_source_trust(before, 0, at=at, by=by)
            await writer.insert_revisions(tx, tenant_id, [revision_of(before, at)])
            await tx.execute(
                QUERIES["update_source_trust"],
                tenant_id=tenant_id,
                source_key=after.source_key,
                trust=after.trust,
                notes=after.notes,
                revision=after.revision,
                update_time=after.update_time,
                updated_by=by,
            )
        await writer.insert_events(tx, tenant_id, [_event(after, "set")], at=at, by=by)
        await lineage.note_rating(tx, tenant_id, after.source_key)
        return after

    async def get_source_trust(self, tenant_id: UUID, key: str) -> SourceTrust:
        """Read the trust in a source. Raises SourceTrustNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_source_trust"], tenant_id=tenant_id, source_key=key)
        if row is None:
            raise SourceTrustNotFound
        return SourceTrust(**dict(row))

    async def list_source_trust(self, tenant_id: UUID, *, after: str, count: int) -> list[SourceTrust]:
        """Read the trust in up to `count` sources, in the order of their keys, after the key `after`."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_source_trust"], tenant_id=tenant_id, after=after, count=count)
        return [SourceTrust(**dict(row)) for row in rows]

    async def delete_source_trust(self, tx: Transaction, tenant_id: UUID, key: str, *, at: datetime, by: str) -> None:
        """Delete the trust in a source. Raises SourceTrustNotFound."""
        before = await _lock(tx, tenant_id, key)
        if before is None:
            raise SourceTrustNotFound
        await writer.insert_revisions(tx, tenant_id, [revision_of(before, at)])
        await tx.execute(QUERIES["delete_source_trust"], tenant_id=tenant_id, source_key=key)
        await writer.insert_events(tx, tenant_id, [_event(before, "removed")], at=at, by=by)
        await lineage.note_rating(tx, tenant_id, key)


async def _lock(tx: Transaction, tenant_id: UUID, key: str) -> SourceTrust | None:
    row = await tx.row(QUERIES["lock_source_trust"], tenant_id=tenant_id, source_key=key)
    return None if row is None else SourceTrust(**dict(row))


def revision_of(before: SourceTrust, until: datetime) -> Revision:
    """Return the revision that is stored when the trust changes or is deleted."""
    state = {"source_key": before.source_key, "trust": before.trust, "notes": before.notes}
    return Revision(
        kind=_KIND,
        item_id=before.source_trust_id,
        revision=before.revision,
        state=json.dumps(state, ensure_ascii=False, separators=(",", ":")),
        from_time=before.update_time,
        until_time=until,
        changed_by=before.updated_by,
    )


def _event(trust: SourceTrust, action: str) -> Event:
    return Event(
        type="memory_source_trust_set",
        entity_type=_KIND,
        entity_id=trust.source_trust_id,
        summary=f"source trust {action}",
        payload={"revision": trust.revision, "removed": action == "removed"},
    )
