"""The RPCs of identities: login with a provider, and the identities of the calling account."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.rpc import session_tokens
from skein_auth.federation.federated_login import FederatedLogin
from skein_auth.federation.model import IdentityProof, LinkedIdentity
from skein_auth.federation.store import IdentityStore
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate
from skein_kit.rpc.well_known_types import to_message


class FederationHandlers:
    """Login with an identity provider, and linked identities."""

    def __init__(
        self,
        login: FederatedLogin,
        store: IdentityStore,
        auth_sessions: AuthSessions,
        idempotency: IdempotencyStore,
    ) -> None:
        self._login = login
        self._store = store
        self._auth_sessions = auth_sessions
        self._idempotency = idempotency

    async def SignInWithIdentity(
        self, request: pb.SignInWithIdentityRequest, context: Context
    ) -> pb.SignInWithIdentityResponse:
        result = await self._login.login(
            _proof(request), second_factor=request.second_factor, device_token=request.device_token
        )
        return pb.SignInWithIdentityResponse(
            tokens=session_tokens(result.tokens),
            account=convert.account(result.account),
            created=result.is_new_account,
            device_token=result.device_token,
        )

    async def LinkIdentity(self, request: pb.LinkIdentityRequest, context: Context) -> pb.LinkIdentityResponse:
        caller = caller_of(context)
        idempotency_key = IdempotencyKey.of(caller, request)
        # Before the proof, which may have expired since the first request.
        saved_response = await self._idempotency.saved_response(NO_TENANT, idempotency_key)
        if saved_response is not None:
            return pb.LinkIdentityResponse.FromString(saved_response)
        await self._auth_sessions.require_recent_login(caller)
        async with (
            self._login.verified_identity(caller, _proof(request)) as identity,
            self._idempotency.begin_with_key(NO_TENANT, idempotency_key) as write,
        ):
            linked_identity = await self._store.link(write.tx, caller.require_account(), identity)
            return await write.save(pb.LinkIdentityResponse(identity=_identity(linked_identity)))

    async def UnlinkIdentity(self, request: pb.UnlinkIdentityRequest, context: Context) -> pb.UnlinkIdentityResponse:
        caller = caller_of(context)
        async with self._idempotency.begin_with_key(
            NO_TENANT, IdempotencyKey.of(caller, request), sees_repeats=True
        ) as write:
            if write.saved_response is None:
                await self._store.unlink(write.tx, caller.require_account(), UUID(request.identity_id))
        return pb.UnlinkIdentityResponse()

    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Context) -> pb.ListIdentitiesResponse:
        identities = await self._store.list_identities(caller_of(context).require_account())
        page, token = paginate(
            [_identity(identity) for identity in identities],
            lambda identity: identity.identity_id,
            request,
            None,
            size=request.page_size or MAX_UNPAGED,
        )
        return pb.ListIdentitiesResponse(identities=page, next_page_token=token)


def _proof(request: pb.SignInWithIdentityRequest | pb.LinkIdentityRequest) -> IdentityProof:
    return IdentityProof(provider=request.provider, token=request.token, nonce=request.nonce)


def _identity(value: LinkedIdentity) -> pb.Identity:
    return to_message(pb.Identity, value)
