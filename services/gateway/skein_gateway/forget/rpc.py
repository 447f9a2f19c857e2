"""Forget: the purge of one person's sessions, memories and profile, service by service, with one certificate."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

import grpc
from grpc import aio

from skein.auth.v1 import auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2_grpc, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2_grpc
from skein_gateway.forget.certified_purges import DetachedCalls
from skein_gateway.forget.progress import CERTIFY_SECONDS, SETTLE, ErasureProgress, ErasureStep
from skein_kit.calls.call import Context, named_space
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import RpcError
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.ids import new_id, now
from skein_kit.rpc.well_known_types import to_timestamp

_DEAD_ROWS_UNTIL = (
    "Until the tables and their indexes are rewritten. VACUUM removes dead rows, but may leave their bytes in free"
    " space and their keys in indexes. VACUUM FULL of the database, run after settle_time, removes them for certain."
)
_LOG_UNTIL = (
    "At least until the segments before log_position are overwritten or removed. Later segments may hold the person"
    " too: after each checkpoint Postgres writes whole pages to the log, with the dead rows and keys that are still on"
    " them. This ends with the VACUUM FULL of dead_rows_until. Read pg_current_wal_insert_lsn() after it, and run"
    " CHECKPOINT: once no file keeps bytes of the log before that position, the log is clean. max_wal_size,"
    " wal_keep_size and replication slots delay that. Archived segments stay as long as their archive."
)
_BACKUPS_UNTIL = (
    "Until the backups that were made before forget_time are removed. A restore of one purges the person again before"
    " it answers any call, and destroys the restored keys of hashes."
)
# No further step starts with less than this left of the caller's time.
_MARGIN_SECONDS = 2.0
_RULES = (
    ACCESS_RULES["/skein.session.v1.SessionService/PurgeSubject"],
    ACCESS_RULES["/skein.memory.v1.MemoryService/PurgeMemories"],
    ACCESS_RULES["/skein.tenancy.v1.TenancyService/PurgeSubject"],
)


class ForgetHandler:
    """The Forget RPC."""

    def __init__(
        self,
        sessions: session_pb2_grpc.SessionServiceAsyncStub,
        memories: memory_pb2_grpc.MemoryServiceAsyncStub,
        tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub,
        auth: auth_pb2_grpc.AuthInternalServiceAsyncStub,
    ) -> None:
        """Purge in these services; auth signs the certificate."""
        self._auth = auth
        self._detached = DetachedCalls(seconds=CERTIFY_SECONDS)
        self._sessions = sessions
        self._memories = memories
        self._tenancy = tenancy

    async def Forget(self, request: pb.ForgetRequest, context: Context) -> pb.ForgetResponse:
        # Check all permissions first, so that a missing one cannot leave a person half purged.
        for rule in _RULES:
            rule.check_reach(caller_of(context), named_space())
        progress = ErasureProgress(request.request_id, start_time=now())
        try:
            more = await self._purge(request, context, progress)
            log_position = ""
            if not more and not request.dry_run:
                more, log_position = await self._purge_late_memories(request, context, progress)
            at = now()
            remains = None if more or request.dry_run else _remains(at, log_position)
            certificate_id = await self._certify(request, progress, remains, at=at)
        except (aio.AioRpcError, RpcError, asyncio.CancelledError):
            # What is purged is purged: an incomplete certificate says so, and the next call continues it.
            if progress.has_unreported:
                with suppress(aio.AioRpcError, RpcError):
                    await self._certify(request, progress, None, at=now())
            raise
        return _receipt(progress, remains, certificate_id, more=more, at=at)

    async def _purge(self, request: pb.ForgetRequest, context: Context, progress: ErasureProgress) -> bool:
        """Purge service by service while there is time; return whether data of the subject remains."""
        more = False
        for service, purge in (
            ("session", self._purge_sessions),
            ("memory", self._purge_memories),
            ("tenancy", self._purge_profile),
        ):
            erasure = pb.Erasure(service=service)
            progress.erasures.append(erasure)
            async for step in purge(request):
                progress.add(erasure, step)
                more = step.has_more
                # A process that ends now leaves a certificate of the first step, and of nearly all later ones.
                if progress.should_report(step):
                    await self._certify(request, progress, None, at=now())
                if more and context.time_remaining() < _MARGIN_SECONDS:
                    break
            if more:
                break
        return more

    async def _purge_late_memories(
        self, request: pb.ForgetRequest, context: Context, progress: ErasureProgress
    ) -> tuple[bool, str]:
        """Purge memories that running calls wrote meanwhile; return whether more remain, and the end of the log."""
        erasure = next(erasure for erasure in progress.erasures if erasure.service == "memory")
        more, log_position = False, ""
        async for step in self._purge_memories(request, part="last"):
            progress.add(erasure, step)
            more, log_position = step.has_more, step.log_position
            if more and context.time_remaining() < _MARGIN_SECONDS:
                break
        return more, log_position

    async def _certify(
        self, request: pb.ForgetRequest, progress: ErasureProgress, remains: pb.Remains | None, *, at: datetime
    ) -> str:
        """Issue the certificate, which is complete with `remains`; return its id, empty when nothing was purged.

        The caller's deadline does not stop it. Raises DeadlineExceeded and AioRpcError.
        """
        if request.dry_run or not progress.subject_tombstone:
            return ""
        return await self._detached.run(self._report(progress, remains, at))

    async def _report(self, progress: ErasureProgress, remains: pb.Remains | None, at: datetime) -> str:
        """Report what auth does not know yet, in parts; return the id of the certificate."""
        # A cancelled call leaves its report running, and the next one continues after it.
        async with progress.lock:
            while progress.needs_report(is_complete=remains is not None):
                part = progress.next_part(at, remains)
                response = await self._auth.IssueErasureCertificate(part)
                progress.mark_reported(part, response.certificate.certificate_id)
            return progress.certificate_id

    async def _purge_sessions(self, request: pb.ForgetRequest) -> AsyncIterator[ErasureStep]:
        step, more = 0, True
        while more:
            purge_request = states_pb2.PurgeSubjectRequest(
                subject_id=request.subject_id,
                dry_run=request.dry_run,
                request_id=_step_request_id(request, "sessions", step),
            )
            receipt = (await self._sessions.PurgeSubject(purge_request)).receipt
            # A dry run counts everything in one step.
            more, step = receipt.more and not request.dry_run, step + 1
            yield ErasureStep(
                counts=dict(receipt.counts),
                has_more=more,
                session_tombstones=receipt.tombstones,
                subject_tombstone=receipt.subject_tombstone,
            )

    async def _purge_memories(self, request: pb.ForgetRequest, *, part: str = "memories") -> AsyncIterator[ErasureStep]:
        step, token, more = 0, "", True
        while more:
            purge_request = memory_pb2.PurgeMemoriesRequest(
                selection=_selection(request),
                dry_run=request.dry_run,
                page_token=token,
                request_id=_step_request_id(request, part, step),
            )
            response = await self._memories.PurgeMemories(purge_request)
            token, step = response.next_page_token, step + 1
            more = bool(token)
            counts = dict(response.receipt.deleted_counts)
            if response.archived_memory_ids:
                counts["memory.archived_memories"] = len(response.archived_memory_ids)
            yield ErasureStep(
                counts=counts,
                receipt_id=response.receipt.receipt_id,
                has_more=more,
                memory_tombstones=response.receipt.tombstones,
                remaining_memory_ids=response.remaining_memory_ids,
                log_position=response.receipt.log_position,
                event_position=response.receipt.event_position,
            )

    async def _purge_profile(self, request: pb.ForgetRequest) -> AsyncIterator[ErasureStep]:
        try:
            if request.dry_run:
                await self._tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id=request.subject_id))
            else:
                purge_request = subjects_pb2.PurgeSubjectRequest(
                    subject_id=request.subject_id, request_id=_step_request_id(request, "profile", 0)
                )
                await self._tenancy.PurgeSubject(purge_request)
        except aio.AioRpcError as error:
            # A subject need not have a profile.
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            yield ErasureStep(counts={})
            return
        yield ErasureStep(counts={"tenancy.subjects": 1})


def _remains(at: datetime, log_position: str) -> pb.Remains:
    """Return until when dead copies may hold the person. The log position was read after the last purge.

    The log holds the person before this position, and after it in full-page images with dead rows.
    """
    return pb.Remains(
        settle_time=to_timestamp(at + SETTLE),
        dead_rows_until=_DEAD_ROWS_UNTIL,
        log_until=_LOG_UNTIL,
        log_position=log_position,
        backups_until=_BACKUPS_UNTIL,
    )


def _selection(request: pb.ForgetRequest) -> memory_pb2.MemorySelection:
    return memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id=request.subject_id))


def _step_request_id(request: pb.ForgetRequest, part: str, step: int) -> str:
    """Return the request id of one step, so that a repeated Forget repeats the same steps."""
    return f"forget:{request.request_id}:{part}:{step}" if request.request_id else ""


def _receipt(
    progress: ErasureProgress, remains: pb.Remains | None, certificate_id: str, *, more: bool, at: datetime
) -> pb.ForgetResponse:
    receipt_id, erasures = str(new_id(at)), progress.erasures
    content = [
        receipt_id,
        at.isoformat(),
        [[erasure.service, sorted(erasure.deleted_counts.items()), list(erasure.receipt_ids)] for erasure in erasures],
    ]
    return pb.ForgetResponse(
        erasures=erasures,
        receipt_id=receipt_id,
        forget_time=to_timestamp(at),
        digest=hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest(),
        more=more,
        remains=remains,
        certificate_id=certificate_id,
        remaining_memory_ids=progress.remaining_memory_ids,
    )
