"""Certificates of erasures in the database."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skein_auth.erasure_certificates.model import ErasureCertificate, ErasureReport
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database, Transaction
from skein_kit.erasure_certificates import document
from skein_kit.ids import new_id


class ErasureCertificateStore:
    """The certificates of tenants, deleted ones included."""

    def __init__(self, database: Database, *, backup_days: int) -> None:
        """`backup_days` is the retention of backups that certificates state; 0 when it is unknown."""
        self._database = database
        self._backup_days = backup_days

    async def issue(
        self, tenant_id: UUID, report: ErasureReport, key_id: str, key: Ed25519PrivateKey, *, at: datetime
    ) -> ErasureCertificate:
        """Sign what was reported, and store it; return the stored certificate of an erasure that is complete."""
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["lock_erasure_certificate"], tenant_id=tenant_id, erasure_key=report.erasure_key)
            earlier = await _of_erasure(tx, tenant_id, report.erasure_key)
            if report.next_erasure_key and (reported := await _of_erasure(tx, tenant_id, report.next_erasure_key)):
                return reported
            if earlier is not None and earlier.is_complete:
                return earlier
            # Merging and hashing many digests would stop other calls.
            certificate = await asyncio.to_thread(self._sign, tenant_id, report, earlier, key_id, key, at)
            values = {
                **dataclasses.asdict(certificate),
                "tenant_id": tenant_id,
                "erasure_key": report.next_key(certificate.certificate_id),
            }
            if earlier is not None:
                del values["create_time"]
            name = "create_erasure_certificate" if earlier is None else "update_erasure_certificate"
            await tx.execute(QUERIES[name], **values)
        return certificate

    def _sign(
        self,
        tenant_id: UUID,
        report: ErasureReport,
        earlier: ErasureCertificate | None,
        key_id: str,
        key: Ed25519PrivateKey,
        at: datetime,
    ) -> ErasureCertificate:
        """Sign a report, together with the incomplete certificate that it continues."""
        certificate_id, create_time = new_id(at), at
        if earlier is not None:
            report = report.continuing(earlier)
            certificate_id, create_time = earlier.certificate_id, earlier.create_time
        statement = report.statement(tenant_id, certificate_id, at=at, backup_days=self._backup_days)
        return ErasureCertificate(
            certificate_id=certificate_id,
            is_complete=report.is_complete,
            statement=document.canonical_json(statement).decode(),
            key_id=key_id,
            signature=document.sign(statement, key, key_id),
            memory_tombstones=report.tombstones["memory"].joined,
            session_tombstones=report.tombstones["session"].joined,
            create_time=create_time,
            sign_time=at,
        )

    async def log_end(self, tenant_id: UUID) -> str:
        """Return the end of the write-ahead log, as Postgres writes positions."""
        async with self._database.transaction(tenant_id) as tx:
            position: str = await tx.value(QUERIES["log_end_of_certificate"], tenant_id=tenant_id)
        return position

    async def get(self, tenant_id: UUID, certificate_id: UUID) -> ErasureCertificate | None:
        """Read a certificate with its tombstones; None for an unknown one."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_erasure_certificate"], tenant_id=tenant_id, certificate_id=certificate_id)
        return None if row is None else ErasureCertificate(**row)

    async def list_certificates(self, tenant_id: UUID, *, before: UUID | None, size: int) -> list[ErasureCertificate]:
        """Read certificates without their tombstones, newest first, from before this id."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_erasure_certificates"], tenant_id=tenant_id, before=before, size=size)
        return [ErasureCertificate(**row) for row in rows]


async def _of_erasure(tx: Transaction, tenant_id: UUID, erasure_key: bytes) -> ErasureCertificate | None:
    row = await tx.row(QUERIES["read_certificate_of_erasure"], tenant_id=tenant_id, erasure_key=erasure_key)
    return None if row is None else ErasureCertificate(**row)
