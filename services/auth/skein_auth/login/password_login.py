"""Login with an e-mail address and a password.

A stranger's wrong passwords count for one account and one source. Two things pass that limit: a known device, which
has a limit of its own, and the right second factor together with the right password.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert
from skein_auth.accounts.known_devices import KnownDevice, KnownDevices
from skein_auth.accounts.model import Account, LoginCredentials, normalize_email
from skein_auth.accounts.passwords import PasswordCheck, Passwords, QueueKey
from skein_auth.accounts.store import AccountStore
from skein_auth.attempts.limiter import AttemptLimiter, is_failure, subject_at_network
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import SessionTokens
from skein_auth.auth_sessions.rpc import session_tokens
from skein_auth.errors import SignInRefused, TooManyAttempts
from skein_auth.second_factor.totp import Totp
from skein_kit.calls.call import Context, client_address
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import Overloaded, RpcError, TransactionConflict
from skein_kit.ids import now
from skein_kit.network.source_network import source_network


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginAttempt:
    """What a caller presents to log in."""

    # In the form of lookups.
    email: str
    password: str = field(repr=False)
    second_factor: str = field(repr=False)
    # None: unknown to the account.
    device: KnownDevice | None
    source: str

    @property
    def queue_key(self) -> QueueKey:
        """Return the key of its passwords in the queue."""
        return QueueKey.of_source(self.source) if self.device is None else QueueKey.of_devices(self.device.account_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginResult:
    """The outcome of a login."""

    account: Account
    tokens: SessionTokens
    device_token: str = field(repr=False)
    # The login created the account.
    is_new_account: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PasswordLogin:
    """Logins with a password."""

    store: AccountStore
    passwords: Passwords
    totp: Totp
    auth_sessions: AuthSessions
    devices: KnownDevices
    attempts: AttemptLimiter
    audit: AuditRecorder

    async def login(self, email: str, password: str, *, second_factor: str, device_token: str) -> LoginResult:
        """Begin an auth session.

        Every wrong input gets the same error; only a caller with the right password learns of a second factor.
        """
        email, source = normalize_email(email), source_network(client_address())
        credentials = await self.store.find_credentials(email)
        attempt = LoginAttempt(
            email=email,
            password=password,
            second_factor=second_factor,
            device=self.devices.recognize(device_token, credentials, now()),
            source=source,
        )
        try:
            account = await self._authenticate(credentials, attempt)
        except RpcError as error:
            account_id = None if credentials is None else credentials.account_id
            await record_failed_login(self.attempts, self.audit, error, source, account_id)
            raise
        at = now()
        tokens = await self.auth_sessions.begin(account.account_id, at=at)
        await self._check_unchanged(account, tokens)
        await self.audit.record("sign_in", account_id=account.account_id, principal=f"account:{account.account_id}")
        return LoginResult(
            account=await self.store.get_account(account.account_id),
            tokens=tokens,
            device_token=self.devices.renew(account, attempt.device, at),
        )

    async def _authenticate(self, credentials: LoginCredentials | None, attempt: LoginAttempt) -> LoginCredentials:
        """Return the account whose password and second factor these are, within the limits of attempts."""
        async with AsyncExitStack() as limits:
            if attempt.device is not None:
                with suppress(TooManyAttempts):
                    await limits.enter_async_context(
                        self.attempts.limit_failures(("device", str(attempt.device.device_id)))
                    )
                    account = await self._check_password(credentials, attempt)
                    await self.totp.check(account.account_id, attempt.second_factor)
                    return account
                # A device that failed too often counts as unknown.
                attempt = replace(attempt, device=None)
            try:
                await limits.enter_async_context(
                    self.attempts.limit_failures(("sign_in", subject_at_network(attempt.email, attempt.source)))
                )
            except TooManyAttempts as error:
                return await self._check_both_factors(credentials, attempt, error)
            account = await self._check_password(credentials, attempt)
            if account.has_second_factor:
                async with self.attempts.limit_failures(("second_factor", str(account.account_id))):
                    await self.totp.check(account.account_id, attempt.second_factor)
            return account

    async def _check_password(self, credentials: LoginCredentials | None, attempt: LoginAttempt) -> LoginCredentials:
        stored_hash = None if credentials is None else credentials.password_hash
        check = await self.passwords.verify(stored_hash, attempt.password, attempt.queue_key)
        if credentials is None or stored_hash is None or not (check.is_valid and credentials.active):
            raise SignInRefused
        if check.needs_rehash:
            # When the queue is full, a later login replaces the hash.
            with suppress(Overloaded):
                new_hash = await self.passwords.rehash(attempt.password, attempt.queue_key)
                await self.store.replace_hash(credentials.account_id, stored_hash, new_hash)
        return credentials

    async def _check_both_factors(
        self, credentials: LoginCredentials | None, attempt: LoginAttempt, limit_error: TooManyAttempts
    ) -> LoginCredentials:
        """Return the account whose two factors these are, or raise `limit_error`.

        Error and work are the same whichever factor is wrong, so neither can be guessed without the other.
        Codes beside the right password count as attempts; codes beside a wrong one do not.
        """
        if not attempt.second_factor:
            raise limit_error
        account = (
            credentials if credentials is not None and credentials.has_second_factor and credentials.active else None
        )
        stored_hash = None if account is None else account.password_hash
        check = await self.passwords.verify(stored_hash, attempt.password, attempt.queue_key)
        account_id = NO_TENANT if account is None else account.account_id
        subject = str(account_id) if check.is_valid else f"no password of {attempt.email}"
        try:
            async with self.attempts.limit_failures(("second_factor", subject)):
                await self.totp.check(account_id, attempt.second_factor)
                return _require_account(account, check)
        except (SignInRefused, TooManyAttempts):
            raise limit_error from None

    async def _check_unchanged(self, account: LoginCredentials, tokens: SessionTokens) -> None:
        """Revoke a session that began while the account was deactivated, or its password changed."""
        credentials = await self.store.get_credentials(account.account_id)
        if credentials is None or not credentials.active or credentials.revision != account.revision:
            await self.auth_sessions.revoke_one(account.account_id, tokens.auth_session_id, "account_changed")
            raise TransactionConflict


def _require_account(credentials: LoginCredentials | None, check: PasswordCheck) -> LoginCredentials:
    if credentials is None or not check.is_valid:
        raise SignInRefused
    return credentials


async def record_failed_login(
    attempts: AttemptLimiter,
    audit: AuditRecorder,
    error: RpcError,
    source: str,
    account_id: UUID | None,
    target: str = "",
) -> None:
    """Record a failed login. Raises TooManyAttempts instead after too many failures of a source.

    So a caller without a credential cannot fill the table; the limit does not stop a right password.
    """
    if isinstance(error, TooManyAttempts | Overloaded):
        return
    if is_failure(error):
        await attempts.charge("refused_sign_in", source)
    await audit.record("sign_in", outcome="refused", reason=error.reason, account_id=account_id, target=target)


class LoginHandlers:
    """Logins with a password."""

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login

    async def SignIn(self, request: pb.SignInRequest, context: Context) -> pb.SignInResponse:
        result = await self._login.login(
            request.email, request.password, second_factor=request.second_factor, device_token=request.device_token
        )
        return pb.SignInResponse(
            tokens=session_tokens(result.tokens),
            account=convert.account(result.account),
            device_token=result.device_token,
        )
