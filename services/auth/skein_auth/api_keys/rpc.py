"""The RPCs that concern API keys and signing keys: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2
from skein.auth.v1 import auth_pb2 as pb
from skein_auth import convert as wire
from skein_auth import permissions
from skein_auth.api_keys.model import OVERLAP, Draft, Rotation
from skein_auth.rpc_group import Rpcs, id_before
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate
from skein_kit.rpc.well_known_types import read_time
from skein_kit.telemetry import logs

log = logs.get("auth")


class KeyRpcs(Rpcs):
    """API keys, and the public halves of the signing keys."""

    async def CreateApiKey(self, request: pb.CreateApiKeyRequest, context: Context) -> pb.CreateApiKeyResponse:
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
        response = await self._parts.api_keys.create_api_key(
            creator.tenant(), draft, IdempotencyKey.of(creator, request)
        )
        log.info("api_key_created", api_key_id=response.api_key.api_key_id, principal=creator.principal)
        return response

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        tenant_id = caller(context).tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, tenant_id, request))
        found = await self._parts.api_keys.list_api_keys(tenant_id, before=before, size=size + 1)
        response = pb.ListApiKeysResponse(api_keys=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].api_key_id], tenant_id, request)
        return response

    async def RevokeApiKey(self, request: pb.RevokeApiKeyRequest, context: Context) -> pb.RevokeApiKeyResponse:
        who = caller(context)
        api_key_id = UUID(request.api_key_id)
        response = await self._parts.api_keys.revoke_api_key(who.tenant(), api_key_id, IdempotencyKey.of(who, request))
        log.info("api_key_revoked", api_key_id=response.api_key.api_key_id, principal=who.principal)
        return response

    async def AdoptApiKey(self, request: accounts_pb2.AdoptApiKeyRequest, context: Context) -> pb.AdoptApiKeyResponse:
        who = caller(context)
        permissions.require_person(who)
        api_key_id = UUID(request.api_key_id)
        response = await self._parts.api_keys.adopt_api_key(
            who.tenant(), api_key_id, who, IdempotencyKey.of(who, request)
        )
        log.info("api_key_adopted", api_key_id=response.api_key.api_key_id, principal=who.principal)
        return response

    async def RotateApiKey(
        self, request: accounts_pb2.RotateApiKeyRequest, context: Context
    ) -> pb.RotateApiKeyResponse:
        who = caller(context)
        rotation = Rotation(
            api_key_id=UUID(request.api_key_id),
            overlap=request.overlap.ToTimedelta() if request.HasField("overlap") else OVERLAP,
            by=who,
        )
        response = await self._parts.api_keys.rotate_api_key(who.tenant(), rotation, IdempotencyKey.of(who, request))
        log.info("api_key_rotated", api_key_id=response.replaced.api_key_id, principal=who.principal)
        return response

    async def Introspect(self, request: pb.IntrospectRequest, context: Context) -> pb.IntrospectResponse:
        found = await self._parts.introspecting.introspect(request.credential, caller(context).tenant(), now())
        return wire.introspection(found)

    async def ListSigningKeys(self, request: pb.ListSigningKeysRequest, context: Context) -> pb.ListSigningKeysResponse:
        keys = await self._parts.keys.list_signing_keys(now(), wire.purpose(request.purpose))
        page, token = paginate(keys, lambda key: key.key_id, request, None, size=request.page_size or MAX_UNPAGED)
        return pb.ListSigningKeysResponse(signing_keys=page, next_page_token=token)

    async def RotateSigningKey(
        self, request: pb.RotateSigningKeyRequest, context: Context
    ) -> pb.RotateSigningKeyResponse:
        once = IdempotencyKey.of(caller(context), request)
        return await self._parts.keyring.rotate(once, wire.purpose(request.purpose), emergency=request.emergency)
