"""Purges, deletions and revocations that a database records, and differences between two states of it.

Purges leave salted digests, so this holds neither content nor names: a name is recognized by its digest.
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
    """A table of credentials or grants, and its columns of revocation."""

    table: str
    # The key column.
    column: str
    # The condition of a revoked row, and its time; revocations.time is the later state's time.
    is_closed: str = "revoke_time IS NOT NULL"
    time: str = "revoke_time"
    close: str = "revoke_time = revocations.time"
    # The condition of a row that the earlier state has not revoked.
    is_open: str = "revoke_time IS NULL"


REVOCABLE_TABLES = (
    RevocableTable("auth.api_keys", "api_key_id"),
    RevocableTable("auth.operator_keys", "api_key_id"),
    RevocableTable("auth.auth_sessions", "auth_session_id"),
    # Revokes all grants of an application before the time, so a later time revokes more.
    RevocableTable("auth.clients", "client_id", is_open="(revoke_time IS NULL OR revoke_time < revocations.time)"),
    RevocableTable("tenancy.invitations", "invitation_id"),
    RevocableTable(
        "tenancy.space_grants",
        "grant_id",
        close="revoke_time = revocations.time, expire_time = least(expire_time, revocations.time)",
    ),
    RevocableTable(
        "auth.accounts",
        "account_id",
        is_closed="status = 'deactivated'",
        time="update_time",
        close="status = 'deactivated', revision = revision + 1, update_time = revocations.time",
        is_open="status <> 'deactivated'",
    ),
    RevocableTable(
        "auth.service_accounts",
        "service_account_id",
        is_closed="disabled",
        time="update_time",
        close="disabled = true, revision = revision + 1, update_time = revocations.time",
        is_open="NOT disabled",
    ),
)
# A deletion in its grace can be undone and does not count yet.
_DELETIONS = "SELECT * FROM tenancy.deletions WHERE state IN ('purging', 'done')"
_ACCOUNTS = """
    SELECT DISTINCT account_id FROM auth.audit_events AS event
    WHERE event = 'account_deleted' AND outcome = 'success' AND account_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM auth.accounts WHERE accounts.account_id = event.account_id)
"""

# Only audit events name deleted rows.
_SERVICE_ACCOUNTS = """
    SELECT DISTINCT target FROM auth.audit_events
    WHERE event = 'service_account_deleted' AND outcome = 'success' AND target LIKE 'service_account:%'
"""

# Later certificates are proofs of what is purged again, and verify with keys that stay published.
_CERTIFICATES = "SELECT * FROM auth.erasure_certificates"
_CERTIFICATE_KEYS = "SELECT * FROM auth.signing_keys WHERE purpose = 'certificate'"

# A lost binding would show the default space to a principal again.
_BINDINGS = "SELECT tenant_id, principal, create_time, created_by FROM tenancy.space_bindings"

_SUBJECTS = "SELECT tenant_id, subject_id FROM tenancy.tenants LEFT JOIN tenancy.subjects USING (tenant_id)"

Digests = dict[tuple["UUID", bytes], "datetime"]


@dataclass(slots=True)
class Deletions:
    """The purges, deletions and revocations of one state of a database."""

    # Salts of tenants, by service.
    salts: Mapping[str, dict[UUID, bytes]] = field(default_factory=lambda: {service: {} for service in SERVICES})
    # Purge times by service, tenant and digest.
    digests: Mapping[str, Digests] = field(default_factory=lambda: {service: {} for service in SERVICES})
    # Rows of tenants' final deletions.
    tenants: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    accounts: set[UUID] = field(default_factory=set)
    service_accounts: set[str] = field(default_factory=set)
    # Subjects of every tenant.
    subjects: dict[UUID, set[str]] = field(default_factory=dict)
    # Revocation times by table and key.
    revocations: Mapping[str, dict[str, datetime]] = field(
        default_factory=lambda: {access.table: {} for access in REVOCABLE_TABLES}
    )
    # Rows of principals that are bound to spaces, by tenant and principal.
    bindings: dict[tuple[UUID, str], dict[str, Any]] = field(default_factory=dict)
    # Rows of certificates of erasures, and of the keys that sign them, by their ids.
    certificates: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    certificate_keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Time up to which the state is complete; None if unknown.
    until: datetime | None = None

    def add(self, other: Deletions) -> None:
        """Merge another state. Only subjects of both states stay."""
        for service in SERVICES:
            self.salts[service].update(other.salts[service])
            times = self.digests[service]
            for key, time in other.digests[service].items():
                times[key] = max(time, times.get(key, time))
        self.tenants.update(other.tenants)
        self.accounts.update(other.accounts)
        self.service_accounts.update(other.service_accounts)
        for tenant_id, subjects in other.subjects.items():
            self.subjects[tenant_id] = self.subjects.get(tenant_id, subjects) & subjects
        for table, revocations in other.revocations.items():
            for name, time in revocations.items():
                self.revocations[table][name] = max(time, self.revocations[table].get(name, time))
        self.bindings.update(other.bindings)
        self.add_certificates(other)
        self.until = max(filter(None, (self.until, other.until)), default=None)

    def add_certificates(self, other: Deletions) -> None:
        """Merge the certificates and their keys of another state: of each, the row that was signed last."""
        for certificate_id, certificate in other.certificates.items():
            known = self.certificates.setdefault(certificate_id, certificate)
            if known["sign_time"] < certificate["sign_time"]:
                self.certificates[certificate_id] = certificate
        for name, signing_key in other.certificate_keys.items():
            known_key = self.certificate_keys.setdefault(name, signing_key)
            # A replaced key stays replaced.
            expiries = filter(None, (known_key["expire_time"], signing_key["expire_time"]))
            self.certificate_keys[name] = {**known_key, "expire_time": min(expiries, default=None)}

    def since(self, earlier: Deletions) -> NewTombstones:
        """Return the digests that an earlier state lacks."""
        new_tombstones: dict[str, dict[UUID, set[bytes]]] = {service: {} for service in SERVICES}
        for service, digests in self.digests.items():
            earlier_times = earlier.digests[service]
            for key, time in digests.items():
                if key not in earlier_times or earlier_times[key] < time:
                    new_tombstones[service].setdefault(key[0], set()).add(key[1])
        return NewTombstones(digests=new_tombstones, salts=self.salts)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTombstones:
    """Digests that an earlier state lacks, by service and tenant."""

    digests: Mapping[str, Mapping[UUID, set[bytes]]]
    salts: Mapping[str, Mapping[UUID, bytes]]

    def tenants(self, service: str) -> Iterator[tuple[UUID, bytes, set[bytes]]]:
        """Yield each tenant with purges of a service, its salt and the digests."""
        for tenant_id, digests in self.digests[service].items():
            yield tenant_id, self.salts[service][tenant_id], digests

    @property
    def count(self) -> int:
        """Return the number of digests."""
        return sum(len(digests) for tenants in self.digests.values() for digests in tenants.values())


async def read_deletions(connection: Connection) -> Deletions:
    """Read a database's state; empty for a schema without purges."""
    result = Deletions()
    for service in SERVICES:
        if await connection.fetchval("SELECT to_regclass($1)", f"{service}.tombstones") is None:
            return result
        for row in await connection.fetch(f"SELECT tenant_id, salt FROM {service}.tombstone_salts"):  # noqa: S608 - constants.
            result.salts[service][row["tenant_id"]] = row["salt"]
        for row in await connection.fetch(f"SELECT tenant_id, digest, create_time FROM {service}.tombstones"):  # noqa: S608 - constants.
            result.digests[service][row["tenant_id"], row["digest"]] = row["create_time"]
    result.tenants.update({row["tenant_id"]: dict(row) for row in await connection.fetch(_DELETIONS)})
    result.add_certificates(await read_certificates(connection))
    result.accounts.update(row["account_id"] for row in await connection.fetch(_ACCOUNTS))
    result.service_accounts.update(row["target"] for row in await connection.fetch(_SERVICE_ACCOUNTS))
    for row in await connection.fetch(_SUBJECTS):
        subject_ids = result.subjects.setdefault(row["tenant_id"], set())
        subject_ids.update([row["subject_id"]] if row["subject_id"] is not None else [])
    for row in await connection.fetch(_BINDINGS):
        result.bindings[row["tenant_id"], row["principal"]] = dict(row)
    for access in REVOCABLE_TABLES:
        rows = await connection.fetch(
            f"SELECT {access.column}::text AS name, {access.time} AS time FROM {access.table} WHERE {access.is_closed}"  # noqa: S608 - constants.
        )
        result.revocations[access.table].update({row["name"]: row["time"] for row in rows})
    return result


async def read_certificates(connection: Connection) -> Deletions:
    """Read the certificates of a database and their keys alone."""
    return Deletions(
        certificates={row["certificate_id"]: dict(row) for row in await connection.fetch(_CERTIFICATES)},
        certificate_keys={row["key_id"]: dict(row) for row in await connection.fetch(_CERTIFICATE_KEYS)},
    )
