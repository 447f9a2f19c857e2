"""Organizations in the database. Methods that take `tx` work in the caller's transaction, an operator's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein_kit.canary import ORGANIZATION
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.ids import new_id, now
from skein_tenancy.directory.model import DirectoryChange, DirectoryDraft
from skein_tenancy.errors import OrganizationExists, OrganizationNotFound
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import check_revision, require_row


class OrganizationStore:
    """Organizations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_organization(self, tx: Transaction, draft: DirectoryDraft) -> Organization:
        """Create an organization with the first free slug. Raises OrganizationExists."""
        at = now()
        for slug in draft.slugs():
            row = await tx.row(
                QUERIES["create_organization"],
                organization_id=new_id(at),
                display_name=draft.display_name,
                slug=slug,
                metadata=draft.metadata,
                create_time=at,
            )
            if row is not None:
                return Organization(**row)
        raise OrganizationExists

    async def get_organization(self, organization_id: UUID) -> Organization:
        """Raises OrganizationNotFound."""
        async with self._database.operator_transaction() as tx:
            row = await tx.row(QUERIES["get_organization"], organization_id=organization_id)
        return Organization(**require_row(row, OrganizationNotFound))

    async def list_organizations(self, *, before: UUID | None, size: int) -> list[Organization]:
        """Read organizations, newest first, without the canary's."""
        async with self._database.operator_transaction() as tx:
            rows = await tx.rows(
                QUERIES["list_organizations"], canary_organization_id=ORGANIZATION, before=before, size=size
            )
        return [Organization(**row) for row in rows]

    async def update_organization(self, tx: Transaction, change: DirectoryChange) -> Organization:
        """Raises OrganizationNotFound, OrganizationExists and RevisionStale."""
        current = require_row(
            await tx.row(QUERIES["lock_organization"], organization_id=change.row_id), OrganizationNotFound
        )
        check_revision(change.revision, current["revision"])
        with translate_constraint_errors({"organizations_slug_key": OrganizationExists()}):
            row = await tx.row(
                QUERIES["update_organization"],
                organization_id=change.row_id,
                display_name=change.values.get("display_name", current["display_name"]),
                slug=change.values.get("slug", current["slug"]),
                metadata=change.values.get("metadata", current["metadata"]),
                update_time=now(),
            )
        return Organization(**require_row(row))


@dataclass(frozen=True, kw_only=True, slots=True)
class Organization:
    """A group of tenants with one owner."""

    organization_id: UUID
    display_name: str
    slug: str
    # JSON text.
    metadata: str | None
    revision: int
    create_time: datetime
    update_time: datetime
