"""The RPCs of API keys and legacy tokens of a tenant."""

from __future__ import annotations

import hashlib
from uuid import UUID

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth import permissions
from skein_auth.api_keys.credential_lookup import CheckKeys
from skein_auth.api_keys.model import OVERLAP, ApiKey, ApiKeyDraft, Rotation, is_skein_credential
from skein_auth.api_keys.store import ApiKeyStore, LegacyTokenStore
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import read_time, to_message
from skein_kit.telemetry import logs

log = logs.get("auth")


class ApiKeyHandlers:
    """API keys and legacy tokens of a tenant. A repeated request gets no secret: none is stored."""

    def __init__(
        self,
        store: ApiKeyStore,
        legacy_tokens: LegacyTokenStore,
        check_keys: CheckKeys,
        idempotency: IdempotencyStore,
    ) -> None:
        self._store = store
        self._legacy_tokens = legacy_tokens
        self._check_keys = check_keys
        self._idempotency = idempotency

    async def CreateApiKey(
        self, request: auth_pb2.CreateApiKeyRequest, context: Context
    ) -> auth_pb2.CreateApiKeyResponse:
        caller = caller_of(context)
        agent_id = permissions.agent_to_grant(request.agent_id, caller)
        draft = ApiKeyDraft(
            display_name=request.display_name,
            permissions=permissions.permissions_to_grant(request.permissions, agent_id, caller),
            has_explicit_permissions=bool(request.permissions),
            agent_id=agent_id,
            expire_time=read_time(request, "expire_time"),
            created_by=caller.principal,
            creator_id=permissions.creator_id(caller),
            service_account_id=UUID(request.service_account_id) if request.service_account_id else None,
            grant_ids=caller.grant_ids,
        )
        # Before the transaction: it may need a connection of its own.
        check_key = await self._check_keys.get_newest()
        async with self._idempotency.begin(caller, request) as write:
            api_key, token = await self._store.create_api_key(write.tx, caller.require_tenant(), draft, check_key)
            response = await write.save(auth_pb2.CreateApiKeyResponse(api_key=_api_key(api_key)))
        log.info("api_key_created", api_key_id=response.api_key.api_key_id, principal=caller.principal)
        # After the save: the saved response must not contain the secret.
        response.secret = token.encode()
        return response

    async def ListApiKeys(self, request: auth_pb2.ListApiKeysRequest, context: Context) -> auth_pb2.ListApiKeysResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(tenant_id, request)
        keys = await self._store.list_api_keys(tenant_id, before=before, size=size + 1)
        page, token = pagination.fit_rows(
            keys, _api_key, lambda key: [str(key.api_key_id)], request, tenant_id, size=size
        )
        return auth_pb2.ListApiKeysResponse(api_keys=page, next_page_token=token)

    async def RevokeApiKey(
        self, request: auth_pb2.RevokeApiKeyRequest, context: Context
    ) -> auth_pb2.RevokeApiKeyResponse:
        caller, api_key_id = caller_of(context), UUID(request.api_key_id)
        async with self._idempotency.begin(caller, request) as write:
            api_key = await self._store.revoke_api_key(write.tx, caller.require_tenant(), api_key_id)
            response = await write.save(auth_pb2.RevokeApiKeyResponse(api_key=_api_key(api_key)))
        log.info("api_key_revoked", api_key_id=response.api_key.api_key_id, principal=caller.principal)
        return response

    async def AdoptApiKey(
        self, request: accounts_pb2.AdoptApiKeyRequest, context: Context
    ) -> auth_pb2.AdoptApiKeyResponse:
        caller = caller_of(context)
        permissions.require_person(caller)
        api_key_id = UUID(request.api_key_id)
        async with self._idempotency.begin(caller, request) as write:
            api_key = await self._store.adopt_api_key(write.tx, caller.require_tenant(), api_key_id, caller)
            response = await write.save(auth_pb2.AdoptApiKeyResponse(api_key=_api_key(api_key)))
        log.info("api_key_adopted", api_key_id=response.api_key.api_key_id, principal=caller.principal)
        return response

    async def RotateApiKey(
        self, request: accounts_pb2.RotateApiKeyRequest, context: Context
    ) -> auth_pb2.RotateApiKeyResponse:
        caller = caller_of(context)
        rotation = Rotation(
            api_key_id=UUID(request.api_key_id),
            overlap=request.overlap.ToTimedelta() if request.HasField("overlap") else OVERLAP,
            caller=caller,
        )
        # Before the transaction: it may need a connection of its own.
        check_key = await self._check_keys.get_newest()
        async with self._idempotency.begin(caller, request) as write:
            successor, replaced_key, token = await self._store.rotate_api_key(
                write.tx, caller.require_tenant(), rotation, check_key
            )
            response = await write.save(
                auth_pb2.RotateApiKeyResponse(api_key=_api_key(successor), replaced=_api_key(replaced_key))
            )
        log.info("api_key_rotated", api_key_id=response.replaced.api_key_id, principal=caller.principal)
        # After the save: the saved response must not contain the secret.
        response.secret = token.encode()
        return response

    async def SetLegacyToken(
        self, request: accounts_pb2.SetLegacyTokenRequest, context: Context
    ) -> accounts_pb2.SetLegacyTokenResponse:
        caller = caller_of(context)
        if is_skein_credential(request.token):
            raise FieldInvalid(violations=[("token", "looks like a credential of Skein's own")])
        secret_hash = hashlib.sha256(request.token.encode()).digest() if request.token else None
        async with self._idempotency.begin(caller, request) as write:
            await self._legacy_tokens.set_legacy_token(write.tx, caller.require_tenant(), secret_hash)
        return accounts_pb2.SetLegacyTokenResponse()


def _api_key(value: ApiKey) -> auth_pb2.ApiKey:
    return to_message(auth_pb2.ApiKey, value)
