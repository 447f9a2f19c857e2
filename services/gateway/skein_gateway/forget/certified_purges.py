"""PurgeMemories and PurgeSubject as they are forwarded: each ends in a certificate of what it purged."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import hmac
from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from grpc import aio

from skein.auth.v1 import auth_pb2_grpc, certificates_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import states_pb2
from skein_gateway.forget.progress import CERTIFY_SECONDS, SETTLE
from skein_kit.calls.call import Call, as_current_call, current_call
from skein_kit.errors import DeadlineExceeded, FieldInvalid
from skein_kit.ids import new_id, now
from skein_kit.rpc.interceptors import Handler
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.telemetry import logs

log = logs.get("gateway")

PurgeRequest = TypeVar("PurgeRequest", memory_pb2.PurgeMemoriesRequest, states_pb2.PurgeSubjectRequest)

PURGE_MEMORIES = "/skein.memory.v1.MemoryService/PurgeMemories"
PURGE_SUBJECT = "/skein.session.v1.SessionService/PurgeSubject"
T = TypeVar("T")


class CertifiedPurges:
    """Lets auth sign what a forwarded purge reports, and puts the certificate's id into the response."""

    def __init__(self, auth: auth_pb2_grpc.AuthInternalServiceAsyncStub) -> None:
        self._auth = auth
        self._detached = DetachedCalls(seconds=CERTIFY_SECONDS)

    def handlers(self, forwarders: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers of both RPCs over those that forward them."""

        async def purge_memories(data: bytes, call: Call) -> bytes:
            request, start_time = _read(memory_pb2.PurgeMemoriesRequest(), data), now()
            answer: Any = await forwarders[PURGE_MEMORIES](request.SerializeToString(), call)
            response = memory_pb2.PurgeMemoriesResponse.FromString(answer)
            if not request.dry_run:
                response.certificate_id = await self._issue(_of_memories(request, response, start_time))
            return response.SerializeToString()

        async def purge_subject(data: bytes, call: Call) -> bytes:
            request, start_time = _read(states_pb2.PurgeSubjectRequest(), data), now()
            answer: Any = await forwarders[PURGE_SUBJECT](request.SerializeToString(), call)
            response = states_pb2.PurgeSubjectResponse.FromString(answer)
            if not request.dry_run:
                response.certificate_id = await self._issue(_of_subject(request, response.receipt, start_time))
            return response.SerializeToString()

        return {PURGE_MEMORIES: purge_memories, PURGE_SUBJECT: purge_subject}

    async def _issue(self, request: certificates_pb2.IssueErasureCertificateRequest) -> str:
        """Return the id of the certificate; empty when auth does not sign, because the rows are purged anyway."""
        try:
            return await self._detached.run(self._sign(request))
        except (aio.AioRpcError, DeadlineExceeded) as error:
            code = error.code().name if isinstance(error, aio.AioRpcError) else "DEADLINE_EXCEEDED"
            log.warning("erasure_certificate_failed", kind=request.kind, code=code)
            return ""

    async def _sign(self, request: certificates_pb2.IssueErasureCertificateRequest) -> str:
        return (await self._auth.IssueErasureCertificate(request)).certificate.certificate_id


def _read(request: PurgeRequest, data: bytes) -> PurgeRequest:
    """Fill a request from its bytes, with a request id if the caller gave none. Raises FieldInvalid."""
    try:
        request.ParseFromString(data)
    except DecodeError:
        raise FieldInvalid(violations=[("", "is not a message of this method")]) from None
    if not request.request_id and not request.dry_run:
        request.request_id = str(new_id(now()))
    return request


def _of_memories(
    request: memory_pb2.PurgeMemoriesRequest, response: memory_pb2.PurgeMemoriesResponse, start_time: datetime
) -> certificates_pb2.IssueErasureCertificateRequest:
    """Report one page. The page token leads from the certificate of one page to the next."""
    receipt, at, is_complete = response.receipt, now(), not response.next_page_token
    counts = dict(receipt.deleted_counts)
    if response.archived_memory_ids:
        counts["memory.archived_memories"] = len(response.archived_memory_ids)
    return certificates_pb2.IssueErasureCertificateRequest(
        kind="purge_memories",
        erasure_key=_key(f"page:{request.page_token}" if request.page_token else f"first:{receipt.receipt_id}"),
        next_erasure_key=_key(f"last:{receipt.receipt_id}" if is_complete else f"page:{response.next_page_token}"),
        complete=is_complete,
        start_time=to_timestamp(start_time),
        end_time=to_timestamp(at),
        deleted_counts=counts,
        receipt_ids=[receipt.receipt_id] if receipt.event_position else [],
        event_position=receipt.event_position,
        memory_tombstones=receipt.tombstones,
        remaining_memory_ids=response.remaining_memory_ids,
        log_position=receipt.log_position if is_complete else "",
        settle_time=to_timestamp(at + SETTLE) if is_complete else None,
    )


def _of_subject(
    request: states_pb2.PurgeSubjectRequest, receipt: states_pb2.PurgeReceipt, start_time: datetime
) -> certificates_pb2.IssueErasureCertificateRequest:
    """Report one call. While there is more, the person's keyed digest leads to the certificate of the call before."""
    at = now()
    return certificates_pb2.IssueErasureCertificateRequest(
        kind="purge_subject",
        erasure_key=hmac.digest(receipt.subject_tombstone, b"purge_subject", hashlib.sha256),
        next_erasure_key=b""
        if receipt.more
        else hmac.digest(receipt.subject_tombstone, f"purged:{request.request_id}".encode(), hashlib.sha256),
        complete=not receipt.more,
        start_time=to_timestamp(start_time),
        end_time=to_timestamp(at),
        deleted_counts=dict(receipt.counts),
        session_tombstones=receipt.tombstones,
        settle_time=None if receipt.more else to_timestamp(at + SETTLE),
    )


def _key(name: str) -> bytes:
    return hashlib.sha256(f"purge_memories:{name}".encode()).digest()


class DetachedCalls:
    """Runs what must end although its caller is gone: the certificate of rows that are purged already."""

    def __init__(self, *, seconds: float) -> None:
        """Give the work `seconds` from its start."""
        self._seconds = seconds
        # The event loop has only weak references to tasks.
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the name of the current call, with a deadline of its own. A cancelled caller leaves it running.

        Raises DeadlineExceeded, and what the work raises.
        """
        task = asyncio.create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._discard)
        return await asyncio.shield(task)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        call = current_call()
        try:
            async with asyncio.timeout(self._seconds) as limit:
                if call is None:
                    return await work
                detached_call = copy.copy(call)
                detached_call.deadline = limit.when()
                with as_current_call(detached_call):
                    return await work
        except TimeoutError:
            raise DeadlineExceeded from None

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Read, so that the event loop does not report the error of work without a caller.
            task.exception()
