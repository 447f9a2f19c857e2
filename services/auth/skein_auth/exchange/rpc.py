"""The RPCs of credentials: exchange and introspection."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from skein.auth.v1 import auth_pb2 as pb
from skein_auth.api_keys.credential_lookup import CheckKeys
from skein_auth.exchange.authenticator import Authenticator
from skein_auth.exchange.model import AuthenticatedIdentity
from skein_auth.signing.keyring import Keyring
from skein_kit.calls.call import Context, caller, peer_services
from skein_kit.errors import CredentialInvalid
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp


class ExchangeHandlers:
    """Exchange and introspection of credentials."""

    def __init__(
        self, *, authenticator: Authenticator, introspector: Authenticator, keyring: Keyring, check_keys: CheckKeys
    ) -> None:
        self._authenticator = authenticator
        self._introspector = introspector
        self._keyring = keyring
        self._check_keys = check_keys

    async def Exchange(self, request: pb.ExchangeRequest, context: Context) -> pb.ExchangeResponse:
        at = now()
        tenant_id = UUID(request.tenant_id) if request.tenant_id else None
        space_ids: list[str] = []
        if request.HasField("system"):
            # The system key gives each service its own identity alone.
            if request.system.service not in peer_services(context):
                raise CredentialInvalid
            space_id = UUID(request.system.space_id) if request.system.space_id else None
            identity = await self._authenticator.authenticate_system(
                request.system.key,
                request.system.service,
                tenant_id,
                extractor=request.system.extractor,
                space_id=space_id,
            )
            if tenant_id is not None and space_id is None and not request.system.extractor:
                space_ids = await self._authenticator.space_ids(tenant_id)
        else:
            identity = await self._authenticator.authenticate_bearer(
                request.bearer, tenant_id, at, audience=request.audience
            )
        until = None if identity.expire_time is None else identity.expire_time.timestamp()
        token, seconds = await self._keyring.sign_identity(identity.caller, at=at.timestamp(), until=until)
        return pb.ExchangeResponse(
            token=token, expire_time=to_timestamp(datetime.fromtimestamp(seconds, UTC)), space_ids=space_ids
        )

    async def GetCheckKeys(self, request: pb.GetCheckKeysRequest, context: Context) -> pb.GetCheckKeysResponse:
        return pb.GetCheckKeysResponse(check_keys=await self._check_keys.get_all())

    async def Introspect(self, request: pb.IntrospectRequest, context: Context) -> pb.IntrospectResponse:
        identity = await self._introspector.introspect(request.credential, caller(context).require_tenant(), now())
        return _introspection(identity)


def _introspection(identity: AuthenticatedIdentity | None) -> pb.IntrospectResponse:
    """None is a credential that is not active; the response contains nothing else."""
    if identity is None:
        return pb.IntrospectResponse(active=False)
    return pb.IntrospectResponse(
        active=True,
        principal=identity.caller.principal,
        tenant_id=str(identity.caller.tenant_id),
        permissions=sorted(identity.caller.permissions),
        expire_time=to_timestamp(identity.expire_time),
    )
