"""Hands the receipts of contexts to recall, which signs and stores them: in the background, in batches.

BuildContext does not wait for it. What cannot be handed over is counted and logged.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from grpc import aio

from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein_gateway.context.model import VERSION, PackedContext
from skein_kit import recall_receipts
from skein_kit.background import background_tasks
from skein_kit.calls.call import AUTHORIZATION_KEY, current_call
from skein_kit.errors import RpcError
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import RECEIPTS_LOST

FLUSH_SECONDS = 0.25
MAX_WAITING = 5000
_BATCH_SIZE = 200
# The token of the caller, with which recall has receipts signed, is older then.
_MAX_WAIT_SECONDS = 20.0
_CALL_SECONDS = 5.0
_STOP_SECONDS = 5.0

log = logs.get("gateway")


@dataclass(frozen=True, kw_only=True, slots=True)
class _WaitingRecord:
    """A record with the call that made it."""

    identity_token: str
    record: recall_pb2.ContextRecord
    # Seconds of the event loop's clock.
    create_seconds: float


class ContextRecorder:
    """The receipts of contexts of one process that wait for recall."""

    def __init__(self, recall: recall_pb2_grpc.RecallInternalServiceAsyncStub) -> None:
        self._recall = recall
        self._waiting: dict[UUID, list[_WaitingRecord]] = {}
        self._count = 0
        self._has_records = asyncio.Event()
        self._flush_lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Hand over records while the block runs, and the waiting ones when it ends."""
        async with background_tasks(context_receipts=self._flush_forever):
            yield self
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.flush()
        self._count_lost(self._count)

    def record(
        self, receipt_id: str, packed: PackedContext, inputs: recall_pb2.ContextInputs, *, subject_ids: Iterable[str]
    ) -> None:
        """Have the receipt of a text of the current call stored; it is lost if too many wait.

        The inputs are about the people `subject_ids`.
        """
        call = current_call()
        if call is None or call.caller is None or call.caller.tenant_id is None:
            return
        if self._count >= MAX_WAITING:
            self._count_lost(1)
            return
        salt = secrets.token_bytes(recall_receipts.SALT_BYTES)
        record = recall_pb2.ContextRecord(
            receipt_id=receipt_id,
            request_id=call.request_id,
            statement=recall_pb2.ContextStatement(
                packer=VERSION,
                text_digest=recall_receipts.context_text_digest(salt, packed.text),
                token_count=packed.token_count,
            ),
            salt=salt,
            inputs=inputs,
            subject_ids=subject_ids,
        )
        self._waiting.setdefault(call.caller.tenant_id, []).append(
            _WaitingRecord(
                identity_token=call.identity_token, record=record, create_seconds=asyncio.get_running_loop().time()
            )
        )
        self._count += 1
        self._has_records.set()

    def is_pending(self, tenant_id: UUID, receipt_id: str) -> bool:
        """Return whether the record of a receipt waits here."""
        return any(waiting.record.receipt_id == receipt_id for waiting in self._waiting.get(tenant_id, ()))

    async def flush(self) -> None:
        """Hand over all waiting records, tenant by tenant; what recall does not take waits again, for a while."""
        async with self._flush_lock:
            for tenant_id in list(self._waiting):
                await self._flush_tenant(tenant_id)

    async def _flush_forever(self) -> None:
        while True:
            await self._has_records.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            self._has_records.clear()
            await self.flush()
            if self._count:
                self._has_records.set()

    async def _flush_tenant(self, tenant_id: UUID) -> None:
        waiting = self._waiting[tenant_id]
        try:
            while waiting:
                batch = waiting[:_BATCH_SIZE]
                # The newest token is valid for longest.
                await self._recall.RecordContexts(
                    recall_pb2.RecordContextsRequest(records=[each.record for each in batch]),
                    timeout=_CALL_SECONDS,
                    metadata=((AUTHORIZATION_KEY, f"Bearer {batch[-1].identity_token}"),),
                )
                del waiting[: len(batch)]
                self._count -= len(batch)
        except (RpcError, aio.AioRpcError) as error:
            oldest = asyncio.get_running_loop().time() - _MAX_WAIT_SECONDS
            kept = [each for each in waiting if each.create_seconds >= oldest]
            lost_count = len(waiting) - len(kept)
            self._count -= lost_count
            self._count_lost(lost_count)
            log.warning(
                "context_receipts_not_recorded", tenant_id=str(tenant_id), waiting=len(kept), lost=lost_count,
                error=type(error).__name__,
            )  # fmt: skip
            waiting[:] = kept
        if not waiting:
            del self._waiting[tenant_id]

    @staticmethod
    def _count_lost(count: int) -> None:
        if count:
            RECEIPTS_LOST.inc(count)
