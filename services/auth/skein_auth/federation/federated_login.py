"""Login with an identity provider, and the proof of an identity that is to be linked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from skein_auth.accounts.known_devices import KnownDevice, KnownDevices
from skein_auth.accounts.model import Account, LoginCredentials
from skein_auth.accounts.store import AccountStore
from skein_auth.attempts.limiter import AttemptLimiter, auth_session_subject
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.errors import IdentityRefused, SignInRefused, SignUpClosed, TooManyAttempts
from skein_auth.federation.model import IdentityProof, ProviderIdentity
from skein_auth.federation.providers import Providers
from skein_auth.federation.store import IdentityStore
from skein_auth.login.password_login import LoginResult, record_failed_login
from skein_auth.second_factor.totp import Totp
from skein_kit.calls.call import client_address
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.network.source_network import source_network


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
