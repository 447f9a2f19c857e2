"""The RPCs of credentials: exchange and introspection."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import auth_pb2
from skein_auth.exchange import convert
from skein_kit.calls.call import Context, caller
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein_auth.api_keys.check_keys import CheckKeys
    from skein_auth.exchange.authenticator import Authenticator
    from skein_auth.signing.keyring import Keyring


class ExchangeHandlers:
    """Exchange and introspection of credentials."""

    def __init__(
        self, *, authenticator: Authenticator, introspector: Authenticator, keyring: Keyring, check_keys: CheckKeys
    ) -> None:
        self._authenticator = authenticator
        self._introspector = introspector
        self._keyring = keyring
        self._check_keys = check_keys

    async def Exchange(self, request: auth_pb2.ExchangeRequest, context: Context) -> auth_pb2.ExchangeResponse:
        at = now()
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        if request.HasField("system"):
            identity = await self._authenticator.authenticate_system(
                request.system.key, request.system.service, tenant_id
            )
        else:
            identity = await self._authenticator.authenticate_bearer(
                request.bearer, tenant_id, at, audience=request.audience
            )
        until = None if identity.expire_time is None else identity.expire_time.timestamp()
        return convert.exchange_response(
            *await self._keyring.sign_identity(identity.caller, at=at.timestamp(), until=until)
        )

    async def GetCheckKeys(
        self, request: auth_pb2.GetCheckKeysRequest, context: Context
    ) -> auth_pb2.GetCheckKeysResponse:
        return auth_pb2.GetCheckKeysResponse(check_keys=await self._check_keys.all())

    async def Introspect(self, request: auth_pb2.IntrospectRequest, context: Context) -> auth_pb2.IntrospectResponse:
        identity = await self._introspector.introspect(request.credential, caller(context).tenant(), now())
        return convert.introspection(identity)
