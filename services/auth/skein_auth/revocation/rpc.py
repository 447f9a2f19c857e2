"""The operator's RPCs that end or replace credentials of others: parse, one call, reply."""

from __future__ import annotations

import hashlib
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.api_keys.model import is_skein_credential
from skein_auth.rpc_group import Rpcs
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey


class RevocationRpcs(Rpcs):
    """What the operator does about credentials."""

    async def RevokeCredentials(
        self, request: pb.RevokeCredentialsRequest, context: Context
    ) -> pb.RevokeCredentialsResponse:
        once, revocation = IdempotencyKey.of(caller(context), request), self._parts.revocation
        match request.WhichOneof("of"):
            case "account_id":
                return await revocation.of_account(UUID(request.account_id), once)
            case "tenant_id":
                return await revocation.of_tenant(UUID(request.tenant_id), once, keys=request.keys)
            case _:
                return await revocation.of_client(request.client_id, once)

    async def SetLegacyToken(self, request: pb.SetLegacyTokenRequest, context: Context) -> pb.SetLegacyTokenResponse:
        who = caller(context)
        if is_skein_credential(request.token):
            raise FieldInvalid(violations=[("token", "looks like a credential of Skein's own")])
        secret_hash = hashlib.sha256(request.token.encode()).digest() if request.token else None
        await self._parts.legacy.set_legacy_token(who.tenant(), secret_hash, IdempotencyKey.of(who, request))
        return pb.SetLegacyTokenResponse()
