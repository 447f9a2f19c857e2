"""Decides which answers get a receipt; makes, signs and stores receipts in the background, in batches within a second.

An answer names its receipt before the receipt is stored. What cannot be stored is counted and logged.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self
from uuid import UUID

import asyncpg
from grpc import aio
from prometheus_client import Counter

from skein.auth.v1 import auth_pb2_grpc, certificates_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit import canary
from skein_kit.access_log.writer import AccessLogKeys
from skein_kit.background import background_tasks
from skein_kit.calls.call import AUTHORIZATION_KEY, current_call
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import RpcError
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import id_time, new_id, now
from skein_kit.policies.store import Policy, shared_policy_cache
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import RECEIPTS_LOST
from skein_recall.receipts import convert
from skein_recall.receipts.model import RecordedAnswer, UnsignedReceipt, wants_receipt
from skein_recall.receipts.store import ReceiptStore
from skein_recall.search.model import RecallResult

FLUSH_SECONDS = 0.5
# Answers that wait for their receipts, with the rows of their hits; and receipts that wait to be stored.
MAX_ANSWERS = 2000
MAX_RECEIPTS = 20_000
# This number of waiting answers is written without a pause.
_FLUSH_AT = 200
_BATCH_SIZE = 200
# The token of the caller, which signs, is older then.
_MAX_WAIT_SECONDS = 30.0
_SIGN_SECONDS = 5.0
_STOP_SECONDS = 5.0
_MAINTENANCE_SECONDS = 6 * 3600.0

STORED = Counter("skein_recall_receipts_total", "Receipts of recalls and contexts that were signed and stored.")

log = logs.get("recall")


class ReceiptWriter:
    """The receipts of one process that wait to be stored."""

    def __init__(
        self, store: ReceiptStore, auth: auth_pb2_grpc.AuthInternalServiceAsyncStub, database: Database
    ) -> None:
        """Sign with `auth`, in the name of the callers; read the keys of digests from `database`."""
        self._store = store
        self._auth = auth
        self._keys = AccessLogKeys(database)
        self._answers: deque[RecordedAnswer] = deque()
        self._receipts: dict[UUID, list[UnsignedReceipt]] = {}
        self._has_answers, self._has_full_batch = asyncio.Event(), asyncio.Event()
        self._flush_lock = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Write receipts while the block runs, and the waiting ones when it ends."""
        async with background_tasks(recall_receipts=self._write_forever, receipt_months=self._maintain_forever):
            yield self
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.flush()
        self._count_lost(len(self._answers) + sum(map(len, self._receipts.values())))

    def add(self, answer: RecordedAnswer) -> None:
        """Have the receipt of an answer written; it is lost if too many wait."""
        if len(self._answers) >= MAX_ANSWERS:
            self._count_lost(1)
            return
        self._answers.append(answer)
        self._has_answers.set()
        if len(self._answers) >= _FLUSH_AT:
            self._has_full_batch.set()

    def add_contexts(self, tenant_id: UUID, receipts: Iterable[UnsignedReceipt]) -> None:
        """Have receipts of contexts signed and stored; they are lost if too many wait."""
        waiting = self._receipts.setdefault(tenant_id, [])
        added = list(receipts)
        room = max(0, MAX_RECEIPTS - len(waiting))
        waiting.extend(added[:room])
        self._count_lost(len(added[room:]))
        self._has_answers.set()

    def is_pending(self, tenant_id: UUID, receipt_id: UUID) -> bool:
        """Return whether this process still has to store a receipt, or that of its context."""
        return any(answer.receipt_id == receipt_id for answer in self._answers) or any(
            receipt.receipt_id == receipt_id for receipt in self._receipts.get(tenant_id, ())
        )

    async def flush(self) -> None:
        """Write all waiting receipts, tenant by tenant; what cannot be written waits again, up to half a minute."""
        async with self._flush_lock:
            await self._make_receipts()
            for tenant_id in list(self._receipts):
                await self._write(tenant_id)

    async def _write_forever(self) -> None:
        while True:
            await self._has_answers.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._has_full_batch.wait()
            self._has_answers.clear()
            self._has_full_batch.clear()
            await self.flush()
            if self._answers or self._receipts:
                self._has_answers.set()

    async def _maintain_forever(self) -> None:
        while True:
            try:
                await self._store.maintain(now())
            except (RpcError, asyncpg.PostgresError) as error:
                log.warning("receipt_months_failed", error=type(error).__name__)
                await asyncio.sleep(_MAX_WAIT_SECONDS)
            else:
                await asyncio.sleep(_MAINTENANCE_SECONDS)

    async def _make_receipts(self) -> None:
        loop = asyncio.get_running_loop()
        while self._answers:
            answer = self._answers[0]
            secret = b""
            if not answer.keeps_query:
                try:
                    secret = await self._keys.get(answer.tenant_id)
                except (RpcError, asyncpg.PostgresError) as error:
                    log.warning("receipt_key_unavailable", error=type(error).__name__)
                    return
            receipts = self._receipts.setdefault(answer.tenant_id, [])
            if len(receipts) < MAX_RECEIPTS:
                receipts.append(convert.unsigned_receipt(answer, secret, seconds=loop.time()))
            else:
                self._count_lost(1)
            self._answers.popleft()

    async def _write(self, tenant_id: UUID) -> None:
        """Sign and store the receipts of a tenant, and remove the stored ones and those that waited too long."""
        receipts = self._receipts[tenant_id]
        try:
            while receipts:
                batch = receipts[:_BATCH_SIZE]
                await self._sign_and_store(tenant_id, batch)
                del receipts[: len(batch)]
                STORED.inc(len(batch))
        except (RpcError, aio.AioRpcError, asyncpg.PostgresError) as error:
            oldest = asyncio.get_running_loop().time() - _MAX_WAIT_SECONDS
            waiting = [receipt for receipt in receipts if receipt.create_seconds >= oldest]
            lost_count = len(receipts) - len(waiting)
            self._count_lost(lost_count)
            log.warning(
                "receipts_not_stored", tenant_id=str(tenant_id), waiting=len(waiting), lost=lost_count,
                error=type(error).__name__,
            )  # fmt: skip
            receipts[:] = waiting
        if not receipts:
            del self._receipts[tenant_id]

    async def _sign_and_store(self, tenant_id: UUID, batch: Sequence[UnsignedReceipt]) -> None:
        request = certificates_pb2.SignRecallReceiptsRequest(
            receipt_ids=[receipt.receipt_id.bytes for receipt in batch],
            digests=[receipt.content_digest for receipt in batch],
        )
        # The newest token is valid for longest.
        token = max(batch, key=lambda receipt: receipt.create_seconds).identity_token
        response = await self._auth.SignRecallReceipts(
            request, timeout=_SIGN_SECONDS, metadata=((AUTHORIZATION_KEY, f"Bearer {token}"),)
        )
        rows = [
            receipt.columns(response.key_id, signature)
            for receipt, signature in zip(batch, response.signatures, strict=True)
        ]
        await self._store.insert(tenant_id, rows, {id_time(receipt.receipt_id) for receipt in batch})

    def _count_lost(self, count: int) -> None:
        if count:
            RECEIPTS_LOST.inc(count)


_READ_POLICY = TxOptions(plan_once=True, skip_replica=True, read_only=True)


class ReceiptRecorder:
    """Records answers as the policies of their tenants say."""

    def __init__(
        self, database: Database, writer: ReceiptWriter, random_source: Callable[[], float] = random.random
    ) -> None:
        """`random_source` returns numbers from 0 to 1."""
        self._database = database
        self._policies = shared_policy_cache(database)
        self._writer = writer
        self._random_source = random_source

    async def policy_of_receipt(self, tenant_id: UUID) -> Policy | None:
        """Return the tenant's policy if the next answer gets a receipt; None if it gets none."""
        if tenant_id in canary.CANARY_TENANT_IDS:
            return None
        policy = self._policies.get_cached(tenant_id)
        if policy is None:
            async with self._database.transaction(tenant_id, _READ_POLICY) as tx:
                policy = await self._policies.get(tx, tenant_id)
        return policy if wants_receipt(policy, self._random_source()) else None

    def record(
        self,
        caller: Caller,
        policy: Policy,
        request: pb.RecallRequest,
        result: RecallResult,
        response: pb.RecallResponse,
    ) -> None:
        """Have the receipt of an answer written, and name it in the response."""
        call, basis = current_call(), result.basis
        if call is None or basis is None:
            return
        receipt_id = new_id(now())
        self._writer.add(
            RecordedAnswer(
                tenant_id=caller.require_tenant(),
                receipt_id=receipt_id,
                principal=caller.principal,
                identity_token=call.identity_token,
                request_id=call.request_id,
                request=request,
                result=result,
                hit_count=len(response.hits),
                keeps_query=policy.audit_query_text,
                space_ids=call.space_ids,
            )
        )
        response.receipt_id = str(receipt_id)
