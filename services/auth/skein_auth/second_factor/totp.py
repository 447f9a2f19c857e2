"""The second factor of an account: its check at a login, and its start, confirmation and removal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from skein_auth.accounts.passwords import Passwords, QueueKey
from skein_auth.attempts.limiter import AttemptLimiter, auth_session_subject
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.encryption import SecretCipher
from skein_auth.errors import CodeWrong, PasswordWrong, SecondFactorNeeded, SignInRefused
from skein_auth.second_factor.model import (
    SecondFactor,
    Secret,
    generate_recovery_codes,
    hash_recovery_code,
    is_totp,
    normalize_code,
)
from skein_auth.second_factor.store import TotpStore
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now


@dataclass(frozen=True, kw_only=True, slots=True)
class Totp:
    """The second factors of all accounts. A repeated request gets no secret: none is stored with its response."""

    store: TotpStore
    cipher: SecretCipher
    passwords: Passwords
    auth_sessions: AuthSessions
    attempts: AttemptLimiter
    audit: AuditRecorder
    idempotency: IdempotencyStore

    async def check(self, account_id: UUID, second_factor: str) -> None:
        """Check the second factor, if the account has one; a right code is spent. The caller limits the attempts.

        Raises SecondFactorNeeded when `second_factor` is empty and SignInRefused when it is wrong.
        """
        factor = await self.store.get_second_factor(account_id)
        if factor is None or not factor.confirmed:
            return
        if not second_factor:
            raise SecondFactorNeeded
        if not is_totp(second_factor):
            is_valid = await self.store.spend_recovery_code(account_id, hash_recovery_code(second_factor))
        else:
            secret = self._secret(account_id, factor)
            step = secret.find_step(normalize_code(second_factor), now(), after=factor.step)
            is_valid = step is not None and await self.store.spend_step(account_id, step)
            if is_valid:
                await self._reencrypt(account_id, factor, secret)
        if not is_valid:
            raise SignInRefused

    async def start(self, caller: Caller, password: str, idempotency_key: IdempotencyKey) -> tuple[str, str]:
        """Start a second factor that waits for confirmation; return its secret and URI, both empty for a repeat."""
        account_id = caller.require_account()
        async with self._limit_and_record(caller, "totp_started"):
            email = await self._authenticate(caller, password)
            secret = Secret.generate()
            encrypted = self.cipher.encrypt(secret.raw, name=_encryption_name(account_id))
            async with self.idempotency.begin_with_key(NO_TENANT, idempotency_key, sees_repeats=True) as write:
                if write.saved_response is not None:
                    return "", ""
                await self.store.start(write.tx, account_id, encrypted)
        return secret.to_base32(), secret.provisioning_uri(email or str(account_id))

    async def confirm(self, caller: Caller, code: str, idempotency_key: IdempotencyKey) -> Sequence[str]:
        """Make the second factor obligatory; return its recovery codes, none for a repeat."""
        account_id = caller.require_account()
        codes = generate_recovery_codes()
        async with (
            self._limit_and_record(caller, "totp_confirmed"),
            self.idempotency.begin_with_key(NO_TENANT, idempotency_key, sees_repeats=True) as write,
        ):
            if write.saved_response is not None:
                return ()
            factor = await self.store.lock_second_factor(write.tx, account_id, confirmed=False)
            step = self._secret(account_id, factor).find_step(code, now(), after=factor.step)
            if step is None:
                raise CodeWrong
            await self.store.confirm(write.tx, account_id, step, list(map(hash_recovery_code, codes)))
        return codes

    async def disable(self, caller: Caller, password: str, second_factor: str, idempotency_key: IdempotencyKey) -> None:
        """Delete the second factor of a caller that proves both factors."""
        account_id = caller.require_account()
        async with self._limit_and_record(caller, "totp_disabled"):
            await self._authenticate(caller, password)
            async with self.idempotency.begin_with_key(NO_TENANT, idempotency_key, sees_repeats=True) as write:
                if write.saved_response is not None:
                    return
                factor = await self.store.lock_second_factor(write.tx, account_id, confirmed=True)
                if not is_totp(second_factor):
                    await self.store.spend_recovery_code_in(write.tx, account_id, hash_recovery_code(second_factor))
                else:
                    code = normalize_code(second_factor)
                    if self._secret(account_id, factor).find_step(code, now(), after=factor.step) is None:
                        raise CodeWrong
                await self.store.disable(write.tx, account_id)

    @asynccontextmanager
    async def _limit_and_record(self, caller: Caller, event: str) -> AsyncIterator[None]:
        """Limit the failures within an auth session, and record those that may be another person's."""
        try:
            async with self.attempts.limit_failures(("own_proof", auth_session_subject(caller))):
                yield
        except (PasswordWrong, CodeWrong) as error:
            await self.audit.record(event, outcome="refused", reason=error.reason, account_id=caller.require_account())
            raise

    async def _authenticate(self, caller: Caller, password: str) -> str:
        """Return the account's address if this is its password; an account without one needs a recent login."""
        factor = await self.store.get_second_factor(caller.require_account())
        if factor is None:
            raise CredentialInvalid
        if factor.password_hash is not None or password:
            queue_key = QueueKey.of_account(caller.require_account())
            if not (await self.passwords.verify(factor.password_hash, password, queue_key)).is_valid:
                raise PasswordWrong
        else:
            await self.auth_sessions.require_recent_login(caller)
        return factor.email

    def _secret(self, account_id: UUID, factor: SecondFactor) -> Secret:
        return Secret(self.cipher.decrypt(factor.encrypted_secret, name=_encryption_name(account_id)))

    async def _reencrypt(self, account_id: UUID, factor: SecondFactor, secret: Secret) -> None:
        """Encrypt a secret under the current system key, if it is under the one before."""
        name = _encryption_name(account_id)
        if not self.cipher.is_current(factor.encrypted_secret, name=name):
            encrypted = self.cipher.encrypt(secret.raw, name=name)
            await self.store.replace_encrypted_secret(account_id, factor.encrypted_secret, encrypted)


def _encryption_name(account_id: UUID) -> str:
    return f"totp:{account_id}"
