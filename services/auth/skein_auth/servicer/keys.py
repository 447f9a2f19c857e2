"""The RPCs that concern API keys and signing keys: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import auth_pb2 as pb
from skein_auth import permissions, wire
from skein_auth.keys import Draft
from skein_auth.servicer.rpcs import Rpcs
from skein_kit import logs, pages
from skein_kit.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import now, parse_id
from skein_kit.requests import Once
from skein_kit.wire import moment

log = logs.get("auth")


class KeyRpcs(Rpcs):
    """API keys, and the public halves of the signing keys."""

    async def GetMe(self, request: pb.GetMeRequest, context: Context) -> pb.GetMeResponse:
        return wire.me(caller(context))

    async def CreateApiKey(self, request: pb.CreateApiKeyRequest, context: Context) -> pb.CreateApiKeyResponse:
        creator = caller(context)
        draft = Draft(
            display_name=request.display_name,
            permissions=permissions.granted(request.permissions, creator),
            agent_id=permissions.agent(request.agent_id, creator),
            expire_time=moment(request, "expire_time"),
            created_by=creator.principal,
            creator_id=permissions.creator_id(creator),
        )
        response = await self._parts.keys.create_api_key(creator.tenant(), draft, Once.of(creator, request))
        log.info("api_key_created", api_key_id=response.api_key.api_key_id, principal=creator.principal)
        return response

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        tenant_id = caller(context).tenant()
        size = pages.page_size(request.page_size)
        before = _id_before(pages.read_token(request.page_token, tenant_id, request))
        found = await self._parts.keys.list_api_keys(tenant_id, before=before, size=size + 1)
        response = pb.ListApiKeysResponse(api_keys=found[:size])
        if len(found) > size:
            response.next_page_token = pages.write_token([found[size - 1].api_key_id], tenant_id, request)
        return response

    async def RevokeApiKey(self, request: pb.RevokeApiKeyRequest, context: Context) -> pb.RevokeApiKeyResponse:
        who = caller(context)
        response = await self._parts.keys.revoke_api_key(who.tenant(), UUID(request.api_key_id), Once.of(who, request))
        log.info("api_key_revoked", api_key_id=response.api_key.api_key_id, principal=who.principal)
        return response

    async def Introspect(self, request: pb.IntrospectRequest, context: Context) -> pb.IntrospectResponse:
        found = await self._parts.identities.introspect(request.credential, caller(context).tenant(), now())
        return wire.introspection(found)

    async def ListSigningKeys(self, request: pb.ListSigningKeysRequest, context: Context) -> pb.ListSigningKeysResponse:
        return pb.ListSigningKeysResponse(signing_keys=await self._parts.keys.list_signing_keys(now()))

    async def RotateSigningKey(
        self, request: pb.RotateSigningKeyRequest, context: Context
    ) -> pb.RotateSigningKeyResponse:
        return await self._parts.keyring.rotate(Once.of(caller(context), request))


def _id_before(place: list[str] | None) -> UUID | None:
    if place is None:
        return None
    found = parse_id(place[0]) if place else None
    if found is None:
        raise PageTokenInvalid
    return found
