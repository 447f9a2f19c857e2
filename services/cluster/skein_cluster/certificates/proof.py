"""The proof that nothing of an erasure exists in a database: of a running cluster, or of a restored backup.

Tombstones are digests under a secret salt. The proof recomputes the digests of what exists, so it reads no content.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein_cluster.backup import purged_items
from skein_cluster.backup.deletions import SERVICES, NewTombstones
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.erasure_certificates import document, merkle
from skein_kit.ids import now
from skein_memory.tombstones.store import digest_of as memory_digest
from skein_session.tombstones import store as session_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import asyncpg

    from skein_cluster.backup.purged_items import PurgedItems
    from skein_kit.erasure_certificates.document import VerifiedCertificate

    Connection = asyncpg.Connection[Any]

_ACCESS_LOG = "memory.access_log"
_EARLIER_BLOCK = (
    "(coalesce(record_time, update_time) < $3 OR EXISTS (SELECT FROM memory.revisions AS former "
    "WHERE former.tenant_id = $1 AND former.kind = 'block' AND former.item_id = item.block_id::text "
    "AND former.from_time < $3))"
)
# Rows about a person that were recorded first before the end of the erasure. Later ones are about the same person, and
# new, whatever their create_time: callers choose it. A row that changed since was first recorded as its former version.
_EARLIER_ROWS = {
    "memory.memories": "SELECT count(*) FROM memory.memories AS item "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND (coalesce(record_time, update_time) < $3 OR EXISTS ("
    "SELECT FROM memory.versions AS former WHERE former.tenant_id = $1 AND former.memory_id = item.memory_id "
    "AND coalesce(former.record_time, former.update_time) < $3))",
    "memory.archived_memories": "SELECT count(*) FROM memory.archived_memories "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND record_time < $3",
    "memory.blocks": "SELECT count(*) FROM memory.blocks AS item "  # noqa: S608 - constants.
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND " + _EARLIER_BLOCK,
    _ACCESS_LOG: "SELECT count(*) FROM memory.access_log "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND create_time < $3",
    "session.sessions": "SELECT count(*) FROM session.sessions AS item "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND (record_time < $3 OR EXISTS ("
    "SELECT FROM session.sessions_history AS former WHERE former.tenant_id = $1 "
    "AND former.session_id = item.session_id AND former.record_time < $3))",
    "session.messages": "SELECT count(*) FROM session.messages AS item "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND (record_time < $3 OR EXISTS ("
    "SELECT FROM session.messages_history AS former WHERE former.tenant_id = $1 "
    "AND former.message_id = item.message_id AND former.record_time < $3))",
    "session.messages_history": "SELECT count(*) FROM session.messages_history "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND record_time < $3",
    "tenancy.subjects": "SELECT count(*) FROM tenancy.subjects AS item "
    "WHERE tenant_id = $1 AND subject_id = ANY ($2) AND (record_time < $3 OR EXISTS ("
    "SELECT FROM tenancy.subjects_history AS former WHERE former.tenant_id = $1 "
    "AND former.subject_id = item.subject_id AND former.record_time < $3))",
}
# An erasure of one service says nothing about rows of the others.
_TABLES_OF_KIND = {"purge_memories": "memory.", "purge_subject": "session."}
# Callers choose the ids of blocks, so a later block may have the id of a purged one.
_EARLIER_BLOCKS = (
    "SELECT count(*) FROM memory.blocks AS item "  # noqa: S608 - constants.
    "WHERE tenant_id = $1 AND block_id::text = ANY ($2) AND " + _EARLIER_BLOCK
)
_STORED_TOMBSTONES = """
    SELECT memory_tombstones AS memory, session_tombstones AS session FROM auth.erasure_certificates
    WHERE tenant_id = $1 AND certificate_id = $2
"""
_DIGEST_BYTES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Inclusion:
    """Whether a certificate covers one name, with the path from its leaf to the root."""

    name: str
    # The leaf as hexadecimal digits; None when the certificate does not cover the name.
    leaf: str | None
    index: int = 0
    path: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What a database has of an erasure."""

    tombstone_count: int
    # Tombstones of the certificate that the database lacks: a restore of it would not purge them again.
    missing_tombstones: int
    # Purged items that exist, by kind; and rows about the person from before the end of the erasure, by table.
    existing: Mapping[str, int]
    inclusions: tuple[Inclusion, ...]
    # False before settle_time. Running calls may still be logged then, so the access log is not compared.
    is_settled: bool

    @property
    def is_gone(self) -> bool:
        """Return whether nothing exists, and the database would keep it out."""
        return not self.existing and not self.missing_tombstones


async def prove(connection: Connection, certificate: VerifiedCertificate, names: Sequence[tuple[str, str]]) -> Proof:
    """Compare a database with a certificate, and prove that it covers `names`, each a kind and an id.

    Kinds are "memory", "block", "session", "message" and "subject". Raises CommandError when the database cannot tell.
    """
    tenant_id = UUID(certificate.statement["tenant_id"])
    tombstones = await _tombstones(connection, tenant_id, certificate)
    salts = await _salts(connection, tenant_id, tombstones)
    digests = {service: {tenant_id: set(tombstones[service])} for service in SERVICES if tombstones[service]}
    scanned = NewTombstones(
        digests={service: digests.get(service, {}) for service in SERVICES},
        salts={service: {tenant_id: salts[service]} for service in SERVICES},
    )
    is_settled = datetime.fromisoformat(certificate.statement["remains"]["settle_time"]) <= now()
    service = _TABLES_OF_KIND.get(certificate.statement["kind"], "")
    tables = [table for table in _EARLIER_ROWS if table.startswith(service) and (is_settled or table != _ACCESS_LOG)]
    existing: dict[str, int] = {}
    for items in await purged_items.find_purged(connection, scanned):
        end_time = datetime.fromisoformat(certificate.statement["end_time"])
        existing |= await _existing(connection, items, end_time, tables)
    missing = 0
    for service in SERVICES:
        missing += await connection.fetchval(
            f"SELECT count(*) FROM unnest($2::bytea[]) AS leaf WHERE NOT EXISTS (SELECT FROM {service}.tombstones"  # noqa: S608 - constants.
            " WHERE tenant_id = $1 AND digest = leaf)",
            tenant_id,
            list(tombstones[service]),
        )
    leaves = document.leaves(tombstones)
    return Proof(
        tombstone_count=len(leaves),
        missing_tombstones=missing,
        existing=existing,
        inclusions=tuple(_inclusion(kind, name, salts, leaves) for kind, name in names),
        is_settled=is_settled,
    )


async def _tombstones(
    connection: Connection, tenant_id: UUID, certificate: VerifiedCertificate
) -> Mapping[str, Sequence[bytes]]:
    """Return the tombstones of the file, or of the database if the file has none. Raises CommandError."""
    if certificate.tombstones is not None:
        return certificate.tombstones
    row = await connection.fetchrow(_STORED_TOMBSTONES, tenant_id, UUID(certificate.statement["certificate_id"]))
    joined = {service: row[service] if row else b"" for service in SERVICES}
    result = {
        service: [digests[start : start + _DIGEST_BYTES] for start in range(0, len(digests), _DIGEST_BYTES)]
        for service, digests in joined.items()
    }
    if document.tombstone_fields(result)["tombstone_root"] != certificate.statement["tombstone_root"]:
        message = "The file lists no tombstones, and the database does not have those of its root."
        raise CommandError(message, ExitCode.REFUSED)
    return result


async def _salts(
    connection: Connection, tenant_id: UUID, tombstones: Mapping[str, Sequence[bytes]]
) -> Mapping[str, bytes]:
    """Read the salts of the tenant. Raises CommandError when one is missing."""
    salts: dict[str, bytes] = {}
    for service in SERVICES:
        salt = await connection.fetchval(
            f"SELECT salt FROM {service}.tombstone_salts WHERE tenant_id = $1",  # noqa: S608 - constants.
            tenant_id,
        )
        if salt is None and tombstones[service]:
            message = (
                f"The database has no salt of tenant {tenant_id} in {service}, so digests cannot be compared: it is of"
                " another cluster, of a time before the tenant's first erasure, or the tenant is purged."
            )
            raise CommandError(message, ExitCode.REFUSED)
        salts[service] = salt or b""
    return salts


async def _existing(
    connection: Connection, items: PurgedItems, end_time: datetime, tables: Sequence[str]
) -> dict[str, int]:
    """Return the counts of items that exist, without blocks and rows of `tables` that are newer than the erasure."""
    counts = {kind: count for kind, count in items.counts.items() if count and kind not in {"blocks", "subjects"}}
    if items.block_ids and (
        count := await connection.fetchval(_EARLIER_BLOCKS, items.tenant_id, items.block_ids, end_time)
    ):
        counts["blocks"] = count
    subjects = sorted({*items.memory_subjects, *items.session_subjects, *items.directory})
    if subjects:
        for table in tables:
            if count := await connection.fetchval(_EARLIER_ROWS[table], items.tenant_id, subjects, end_time):
                counts[f"rows of {table} about the person"] = count
    return counts


def _inclusion(kind: str, name: str, salts: Mapping[str, bytes], leaves: Sequence[bytes]) -> Inclusion:
    """Return the path of the first leaf that is a digest of the name."""
    positions = {leaf: index for index, leaf in enumerate(leaves)}
    for leaf in _leaves_of(kind, name, salts):
        if leaf in positions:
            index = positions[leaf]
            path = merkle.inclusion_proof(leaves, index)
            return Inclusion(
                name=f"{kind} {name}", leaf=leaf.hex(), index=index, path=tuple(sibling.hex() for sibling in path)
            )
    return Inclusion(name=f"{kind} {name}", leaf=None)


def _leaves_of(kind: str, name: str, salts: Mapping[str, bytes]) -> list[bytes]:
    """Return the leaves that a name may have; ids that are no UUIDs are external ids."""
    id_ = _uuid(name)
    memory: list[tuple[str, bytes]] = []
    session: list[str] = []
    match kind:
        case "memory":
            memory = [("memory_id", id_.bytes)] if id_ else [("external_id", name.encode())]
        case "block":
            memory = [("block_id", name.encode())]
        case "session":
            session = [session_names.of_session(name)]
        case "message":
            session = [session_names.of_message_id(id_) if id_ else session_names.of_message(name)]
        case _:
            memory, session = [("subject_id", name.encode())], [session_names.of_subject(name)]
    return [
        *(b"memory:" + memory_digest(salts["memory"], digest_kind, value) for digest_kind, value in memory),
        *(b"session:" + session_names.digest_of(salts["session"], each) for each in session),
    ]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
