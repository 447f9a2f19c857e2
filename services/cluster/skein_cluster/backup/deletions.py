"""What was purged, deleted for good or revoked, as a database knows it, and what of that another state of it does not.

Purges leave salted digests, so this holds no content and no name: a name is known again when its digest is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    Connection = asyncpg.Connection[Any]

SERVICES = ("memory", "session")


@dataclass(frozen=True, slots=True)
class RevocableTable:
    """A table that says who may come in, and how it says that somebody may no more."""

    table: str
    # Names the row.
    column: str
    # Of a row that is closed, and when that was; closed.time is when it was closed elsewhere.
    is_closed: str = "revoke_time IS NOT NULL"
    time: str = "revoke_time"
    close: str = "revoke_time = closed.time"
    # What a closed row is found by where it is still open.
    is_open: str = "revoke_time IS NULL"


REVOCABLE_TABLES = (
    RevocableTable("auth.api_keys", "api_key_id"),
    RevocableTable("auth.operator_keys", "api_key_id"),
    RevocableTable("auth.sign_ins", "sign_in_id"),
    # All grants of an application from before the time, so a later time closes more.
    RevocableTable("auth.clients", "client_id", is_open="(revoke_time IS NULL OR revoke_time < closed.time)"),
    RevocableTable("tenancy.invitations", "invitation_id"),
    RevocableTable(
        "auth.accounts",
        "account_id",
        is_closed="status = 'deactivated'",
        time="update_time",
        close="status = 'deactivated', revision = revision + 1, update_time = closed.time",
        is_open="status <> 'deactivated'",
    ),
    RevocableTable(
        "auth.service_accounts",
        "service_account_id",
        is_closed="disabled",
        time="update_time",
        close="disabled = true, revision = revision + 1, update_time = closed.time",
        is_open="NOT disabled",
    ),
)
# A deletion in its grace can be undone, so it is none yet.
_DELETIONS = "SELECT * FROM tenancy.deletions WHERE state IN ('purging', 'done')"
_ACCOUNTS = """
    SELECT DISTINCT account_id FROM auth.audit_events AS event
    WHERE event = 'account_deleted' AND outcome = 'success' AND account_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM auth.accounts WHERE accounts.account_id = event.account_id)
"""

# The audit names them, as nothing else does once they are gone.
_SERVICE_ACCOUNTS = """
    SELECT DISTINCT target FROM auth.audit_events
    WHERE event = 'service_account_deleted' AND outcome = 'success' AND target LIKE 'service_account:%'
"""

_SUBJECTS = "SELECT tenant_id, subject_id FROM tenancy.tenants LEFT JOIN tenancy.subjects USING (tenant_id)"

Digests = dict[tuple["UUID", bytes], "datetime"]


@dataclass(slots=True)
class Deletions:
    """What a state of the database knows."""

    # Salts of tenants, by service.
    salts: Mapping[str, dict[UUID, bytes]] = field(default_factory=lambda: {service: {} for service in SERVICES})
    # When what was purged, by tenant and digest, by service.
    digests: Mapping[str, Digests] = field(default_factory=lambda: {service: {} for service in SERVICES})
    # The row of each tenant's deletion that cannot be undone.
    tenants: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    accounts: set[UUID] = field(default_factory=set)
    service_accounts: set[str] = field(default_factory=set)
    # People whom the directory of a tenant knows, for every tenant.
    subjects: dict[UUID, set[str]] = field(default_factory=dict)
    # When who was kept out, by table and name.
    closed: Mapping[str, dict[str, datetime]] = field(
        default_factory=lambda: {access.table: {} for access in REVOCABLE_TABLES}
    )
    # Up to when it is known; None where nothing tells.
    until: datetime | None = None

    def add(self, other: Deletions) -> None:
        """Know what another state knows as well. A person is in a directory only if both have them."""
        for service in SERVICES:
            self.salts[service].update(other.salts[service])
            mine = self.digests[service]
            for key, time in other.digests[service].items():
                mine[key] = max(time, mine.get(key, time))
        self.tenants.update(other.tenants)
        self.accounts.update(other.accounts)
        self.service_accounts.update(other.service_accounts)
        for tenant_id, subjects in other.subjects.items():
            self.subjects[tenant_id] = self.subjects.get(tenant_id, subjects) & subjects
        for table, closed in other.closed.items():
            for name, time in closed.items():
                self.closed[table][name] = max(time, self.closed[table].get(name, time))
        self.until = max(filter(None, (self.until, other.until)), default=None)

    def since(self, before: Deletions) -> NewTombstones:
        """Return what an earlier state does not know."""
        new_tombstones: dict[str, dict[UUID, set[bytes]]] = {service: {} for service in SERVICES}
        for service, digests in self.digests.items():
            known = before.digests[service]
            for key, time in digests.items():
                if key not in known or known[key] < time:
                    new_tombstones[service].setdefault(key[0], set()).add(key[1])
        return NewTombstones(digests=new_tombstones, salts=self.salts)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTombstones:
    """Digests that one state knows and an earlier one does not, by service and tenant."""

    digests: Mapping[str, Mapping[UUID, set[bytes]]]
    salts: Mapping[str, Mapping[UUID, bytes]]

    def tenants(self, service: str) -> Iterator[tuple[UUID, bytes, set[bytes]]]:
        """Yield each tenant of which a service purged something, with its salt and the digests."""
        for tenant_id, digests in self.digests[service].items():
            yield tenant_id, self.salts[service][tenant_id], digests

    @property
    def count(self) -> int:
        """Return how many there are."""
        return sum(len(digests) for tenants in self.digests.values() for digests in tenants.values())


async def read_deletions(connection: Connection) -> Deletions:
    """Read what a database knows; of one whose schema is older than purges, nothing."""
    found = Deletions()
    for service in SERVICES:
        if await connection.fetchval("SELECT to_regclass($1)", f"{service}.tombstones") is None:
            return found
        for row in await connection.fetch(f"SELECT tenant_id, salt FROM {service}.tombstone_salts"):  # noqa: S608 - constants.
            found.salts[service][row["tenant_id"]] = row["salt"]
        for row in await connection.fetch(f"SELECT tenant_id, digest, create_time FROM {service}.tombstones"):  # noqa: S608 - constants.
            found.digests[service][row["tenant_id"], row["digest"]] = row["create_time"]
    found.tenants.update({row["tenant_id"]: dict(row) for row in await connection.fetch(_DELETIONS)})
    found.accounts.update(row["account_id"] for row in await connection.fetch(_ACCOUNTS))
    found.service_accounts.update(row["target"] for row in await connection.fetch(_SERVICE_ACCOUNTS))
    for row in await connection.fetch(_SUBJECTS):
        known = found.subjects.setdefault(row["tenant_id"], set())
        known.update([row["subject_id"]] if row["subject_id"] is not None else [])
    for access in REVOCABLE_TABLES:
        rows = await connection.fetch(
            f"SELECT {access.column}::text AS name, {access.time} AS time FROM {access.table} WHERE {access.is_closed}"  # noqa: S608 - constants.
        )
        found.closed[access.table].update({row["name"]: row["time"] for row in rows})
    return found
