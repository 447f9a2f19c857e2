"""The RPCs of receipts: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_recall.receipts import convert

if TYPE_CHECKING:
    from skein_recall.receipts.reader import ReceiptReader


class ReceiptHandlers:
    """Receipts of the caller's tenant."""

    def __init__(self, reader: ReceiptReader) -> None:
        self._reader = reader

    async def GetRecallReceipt(
        self, request: pb.GetRecallReceiptRequest, context: Context
    ) -> pb.GetRecallReceiptResponse:
        signed, content = await self._reader.read(caller_of(context), UUID(request.receipt_id))
        return pb.GetRecallReceiptResponse(receipt=convert.receipt(signed, content))
