"""Signing in with what an identity provider says, and which identities sign into an account."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from skein_auth.accounts.known_devices import KnownDevice
from skein_auth.accounts.one_time_tokens import client_address
from skein_auth.attempts.model import auth_session_subject
from skein_auth.errors import IdentityRefused, SignInRefused, SignUpClosed, TooManyAttempts
from skein_auth.login.password_login import record_failed_login
from skein_kit.ids import new_id, now
from skein_kit.network.source_network import source_network

if TYPE_CHECKING:
    from skein.auth.v1 import accounts_pb2 as pb
    from skein_auth.accounts.known_devices import KnownDevices
    from skein_auth.accounts.model import LoginCredentials
    from skein_auth.accounts.store import AccountStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.federation.providers import ProviderIdentity, Providers
    from skein_auth.federation.store import IdentityStore
    from skein_auth.second_factor.totp import Totp
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginResult:
    """What came of a sign-in."""

    account: pb.Account
    tokens: pb.SignInTokens
    # The account was made on the way.
    created: bool
    device_token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class FederatedLogin:
    """The identities of all accounts."""

    store: IdentityStore
    providers: Providers
    sign_ins: AuthSessions
    totp: Totp
    accounts: AccountStore
    devices: KnownDevices
    attempts: AttemptLimiter
    audit: AuditRecorder
    # Whoever has an identity gets an account; else only those whose identity is linked sign in with it.
    sign_up_open: bool

    async def sign_in(self, request: pb.SignInWithIdentityRequest) -> LoginResult:
        """Begin a sign-in of the account that the identity signs into; where sign-up is open one is made if need be."""
        source, account_id = source_network(client_address()), None
        shown = await self._shown_device(request.device_token)
        try:
            proof = await self._proof(request, source, shown)
            account, created = await self._account(proof, source)
            account_id = UUID(account.account_id)
            credentials, device = await self._let_in(account_id, request.second_factor, shown)
        except SignInRefused as refusal:
            target = f"identity:{request.provider}" if account_id is None else ""
            await record_failed_login(self.attempts, self.audit, refusal, source, account_id, target)
            raise
        at = now()
        tokens = await self.sign_ins.begin_own(account_id, at=at)
        await self.audit.record(
            "sign_in", account_id=account_id, principal=f"account:{account_id}", target=f"identity:{request.provider}"
        )
        known = KnownDevice(
            account_id=account_id,
            device_id=new_id(at) if device is None else device.device_id,
            generation=credentials.device_generation,
            sign_in_time=at,
        )
        return LoginResult(account=account, tokens=tokens, created=created, device_token=self.devices.token(known))

    async def link(
        self, who: Caller, provider: str, token: str, nonce: str, once: IdempotencyKey
    ) -> pb.LinkIdentityResponse:
        """Let the identity sign into the account, once for each request: its proof may have expired since."""
        if once.request_id and (first := await self.store.answered(once)) is not None:
            return first
        await self.sign_ins.must_be_recent(who)
        account_id = who.account()
        async with self.attempts.failing(("own_proof", auth_session_subject(who))):
            proof = await self.providers.prove(provider, token, nonce)
            return await self.store.link(account_id, proof, once)

    async def _shown_device(self, device_token: str) -> KnownDevice | None:
        """Return the device that its account knows, whatever account the identity signs into."""
        shown = self.devices.read(device_token, now())
        account = None if shown is None else await self.accounts.credentials(shown.account_id)
        return self.devices.known(device_token, account, now())

    async def _let_in(
        self, account_id: UUID, second_factor: str, shown: KnownDevice | None
    ) -> tuple[LoginCredentials, KnownDevice | None]:
        """Return what signs into the account, and the device if the account knows it."""
        credentials = await self.accounts.credentials(account_id)
        if credentials is None or not credentials.active:
            raise SignInRefused
        device = shown if shown is not None and shown.account_id == account_id else None
        if credentials.has_second_factor:
            async with AsyncExitStack() as attempt:
                if device is not None:
                    with suppress(TooManyAttempts):
                        await attempt.enter_async_context(self.attempts.failing(("device", str(device.device_id))))
                        await self.totp.check(account_id, second_factor)
                        return credentials, device
                await attempt.enter_async_context(self.attempts.failing(("second_factor", str(account_id))))
                await self.totp.check(account_id, second_factor)
        return credentials, device

    async def _proof(
        self, request: pb.SignInWithIdentityRequest, source: str, shown: KnownDevice | None
    ) -> ProviderIdentity:
        """Return whom the provider says the token is of. Raises SignInRefused, or TooManyAttempts.

        A provider that is called for each token bounds our calls, so who sent too many wrong tokens waits: a device
        that its account knows, or a source.
        """
        async with AsyncExitStack() as attempt:
            if self.providers.is_called_for_each(request.provider):
                counted = ("identity", source) if shown is None else ("device", str(shown.device_id))
                await attempt.enter_async_context(self.attempts.failing(counted))
            try:
                return await self.providers.prove(request.provider, request.token, request.nonce)
            except IdentityRefused:
                raise SignInRefused from None

    async def _account(self, proof: ProviderIdentity, address: str) -> tuple[pb.Account, bool]:
        """Return the account, and whether it was made just now; of those who come first at once one makes it."""
        found = await self.store.find(proof)
        if found is not None:
            return found, False
        if not self.sign_up_open:
            raise SignUpClosed
        await self.attempts.charge("sign_up", address)
        created = await self.store.create_account(proof)
        found = await self.store.find(proof)
        if found is None:
            # Made and deleted within a moment.
            raise SignInRefused
        return found, created
