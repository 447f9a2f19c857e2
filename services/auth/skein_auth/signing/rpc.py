"""The RPCs of signing keys: their public halves, and their rotation."""

from __future__ import annotations

from skein.auth.v1 import auth_pb2 as pb
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.model import Purpose, SigningKey
from skein_auth.signing.store import SigningKeyStore
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import now
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate
from skein_kit.rpc.well_known_types import to_message
from skein_kit.telemetry import logs

_PURPOSES: dict[int, Purpose] = {
    pb.SIGNING_KEY_PURPOSE_UNSPECIFIED: "identity",
    pb.SIGNING_KEY_PURPOSE_ACCESS: "access",
    pb.SIGNING_KEY_PURPOSE_CERTIFICATE: "certificate",
}

log = logs.get("auth")


class SigningKeyHandlers:
    """The signing keys of this issuer."""

    def __init__(
        self, store: SigningKeyStore, keyring: Keyring, audit: AuditRecorder, idempotency: IdempotencyStore
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._audit = audit
        self._idempotency = idempotency

    async def ListSigningKeys(self, request: pb.ListSigningKeysRequest, context: Context) -> pb.ListSigningKeysResponse:
        keys = await self._store.list_signing_keys(now(), _purpose(request.purpose))
        page, token = paginate(
            [_signing_key(key) for key in keys],
            lambda key: key.key_id,
            request,
            None,
            size=request.page_size or MAX_UNPAGED,
        )
        return pb.ListSigningKeysResponse(signing_keys=page, next_page_token=token)

    async def RotateSigningKey(
        self, request: pb.RotateSigningKeyRequest, context: Context
    ) -> pb.RotateSigningKeyResponse:
        idempotency_key = IdempotencyKey.of(caller_of(context), request)
        purpose, emergency = _purpose(request.purpose), request.emergency
        # Before the transaction: to generate a key takes a while.
        new = await self._keyring.generate(purpose)
        async with self._idempotency.begin_with_key(NO_TENANT, idempotency_key, sees_repeats=True) as write:
            if write.saved_response is not None:
                response = pb.RotateSigningKeyResponse.FromString(write.saved_response)
            else:
                await self._keyring.rotate(write.tx, new, emergency=emergency)
                key = SigningKey(key_id=new.key_id, public_jwk=new.public_jwk, create_time=new.create_time)
                response = await write.save(pb.RotateSigningKeyResponse(signing_key=_signing_key(key)))
                await self._audit.record_in(write.tx, "signing_key_rotated", target=f"signing_key:{new.key_id}")
        await self._keyring.refresh(purpose)
        if response.signing_key.key_id == new.key_id:
            log.info("signing_key_rotated", key_id=new.key_id, purpose=purpose, emergency=emergency)
        return response


def _signing_key(key: SigningKey) -> pb.SigningKey:
    return to_message(pb.SigningKey, key, jwk=key.public_jwk)


def _purpose(value: int) -> Purpose:
    return _PURPOSES[value]
