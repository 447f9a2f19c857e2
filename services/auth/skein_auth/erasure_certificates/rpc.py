"""The RPCs of certificates of erasures."""

from __future__ import annotations

import asyncio
from datetime import datetime
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import certificates_pb2 as pb
from skein_auth.erasure_certificates.model import UNKNOWN, ErasureCertificate, ErasureReport, SortedDigests
from skein_auth.erasure_certificates.store import ErasureCertificateStore
from skein_auth.errors import ErasureCertificateNotFound
from skein_auth.signing.keyring import Keyring
from skein_kit.calls.call import Context, named_space
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import TenantMissing
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCESS_RULES, OPERATOR
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import read_time, to_timestamp

_PURGE_MEMORIES = ACCESS_RULES["/skein.memory.v1.MemoryService/PurgeMemories"]
_PURGE_SESSIONS = ACCESS_RULES["/skein.session.v1.SessionService/PurgeSubject"]
_PURGE_PROFILE = ACCESS_RULES["/skein.tenancy.v1.TenancyService/PurgeSubject"]
# The purges that a certificate of each kind states: only callers who may purge may report it.
_RULES = {
    "forget": (_PURGE_SESSIONS, _PURGE_MEMORIES, _PURGE_PROFILE),
    "purge_memories": (_PURGE_MEMORIES,),
    "purge_subject": (_PURGE_SESSIONS,),
}


class ErasureCertificateHandlers:
    """Certificates of the caller's tenant, or of the tenant that an operator names."""

    def __init__(self, store: ErasureCertificateStore, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    async def IssueErasureCertificate(
        self, request: pb.IssueErasureCertificateRequest, context: Context
    ) -> pb.IssueErasureCertificateResponse:
        caller, at = caller_of(context), now()
        for rule in _RULES[request.kind]:
            rule.check_reach(caller, named_space())
        tenant_id = caller.require_tenant()
        # Before the transaction: the first call of a cluster generates the key.
        key_id, key = await self._keyring.certificate_key()
        certificate = await self._store.issue(tenant_id, _report(request, at), key_id, key, at=at)
        return pb.IssueErasureCertificateResponse(certificate=_certificate(tenant_id, certificate))

    async def IssueDeletionCertificate(
        self, request: pb.IssueDeletionCertificateRequest, context: Context
    ) -> pb.IssueDeletionCertificateResponse:
        tenant_id, at = UUID(request.tenant_id), now()
        key_id, key = await self._keyring.certificate_key()
        report = ErasureReport.of_deletion(
            tenant_id,
            dict(request.deleted_counts),
            is_complete=request.complete,
            start_time=read_time(request, "start_time") or at,
            end_time=read_time(request, "end_time") or at,
            log_position=await self._store.log_end(tenant_id),
        )
        certificate = await self._store.issue(tenant_id, report, key_id, key, at=at)
        return pb.IssueDeletionCertificateResponse(certificate=_certificate(tenant_id, certificate))

    async def GetErasureCertificate(
        self, request: pb.GetErasureCertificateRequest, context: Context
    ) -> pb.GetErasureCertificateResponse:
        tenant_id = _tenant(caller_of(context), request.tenant_id)
        certificate = None
        if tenant_id is not None:
            certificate = await self._store.get(tenant_id, UUID(request.certificate_id))
        if tenant_id is None or certificate is None:
            raise ErasureCertificateNotFound
        message = _certificate(tenant_id, certificate)
        # A list of 20,000 digests takes a while.
        message.document = await asyncio.to_thread(certificate.file)
        return pb.GetErasureCertificateResponse(certificate=message)

    async def ListErasureCertificates(
        self, request: pb.ListErasureCertificatesRequest, context: Context
    ) -> pb.ListErasureCertificatesResponse:
        tenant_id = _tenant(caller_of(context), request.tenant_id)
        if tenant_id is None:
            return pb.ListErasureCertificatesResponse()
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(tenant_id, request)
        rows = await self._store.list_certificates(tenant_id, before=before, size=size + 1)
        certificates, next_page_token = pagination.fit_rows(
            rows,
            lambda row: _certificate(tenant_id, row),
            lambda row: [str(row.certificate_id)],
            request,
            tenant_id,
            size=size,
        )
        return pb.ListErasureCertificatesResponse(certificates=certificates, next_page_token=next_page_token)


def _tenant(caller: Caller, requested: str) -> UUID | None:
    """Return the tenant to read; None for one that the caller does not see. Raises TenantMissing."""
    if not requested or UUID(requested) == caller.tenant_id:
        if caller.tenant_id is None:
            raise TenantMissing
        return caller.tenant_id
    return UUID(requested) if OPERATOR in caller.permissions else None


def _report(request: pb.IssueErasureCertificateRequest, at: datetime) -> ErasureReport:
    return ErasureReport(
        erasure_key=request.erasure_key,
        is_cumulative=request.cumulative,
        is_complete=request.complete,
        start_time=read_time(request, "start_time") or at,
        end_time=read_time(request, "end_time") or at,
        deleted_counts=dict(request.deleted_counts),
        receipt_ids=tuple(request.receipt_ids),
        remaining_memory_ids=tuple(request.remaining_memory_ids),
        tombstones={
            "memory": SortedDigests.of(request.memory_tombstones),
            "session": SortedDigests.of(request.session_tombstones),
        },
        kind=request.kind,
        next_erasure_key=request.next_erasure_key,
        log_position=request.log_position,
        event_position=request.event_position,
        settle_time=read_time(request, "settle_time"),
    )


def _certificate(tenant_id: UUID, value: ErasureCertificate) -> pb.ErasureCertificate:
    statement = value.statement_fields
    remains = statement.get("remains", {})
    return pb.ErasureCertificate(
        certificate_id=str(value.certificate_id),
        tenant_id=str(tenant_id),
        complete=value.is_complete,
        tombstone_count=statement["tombstone_count"],
        create_time=to_timestamp(value.create_time),
        sign_time=to_timestamp(value.sign_time),
        key_id=value.key_id,
        kind=statement["kind"],
        deleted_counts=statement["deleted_counts"],
        start_time=_timestamp(statement["start_time"]),
        end_time=_timestamp(statement["end_time"]),
        settle_time=_timestamp(remains.get("settle_time", UNKNOWN)),
        backups_remove_time=_timestamp(remains.get("backups_removed_by", UNKNOWN)),
    )


def _timestamp(text: str) -> Timestamp | None:
    return None if text == UNKNOWN else to_timestamp(datetime.fromisoformat(text))
