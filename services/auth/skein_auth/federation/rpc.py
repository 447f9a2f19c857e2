"""The RPCs of identities: login with a provider, and the identities of the calling account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert
from skein_auth.accounts.known_devices import KnownDevice, KnownDevices
from skein_auth.accounts.model import Account, LoginCredentials
from skein_auth.accounts.store import AccountStore
from skein_auth.attempts.limiter import AttemptLimiter, auth_session_subject
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.rpc import session_tokens
from skein_auth.errors import IdentityRefused, SignInRefused, SignUpClosed, TooManyAttempts
from skein_auth.federation.providers import Providers
from skein_auth.federation.store import IdentityProof, IdentityStore, LinkedIdentity, ProviderIdentity
from skein_auth.login.password_login import LoginResult, record_failed_login
from skein_auth.second_factor.totp import Totp
from skein_kit.calls.call import Context, client_address
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.network.source_network import source_network
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


@dataclass(frozen=True, kw_only=True, slots=True)
class FederatedLogin:
    """Logins with an identity provider."""

    store: IdentityStore
    providers: Providers
    auth_sessions: AuthSessions
    totp: Totp
    accounts: AccountStore
    devices: KnownDevices
    attempts: AttemptLimiter
    audit: AuditRecorder
    # Every identity gets an account; else only linked identities log in.
    is_sign_up_open: bool

    async def login(self, proof: IdentityProof, *, second_factor: str, device_token: str) -> LoginResult:
        """Begin an auth session of the identity's account; where sign-up is open, create the account if needed."""
        source, account_id = source_network(client_address()), None
        device = await self._known_device(device_token)
        try:
            identity = await self._verify(proof, source, device)
            account, is_new_account = await self._find_or_create(identity, source)
            account_id = account.account_id
            credentials, own_device = await self._check_second_factor(account_id, second_factor, device)
        except SignInRefused as error:
            target = f"identity:{proof.provider}" if account_id is None else ""
            await record_failed_login(self.attempts, self.audit, error, source, account_id, target)
            raise
        at = now()
        tokens = await self.auth_sessions.begin(account_id, at=at)
        await self.audit.record(
            "sign_in", account_id=account_id, principal=f"account:{account_id}", target=f"identity:{proof.provider}"
        )
        renewed_device_token = self.devices.renew(credentials, own_device, at)
        return LoginResult(
            account=account, tokens=tokens, is_new_account=is_new_account, device_token=renewed_device_token
        )

    @asynccontextmanager
    async def verified_identity(self, caller: Caller, proof: IdentityProof) -> AsyncIterator[ProviderIdentity]:
        """Yield the identity that the token proves. Errors of proof and block count as attempts of the caller."""
        async with self.attempts.limit_failures(("own_proof", auth_session_subject(caller))):
            yield await self.providers.verify_token(proof)

    async def _known_device(self, device_token: str) -> KnownDevice | None:
        """Return the device, if the account that its token names knows it."""
        device = self.devices.read(device_token, now())
        account = None if device is None else await self.accounts.get_credentials(device.account_id)
        return self.devices.recognize(device_token, account, now())

    async def _check_second_factor(
        self, account_id: UUID, second_factor: str, device: KnownDevice | None
    ) -> tuple[LoginCredentials, KnownDevice | None]:
        """Return the account's credentials, and the device if it is this account's. Raises SignInRefused."""
        credentials = await self.accounts.get_credentials(account_id)
        if credentials is None or not credentials.active:
            raise SignInRefused
        own_device = device if device is not None and device.account_id == account_id else None
        if credentials.has_second_factor:
            async with AsyncExitStack() as limits:
                if own_device is not None:
                    with suppress(TooManyAttempts):
                        await limits.enter_async_context(
                            self.attempts.limit_failures(("device", str(own_device.device_id)))
                        )
                        await self.totp.check(account_id, second_factor)
                        return credentials, own_device
                await limits.enter_async_context(self.attempts.limit_failures(("second_factor", str(account_id))))
                await self.totp.check(account_id, second_factor)
        return credentials, own_device

    async def _verify(self, proof: IdentityProof, source: str, device: KnownDevice | None) -> ProviderIdentity:
        """Return the identity that the token proves. Raises SignInRefused and TooManyAttempts.

        A provider that auth calls for each token limits those calls. So a known device, or else a source, that sent
        too many wrong tokens is refused.
        """
        async with AsyncExitStack() as limits:
            if self.providers.is_called_for_each_token(proof.provider):
                subject = ("identity", source) if device is None else ("device", str(device.device_id))
                await limits.enter_async_context(self.attempts.limit_failures(subject))
            try:
                return await self.providers.verify_token(proof)
            except IdentityRefused:
                raise SignInRefused from None

    async def _find_or_create(self, identity: ProviderIdentity, address: str) -> tuple[Account, bool]:
        """Return the account, and whether this call created it; of concurrent first calls, one creates it."""
        account = await self.store.find_account(identity)
        if account is not None:
            return account, False
        if not self.is_sign_up_open:
            raise SignUpClosed
        await self.attempts.charge("sign_up", address)
        is_new_account = await self.store.create_account(identity)
        account = await self.store.find_account(identity)
        if account is None:
            # Deleted right after its creation.
            raise SignInRefused
        return account, is_new_account
