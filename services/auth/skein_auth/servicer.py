"""The RPCs of AuthService and IdentityService: parse, one call, reply."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import auth_pb2 as pb
from skein.auth.v1 import auth_pb2_grpc as rpc
from skein_auth import permissions, wire
from skein_auth.keys import Draft
from skein_kit import logs, pages
from skein_kit.call import Context, caller
from skein_kit.errors import PageTokenInvalid
from skein_kit.identity import sign
from skein_kit.ids import now, parse_id
from skein_kit.requests import Once
from skein_kit.wire import moment

if TYPE_CHECKING:
    from skein_auth.identities import Identities
    from skein_auth.signing import Keyring
    from skein_auth.store import Store

log = logs.get("auth")


class AuthServicer(rpc.AuthServiceServicer):
    """API keys, and the public halves of the signing keys."""

    def __init__(self, store: Store, keyring: Keyring, identities: Identities) -> None:
        self._store = store
        self._keyring = keyring
        self._identities = identities

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
        response = await self._store.create_api_key(creator.tenant(), draft, Once.of(creator, request))
        log.info("api_key_created", api_key_id=response.api_key.api_key_id, principal=creator.principal)
        return response

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        tenant_id = caller(context).tenant()
        size = pages.page_size(request.page_size)
        before = _id_before(pages.read_token(request.page_token, tenant_id, request))
        found = await self._store.list_api_keys(tenant_id, before=before, size=size + 1)
        response = pb.ListApiKeysResponse(api_keys=found[:size])
        if len(found) > size:
            response.next_page_token = pages.write_token([found[size - 1].api_key_id], tenant_id, request)
        return response

    async def RevokeApiKey(self, request: pb.RevokeApiKeyRequest, context: Context) -> pb.RevokeApiKeyResponse:
        who = caller(context)
        response = await self._store.revoke_api_key(who.tenant(), UUID(request.api_key_id), Once.of(who, request))
        log.info("api_key_revoked", api_key_id=response.api_key.api_key_id, principal=who.principal)
        return response

    async def Introspect(self, request: pb.IntrospectRequest, context: Context) -> pb.IntrospectResponse:
        found = await self._identities.introspect(request.credential, caller(context).tenant(), now())
        return wire.introspection(found)

    async def ListSigningKeys(self, request: pb.ListSigningKeysRequest, context: Context) -> pb.ListSigningKeysResponse:
        return pb.ListSigningKeysResponse(signing_keys=await self._store.list_signing_keys(now()))

    async def RotateSigningKey(
        self, request: pb.RotateSigningKeyRequest, context: Context
    ) -> pb.RotateSigningKeyResponse:
        return await self._keyring.rotate(Once.of(caller(context), request))


class IdentityServicer(rpc.IdentityServiceServicer):
    """The exchange of credentials for signed identities."""

    def __init__(self, store: Store, keyring: Keyring, identities: Identities) -> None:
        self._store = store
        self._keyring = keyring
        self._identities = identities

    async def Exchange(self, request: pb.ExchangeRequest, context: Context) -> pb.ExchangeResponse:
        at = now()
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        if request.HasField("system"):
            identity = await self._identities.of_system(request.system.key, request.system.service, tenant_id)
        else:
            identity = await self._identities.of_bearer(request.bearer, tenant_id, at)
        until = None if identity.expire_time is None else identity.expire_time.timestamp()
        return wire.exchanged(*sign(identity.caller, key=await self._keyring.active(), at=at.timestamp(), until=until))

    async def DeleteExpired(self, request: pb.DeleteExpiredRequest, context: Context) -> pb.DeleteExpiredResponse:
        deleted = await self._store.delete_expired(caller(context).tenant(), now())
        return pb.DeleteExpiredResponse(deleted_count=deleted)


def _id_before(place: list[str] | None) -> UUID | None:
    if place is None:
        return None
    found = parse_id(place[0]) if place else None
    if found is None:
        raise PageTokenInvalid
    return found
