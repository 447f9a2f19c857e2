"""Sign-up, and what people do with their own account: change its password, deactivate it, delete it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from skein_auth.accounts.model import Account, AccountDraft, LoginCredentials, parse_email
from skein_auth.accounts.one_time_tokens import OneTimeTokens
from skein_auth.accounts.passwords import Passwords, QueueKey, normalize_new_password
from skein_auth.accounts.store import AccountStore
from skein_auth.attempts.limiter import AttemptLimiter, auth_session_subject
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.errors import PasswordWrong, SignUpClosed
from skein_auth.tenant_directory import Invitation, TenantDirectory
from skein_kit.calls.call import client_address
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.network.source_network import source_network
from skein_kit.settings import SettingInvalid

SIGN_UPS = ("open", "invited", "closed")


def sign_up_rule(setting: str) -> str:
    """Raises SettingInvalid for a setting that is no sign-up rule."""
    if setting not in SIGN_UPS:
        raise SettingInvalid(f"SKEIN_SIGN_UP should be one of {', '.join(SIGN_UPS)}, not {setting!r}.")
    return setting


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountSelfService:
    """What people do with their own account."""

    store: AccountStore
    passwords: Passwords
    auth_sessions: AuthSessions
    tenants: TenantDirectory
    one_time_tokens: OneTimeTokens
    attempts: AttemptLimiter
    audit: AuditRecorder
    idempotency: IdempotencyStore
    # One of SIGN_UPS.
    sign_up_rule: str

    async def sign_up(self, email: str, password: str, *, display_name: str, invitation_token: str) -> Account:
        """Create an account if the rule allows it; a mailed invitation verifies the address.

        Raises SignUpClosed, AccountExists, TooManyAttempts and what the checks of address and password raise.
        """
        email, password = parse_email(email), normalize_new_password(password)
        source = client_address()
        token = invitation_token if self.sign_up_rule != "closed" else ""
        invitation = await self._find_invitation(token, email, source) if token else None
        # Strangers at the same address must not delay an invited person.
        await self.attempts.charge("sign_up", source if invitation is None else f"invitation {token}")
        if self.sign_up_rule == "closed" or (self.sign_up_rule == "invited" and invitation is None):
            raise SignUpClosed
        queue_key = (
            QueueKey.of_source(source_network(source)) if invitation is None else QueueKey(f"invitation {token}")
        )
        draft = AccountDraft(
            email=email,
            display_name=display_name,
            password_hash=await self.passwords.hash(password, queue_key),
            email_verified=invitation is not None and invitation.is_mailed,
        )
        account = await self.store.sign_up(draft)
        await self.send_verification(account.account_id)
        return account

    async def _find_invitation(self, token: str, email: str, source: str) -> Invitation | None:
        """Return an open invitation; None without one. Raises TooManyAttempts after too many wrong ones of a source.

        Sign-ups of strangers do not count here, so they do not delay an invited person.
        """
        with suppress(SignUpClosed):
            async with self.attempts.limit_failures(("invitation", source)):
                invitation = await self.tenants.find_invitation(token, email)
                if invitation is not None:
                    return invitation
                raise SignUpClosed
        return None

    async def check_email_change(self, caller: Caller) -> None:
        """Raises SignInTooOld and TooManyAttempts.

        The change tells whether an account has the address, and sends mail to a stranger.
        """
        await self.auth_sessions.require_recent_login(caller)
        await self.attempts.charge("mail_request", str(caller.require_account()))

    async def send_verification(self, account_id: UUID) -> None:
        """Send a mail to the account's address that waits for verification, if there is one."""
        if (account := await self.store.get_credentials(account_id)) is not None:
            self.one_time_tokens.send_verification(account)

    async def change_password(
        self, caller: Caller, old_password: str, new_password: str, idempotency_key: IdempotencyKey
    ) -> None:
        """Set a password and revoke every auth session but the caller's."""
        password = normalize_new_password(new_password)
        if await self.idempotency.saved_response(NO_TENANT, idempotency_key) is not None:
            return
        account_id = caller.require_account()
        credentials = await self._authenticate(caller, old_password, "password_changed")
        password_hash = await self.passwords.hash(password, QueueKey.of_account(account_id))
        async with self.idempotency.begin_as_account(account_id, idempotency_key, sees_repeats=True) as write:
            if write.saved_response is None:
                await self.store.change_password(
                    write.tx,
                    account_id,
                    password_hash,
                    revision=credentials.revision,
                    except_session=caller.auth_session_id,
                )

    async def deactivate(self, caller: Caller, password: str, idempotency_key: IdempotencyKey) -> None:
        """Deactivate the caller's account; only the operator activates it again."""
        if await self.idempotency.saved_response(NO_TENANT, idempotency_key) is not None:
            return
        credentials = await self._authenticate(caller, password, "account_deactivated")
        async with self.idempotency.begin_as_account(
            caller.require_account(), idempotency_key, sees_repeats=True
        ) as write:
            if write.saved_response is None:
                await self.store.deactivate(write.tx, caller.require_account(), revision=credentials.revision)

    async def delete_own(self, caller: Caller, password: str, idempotency_key: IdempotencyKey) -> None:
        """Delete the caller's account for good."""
        if await self.idempotency.saved_response(NO_TENANT, idempotency_key) is not None:
            return
        await self._authenticate(caller, password, "account_deleted")
        await self.delete(caller.require_account(), idempotency_key)

    async def delete(self, account_id: UUID, idempotency_key: IdempotencyKey) -> None:
        """Delete an account, after its memberships: tenancy refuses to remove the last owner of a tenant.

        Raises AccountNotFound.
        """
        if await self.idempotency.saved_response(NO_TENANT, idempotency_key) is not None:
            return
        # Tenancy would accept an unknown account.
        await self.store.get_account(account_id)
        await self.tenants.remove_account(account_id)
        async with self.idempotency.begin_as_account(account_id, idempotency_key, sees_repeats=True) as write:
            if write.saved_response is None:
                await self.store.delete_account(write.tx, account_id)

    async def _authenticate(self, caller: Caller, password: str, event: str) -> LoginCredentials:
        """Return the caller's credentials if this is the password; an account without one needs a recent login."""
        account_id = caller.require_account()
        async with self.attempts.limit_failures(("own_proof", auth_session_subject(caller))):
            credentials = await self.store.get_credentials(account_id)
            if credentials is None:
                raise CredentialInvalid
            if credentials.password_hash is None and not password:
                await self.auth_sessions.require_recent_login(caller)
                return credentials
            queue_key = QueueKey.of_account(account_id)
            if not (await self.passwords.verify(credentials.password_hash, password, queue_key)).is_valid:
                await self.audit.record(event, outcome="refused", reason=PasswordWrong.reason, account_id=account_id)
                raise PasswordWrong
        return credentials
