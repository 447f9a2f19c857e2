"""Signing in with an address and a password, and out again.

The wrong passwords of a stranger count for one account and one source. Two things pass that count: a known device,
which has a count of its own, and the right second factor together with the right password.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from skein_auth.accounts.known_devices import KnownDevice
from skein_auth.accounts.model import normal_email
from skein_auth.accounts.one_time_tokens import client_address
from skein_auth.accounts.password_queue import QueueKey
from skein_auth.attempts.model import is_failure
from skein_auth.attempts.subjects import subject_at_network
from skein_auth.errors import SignInRefused, TooManyAttempts
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import Overloaded, RpcError, TransactionConflict
from skein_kit.ids import new_id, now
from skein_kit.network.source_network import source_network

if TYPE_CHECKING:
    from skein.auth.v1 import accounts_pb2 as pb
    from skein_auth.accounts.known_devices import KnownDevices
    from skein_auth.accounts.model import LoginCredentials
    from skein_auth.accounts.passwords import PasswordCheck, Passwords
    from skein_auth.accounts.store import AccountStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.second_factor.totp import Totp
    from skein_kit.identity.identity_token import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginAttempt:
    """What a caller shows to sign in."""

    # The address of the account, as it is looked up.
    email: str
    password: str
    second_factor: str
    # None: a device that the account does not know.
    device: KnownDevice | None
    source: str

    @property
    def place(self) -> QueueKey:
        """Return where its passwords stand in the queue."""
        return QueueKey.of_source(self.source) if self.device is None else QueueKey.of_devices(self.device.account_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class PasswordLogin:
    """The way in with a password."""

    store: AccountStore
    passwords: Passwords
    totp: Totp
    sign_ins: AuthSessions
    devices: KnownDevices
    attempts: AttemptLimiter
    audit: AuditRecorder

    async def sign_in(self, request: pb.SignInRequest) -> tuple[pb.SignInTokens, pb.Account, str]:
        """Begin a sign-in; return its tokens, the account and a device token.

        Whatever is wrong is one answer; only the right password learns of a second factor.
        """
        email, source = normal_email(request.email), source_network(client_address())
        found = await self.store.credentials_of(email)
        proof = LoginAttempt(
            email=email,
            password=request.password,
            second_factor=request.second_factor,
            device=self.devices.known(request.device_token, found, now()),
            source=source,
        )
        try:
            account = await self._proved(found, proof)
        except RpcError as refusal:
            account_id = None if found is None else found.account_id
            await record_failed_login(self.attempts, self.audit, refusal, source, account_id)
            raise
        at = now()
        tokens = await self.sign_ins.begin_own(account.account_id, at=at)
        await self._still_as_proved(account, tokens)
        await self.audit.record("sign_in", account_id=account.account_id, principal=f"account:{account.account_id}")
        device = KnownDevice(
            account_id=account.account_id,
            device_id=new_id(at) if proof.device is None else proof.device.device_id,
            generation=account.device_generation,
            sign_in_time=at,
        )
        return tokens, await self.store.get_account(account.account_id), self.devices.token(device)

    async def refresh(self, refresh_token: str) -> pb.SignInTokens:
        """Replace a refresh token."""
        return await self.sign_ins.refresh_own(refresh_token)

    async def sign_out(self, who: Caller) -> None:
        """End the sign-in that calls."""
        if who.sign_in_id is not None and await self.sign_ins.revoke(NO_TENANT, who.sign_in_id, "sign_out"):
            await self.audit.record("sign_out")

    async def list_sessions(self, who: Caller, before: UUID | None, size: int) -> list[pb.AuthSession]:
        """Read a page of the live sign-ins of who calls, newest first, and say which one calls."""
        found = await self.sign_ins.list_of(who.account(), before, size)
        for session in found:
            session.current = session.auth_session_id == str(who.sign_in_id)
        return found

    async def _proved(self, found: LoginCredentials | None, proof: LoginAttempt) -> LoginCredentials:
        """Return the account whose password and second factor these are, within the limits on attempts."""
        async with AsyncExitStack() as attempt:
            if proof.device is not None:
                with suppress(TooManyAttempts):
                    await attempt.enter_async_context(self.attempts.failing(("device", str(proof.device.device_id))))
                    account = await self._with_password(found, proof)
                    await self.totp.check(account.account_id, proof.second_factor)
                    return account
                # A device that failed too often counts as unknown.
                proof = replace(proof, device=None)
            try:
                await attempt.enter_async_context(
                    self.attempts.failing(("sign_in", subject_at_network(proof.email, proof.source)))
                )
            except TooManyAttempts as refusal:
                return await self._with_both_factors(found, proof, refusal)
            account = await self._with_password(found, proof)
            if account.has_second_factor:
                async with self.attempts.failing(("second_factor", str(account.account_id))):
                    await self.totp.check(account.account_id, proof.second_factor)
            return account

    async def _with_password(self, found: LoginCredentials | None, proof: LoginAttempt) -> LoginCredentials:
        stored = None if found is None else found.password_hash
        verdict = await self.passwords.verify(stored, proof.password, proof.place)
        if found is None or stored is None or not (verdict.ok and found.active):
            raise SignInRefused
        if verdict.rehash:
            # A password that gets no turn now is hashed anew at another sign-in.
            with suppress(Overloaded):
                rehashed = await self.passwords.rehash(proof.password, proof.place)
                await self.store.replace_hash(found.account_id, stored, rehashed)
        return found

    async def _with_both_factors(
        self, found: LoginCredentials | None, proof: LoginAttempt, too_many: TooManyAttempts
    ) -> LoginCredentials:
        """Return the account whose two factors these are, or raise `too_many`.

        The answer and the work are the same whichever factor is wrong, so neither can be guessed without the other.
        Codes beside the right password are counted, as everywhere; codes beside a wrong one count for nothing.
        """
        if not proof.second_factor:
            raise too_many
        account = found if found is not None and found.has_second_factor and found.active else None
        stored = None if account is None else account.password_hash
        verdict = await self.passwords.verify(stored, proof.password, proof.place)
        account_id = NO_TENANT if account is None else account.account_id
        counted = str(account_id) if verdict.ok else f"no password of {proof.email}"
        try:
            async with self.attempts.failing(("second_factor", counted)):
                await self.totp.check(account_id, proof.second_factor)
                return _account_of(account, verdict)
        except (SignInRefused, TooManyAttempts):
            raise too_many from None

    async def _still_as_proved(self, account: LoginCredentials, tokens: pb.SignInTokens) -> None:
        """End a sign-in that began while the account was locked, or its password changed, behind its back."""
        found = await self.store.credentials(account.account_id)
        if found is None or not found.active or found.revision != account.revision:
            await self.sign_ins.revoke_one(account.account_id, UUID(tokens.auth_session_id), "account_changed")
            raise TransactionConflict


def _account_of(found: LoginCredentials | None, verdict: PasswordCheck) -> LoginCredentials:
    if found is None or not verdict.ok:
        raise SignInRefused
    return found


async def record_failed_login(
    attempts: AttemptLimiter,
    audit: AuditRecorder,
    refusal: RpcError,
    source: str,
    account_id: UUID | None,
    target: str = "",
) -> None:
    """Record a refused sign-in. Raises TooManyAttempts instead once a source was refused too often.

    A caller without a credential thereby fills no table, and what is right passes whatever the count says.
    """
    if isinstance(refusal, TooManyAttempts | Overloaded):
        return
    if is_failure(refusal):
        await attempts.charge("refused_sign_in", source)
    await audit.record("sign_in", outcome="refused", reason=refusal.reason, account_id=account_id, target=target)
