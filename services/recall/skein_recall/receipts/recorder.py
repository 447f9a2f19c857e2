"""Decides which answers get a receipt, and hands them to the writer."""

from __future__ import annotations

import random
from collections.abc import Callable
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit import canary
from skein_kit.calls.call import current_call
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import new_id, now
from skein_kit.policies.store import Policy, shared_policy_cache
from skein_recall.receipts.model import RecordedAnswer, wants_receipt
from skein_recall.receipts.writer import ReceiptWriter
from skein_recall.search.model import RecallResult

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
