"""RPCs: the public halves of the signing keys, and their rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2
from skein_auth.signing import convert
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate

if TYPE_CHECKING:
    from skein_auth.signing.keyring import Keyring
    from skein_auth.signing.store import SigningKeyStore


class SigningKeysRpc:
    """The public halves of the signing keys, and their rotation."""

    def __init__(self, store: SigningKeyStore, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    async def ListSigningKeys(
        self, request: auth_pb2.ListSigningKeysRequest, context: Context
    ) -> auth_pb2.ListSigningKeysResponse:
        keys = await self._store.list_signing_keys(now(), convert.purpose(request.purpose))
        page, token = paginate(keys, lambda key: key.key_id, request, None, size=request.page_size or MAX_UNPAGED)
        return auth_pb2.ListSigningKeysResponse(signing_keys=page, next_page_token=token)

    async def RotateSigningKey(
        self, request: auth_pb2.RotateSigningKeyRequest, context: Context
    ) -> auth_pb2.RotateSigningKeyResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._keyring.rotate(once, convert.purpose(request.purpose), emergency=request.emergency)
