"""The RPC that signs receipts of recalls."""

from __future__ import annotations

import asyncio
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skein.auth.v1 import certificates_pb2 as pb
from skein_auth.signing.keyring import Keyring
from skein_kit import recall_receipts
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of


class RecallReceiptHandlers:
    """Signs receipts of the caller's tenant: no signature is valid for another one."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    async def SignRecallReceipts(
        self, request: pb.SignRecallReceiptsRequest, context: Context
    ) -> pb.SignRecallReceiptsResponse:
        tenant_id = caller_of(context).require_tenant()
        key_id, key = await self._keyring.certificate_key()
        # Hundreds of signatures would block the event loop.
        signatures = await asyncio.to_thread(_sign_all, key, tenant_id, request)
        return pb.SignRecallReceiptsResponse(key_id=key_id, signatures=signatures)


def _sign_all(key: Ed25519PrivateKey, tenant_id: UUID, request: pb.SignRecallReceiptsRequest) -> list[bytes]:
    return [
        recall_receipts.sign(key, tenant_id, UUID(bytes=receipt_id), digest)
        for receipt_id, digest in zip(request.receipt_ids, request.digests, strict=True)
    ]
