"""RPCs: API keys and legacy tokens of a tenant."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth import permissions
from skein_auth.api_keys.model import OVERLAP, Draft, Rotation, is_skein_credential
from skein_auth.pages import id_before
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import read_time
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from skein_auth.api_keys.legacy_token_store import LegacyStore
    from skein_auth.api_keys.store import ApiKeyStore

log = logs.get("auth")


class ApiKeysRpc:
    """API keys and legacy tokens of a tenant."""

    def __init__(self, api_keys: ApiKeyStore, legacy_tokens: LegacyStore) -> None:
        self._api_keys = api_keys
        self._legacy_tokens = legacy_tokens

    async def CreateApiKey(
        self, request: auth_pb2.CreateApiKeyRequest, context: Context
    ) -> auth_pb2.CreateApiKeyResponse:
        creator = caller(context)
        draft = Draft(
            display_name=request.display_name,
            permissions=permissions.permissions_to_grant(request.permissions, creator),
            named=bool(request.permissions),
            agent_id=permissions.agent_to_grant(request.agent_id, creator),
            expire_time=read_time(request, "expire_time"),
            created_by=creator.principal,
            creator_id=permissions.creator_id(creator),
            service_account_id=UUID(request.service_account_id) if request.service_account_id else None,
            grant_ids=creator.grant_ids,
        )
        response = await self._api_keys.create_api_key(creator.tenant(), draft, IdempotencyKey.of(creator, request))
        log.info("api_key_created", api_key_id=response.api_key.api_key_id, principal=creator.principal)
        return response

    async def ListApiKeys(self, request: auth_pb2.ListApiKeysRequest, context: Context) -> auth_pb2.ListApiKeysResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, tenant_id, request))
        found = await self._api_keys.list_api_keys(tenant_id, before=before, size=size + 1)
        response = auth_pb2.ListApiKeysResponse(api_keys=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].api_key_id], tenant_id, request)
        return response

    async def RevokeApiKey(
        self, request: auth_pb2.RevokeApiKeyRequest, context: Context
    ) -> auth_pb2.RevokeApiKeyResponse:
        who = caller(context)
        api_key_id = UUID(request.api_key_id)
        response = await self._api_keys.revoke_api_key(who.tenant(), api_key_id, IdempotencyKey.of(who, request))
        log.info("api_key_revoked", api_key_id=response.api_key.api_key_id, principal=who.principal)
        return response

    async def AdoptApiKey(
        self, request: accounts_pb2.AdoptApiKeyRequest, context: Context
    ) -> auth_pb2.AdoptApiKeyResponse:
        who = caller(context)
        permissions.require_person(who)
        api_key_id = UUID(request.api_key_id)
        response = await self._api_keys.adopt_api_key(who.tenant(), api_key_id, who, IdempotencyKey.of(who, request))
        log.info("api_key_adopted", api_key_id=response.api_key.api_key_id, principal=who.principal)
        return response

    async def RotateApiKey(
        self, request: accounts_pb2.RotateApiKeyRequest, context: Context
    ) -> auth_pb2.RotateApiKeyResponse:
        who = caller(context)
        rotation = Rotation(
            api_key_id=UUID(request.api_key_id),
            overlap=request.overlap.ToTimedelta() if request.HasField("overlap") else OVERLAP,
            by=who,
        )
        response = await self._api_keys.rotate_api_key(who.tenant(), rotation, IdempotencyKey.of(who, request))
        log.info("api_key_rotated", api_key_id=response.replaced.api_key_id, principal=who.principal)
        return response

    async def SetLegacyToken(
        self, request: accounts_pb2.SetLegacyTokenRequest, context: Context
    ) -> accounts_pb2.SetLegacyTokenResponse:
        who = caller(context)
        if is_skein_credential(request.token):
            raise FieldInvalid(violations=[("token", "looks like a credential of Skein's own")])
        secret_hash = hashlib.sha256(request.token.encode()).digest() if request.token else None
        await self._legacy_tokens.set_legacy_token(who.tenant(), secret_hash, IdempotencyKey.of(who, request))
        return accounts_pb2.SetLegacyTokenResponse()
