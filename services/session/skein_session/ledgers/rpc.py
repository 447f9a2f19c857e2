"""The RPCs by which the gateway keeps context ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.session.v1 import ledgers_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.ids import now
from skein_session.ledgers import convert

if TYPE_CHECKING:
    from skein_session.ledgers.store import LedgerStore


class LedgerHandlers:
    """Reads and stores ledgers of the caller."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    async def GetContextLedger(
        self, request: pb.GetContextLedgerRequest, context: Context
    ) -> pb.GetContextLedgerResponse:
        row = await self._store.get_ledger(caller_of(context), request.ledger_id, now())
        return pb.GetContextLedgerResponse(ledger=None if row is None else convert.ledger(row))

    async def PutContextLedger(
        self, request: pb.PutContextLedgerRequest, context: Context
    ) -> pb.PutContextLedgerResponse:
        at = now()
        await self._store.put_ledger(
            caller_of(context), convert.columns(request.ledger, at), last_revision=request.last_revision, at=at
        )
        return pb.PutContextLedgerResponse(revision=request.ledger.revision)
