"""The trail as lines of JSON: read from a database, saved to a file, and verified from either."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from skein_cluster.audit_trail.verification import Problem, StoredCheckpoint, TenantVerification
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit import canary
from skein_kit.audit_log.chain import Checkpoint
from skein_kit.database.transactions import NO_TENANT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from datetime import date

    import asyncpg
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Connection = asyncpg.Connection[Any]

FORMAT = "skein-audit-trail/1"
CHECKPOINT, EVENT, DELETED = "checkpoint", "event", "deleted_tenant"
_CHECKPOINTS = """
    SELECT tenant_id, number, statement, key_id, signature, event_digests, expire_time
    FROM auth.audit_checkpoints WHERE tenant_id = $1 ORDER BY number
"""
_EVENTS = """
    SELECT tenant_id, audit_event_id, event, outcome, reason, principal, account_id, target, client_id, address,
        user_agent, request_id, create_time, subject_target, subject_salt, subject_digest
    FROM auth.audit_events WHERE tenant_id = $1 ORDER BY audit_event_id
"""
_TENANTS = """
    SELECT tenant_id FROM auth.audit_checkpoints UNION SELECT tenant_id FROM auth.audit_events ORDER BY tenant_id
"""
_DELETED = "SELECT DISTINCT tenant_id FROM tenancy.deletions WHERE state IN ('purging', 'done') ORDER BY tenant_id"
_BYTES = ("signature", "event_digests", "subject_salt", "subject_digest")
_TIMES = ("expire_time", "create_time")
_IDS = ("tenant_id", "audit_event_id", "account_id")

Row = dict[str, Any]


@dataclass(slots=True)
class Verification:
    """What the verification of all tenants found."""

    problems: list[Problem] = field(default_factory=list)
    tenant_count: int = 0
    verified_count: int = 0
    open_count: int = 0
    erased_count: int = 0
    closed_day: date | None = None
    # The digest of the newest checkpoint of each tenant.
    heads: dict[str, str] = field(default_factory=dict)
    # Of all checkpoints, by tenant.
    digests: dict[str, set[str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def compare_heads(self, earlier: Mapping[str, str]) -> None:
        """Report tenants whose chain lacks the checkpoint that was its newest earlier."""
        for tenant_id, digest in earlier.items():
            if tenant_id not in self.deleted and digest not in self.digests.get(tenant_id, ()):
                what = "the chain lacks the checkpoint that was the newest when the heads were saved"
                self.problems.append(Problem(tenant_id=UUID(tenant_id), what=what))


async def read_database(connection: Connection) -> AsyncIterator[tuple[str, Row]]:
    """Yield the trail of all tenants, as it is at one time. The role must see the rows of all tenants."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        # An error, where a role would not see all rows.
        await connection.execute("SET LOCAL row_security = off")
        for row in await connection.fetch(_DELETED):
            yield DELETED, dict(row)
        # The events of no tenant come first, by their id: they say which days are complete in all tenants.
        for tenant in await connection.fetch(_TENANTS):
            for row in await connection.fetch(_CHECKPOINTS, tenant["tenant_id"]):
                yield CHECKPOINT, dict(row)
            async for row in connection.cursor(_EVENTS, tenant["tenant_id"], prefetch=1000):
                yield EVENT, dict(row)


async def verify(trail: AsyncIterator[tuple[str, Row]], keys: Mapping[str, Ed25519PublicKey]) -> Verification:
    """Verify a trail. Raises CommandError for one whose tenants are not in the order of their ids."""
    result = Verification()
    tenant_id: UUID | None = None
    checkpoints: list[StoredCheckpoint] = []
    verification: TenantVerification | None = None

    def start() -> TenantVerification | None:
        if tenant_id is None:
            return None
        return TenantVerification(tenant_id, checkpoints, keys, is_canary=tenant_id in canary.CANARY_TENANT_IDS)

    async for kind, row in trail:
        if kind == DELETED:
            result.deleted.add(str(row["tenant_id"]))
            continue
        if row["tenant_id"] != tenant_id:
            if tenant_id is not None and row["tenant_id"] < tenant_id:
                message = "The trail was reordered: its tenants are not in the order of their ids."
                raise CommandError(message, ExitCode.REFUSED)
            _finish(result, verification or start())
            tenant_id, checkpoints, verification = row["tenant_id"], [], None
        if kind == CHECKPOINT:
            checkpoints.append(_stored(row))
            continue
        verification = verification or start()
        if verification is not None:
            closed_day = verification.complete_day if tenant_id == NO_TENANT else result.closed_day
            verification.add_event(row, closed_day=closed_day)
    _finish(result, verification or start())
    return result


def _finish(result: Verification, verification: TenantVerification | None) -> None:
    if verification is None:
        return
    verification.finish()
    result.tenant_count += 1
    result.problems += verification.problems
    result.verified_count += verification.verified_count
    result.open_count += verification.open_count
    result.erased_count += verification.erased_count
    name = str(verification.tenant_id)
    result.digests[name] = verification.digests
    if verification.head is not None:
        result.heads[name] = verification.head.digest
    if verification.tenant_id == NO_TENANT:
        result.closed_day = verification.complete_day


def _stored(row: Row) -> StoredCheckpoint:
    return StoredCheckpoint(
        checkpoint=Checkpoint(
            **{name: row[name] for name in ("tenant_id", "number", "statement", "key_id", "signature")}
        ),
        event_digests=row["event_digests"],
        expire_time=row["expire_time"],
    )


def to_line(kind: str, row: Row) -> str:
    """Return a line of a file."""

    def value(name: str, raw: Any) -> Any:
        if raw is None:
            return None
        if name in _BYTES:
            return bytes(raw).hex()
        return raw.isoformat() if name in _TIMES else str(raw) if name in _IDS else raw

    return json.dumps({"kind": kind, **{name: value(name, raw) for name, raw in row.items()}}, ensure_ascii=False)


async def read_lines(lines: Iterator[str]) -> AsyncIterator[tuple[str, Row]]:
    """Yield the trail of a file's lines. Raises CommandError for one that is no trail."""

    def value(name: str, raw: Any) -> Any:
        if raw is None:
            return None
        if name in _BYTES:
            return bytes.fromhex(raw)
        return datetime.fromisoformat(raw) if name in _TIMES else UUID(raw) if name in _IDS else raw

    try:
        if json.loads(next(lines))["format"] != FORMAT:
            raise ValueError  # noqa: TRY301 - the same answer as to a line that is no JSON.
        for line in lines:
            row = json.loads(line)
            kind = row.pop("kind")
            yield kind, {name: value(name, raw) for name, raw in row.items()}
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        message = "The file is no trail; `skein audit export` writes one."
        raise CommandError(message, ExitCode.REFUSED) from None
