"""What people do about their own accounts: sign up, change, lock and leave them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts.model import Draft, valid_email
from skein_auth.accounts.one_time_tokens import client_address
from skein_auth.accounts.password_queue import QueueKey
from skein_auth.accounts.passwords import accepted
from skein_auth.attempts.model import auth_session_subject
from skein_auth.errors import PasswordWrong, SignUpClosed
from skein_kit.errors import CredentialInvalid
from skein_kit.network.source_network import source_network
from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from uuid import UUID

    from skein_auth.accounts.model import Change, LoginCredentials
    from skein_auth.accounts.one_time_tokens import OneTimeTokens
    from skein_auth.accounts.passwords import Passwords
    from skein_auth.accounts.store import AccountStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.tenancy.memberships import Invitation, MembershipClient
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller

Response = TypeVar("Response", bound=Message)
SIGN_UPS = ("open", "invited", "closed")


def sign_up_rule(setting: str) -> str:
    """Return who may sign up, or raise SettingInvalid."""
    if setting not in SIGN_UPS:
        raise SettingInvalid(f"SKEIN_SIGN_UP should be one of {', '.join(SIGN_UPS)}, not {setting!r}.")
    return setting


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountSelfService:
    """Accounts, in the hands of those whom they belong to."""

    store: AccountStore
    passwords: Passwords
    sign_ins: AuthSessions
    memberships: MembershipClient
    one_time: OneTimeTokens
    attempts: AttemptLimiter
    audit: AuditRecorder
    # One of SIGN_UPS.
    sign_up_rule: str

    async def sign_up(self, request: pb.SignUpRequest) -> pb.Account:
        """Make an account for who asks for it, if that is allowed; a mailed invitation verifies the address."""
        email, password = valid_email(request.email), accepted(request.password)
        source = client_address()
        token = request.invitation_token if self.sign_up_rule != "closed" else ""
        invitation = await self._invitation(token, email, source) if token else None
        # An invited person does not wait for strangers of the same address.
        await self.attempts.charge("sign_up", source if invitation is None else f"invitation {token}")
        if self.sign_up_rule == "closed" or (self.sign_up_rule == "invited" and invitation is None):
            raise SignUpClosed
        place = QueueKey.of_source(source_network(source)) if invitation is None else QueueKey(f"invitation {token}")
        draft = Draft(
            email=email,
            display_name=request.display_name,
            password_hash=await self.passwords.hash(password, place),
            email_verified=invitation is not None and invitation.mailed,
        )
        account = await self.store.sign_up(draft)
        if (made := await self.store.credentials_of(email)) is not None:
            self.one_time.send_verification(made)
        return account

    async def _invitation(self, token: str, email: str, source: str) -> Invitation | None:
        """Return the invitation, None without one. A source that showed too many wrong ones is not looked up for.

        Sign-ups of strangers do not count here, so whom somebody invited does not wait for them.
        """
        with suppress(SignUpClosed):
            async with self.attempts.failing(("invitation", source)):
                found = await self.memberships.invitation(token, email)
                if found is not None:
                    return found
                raise SignUpClosed
        return None

    async def update(self, who: Caller, change: Change, once: IdempotencyKey) -> pb.UpdateMeResponse:
        """Change the account; a new address gets a mail and takes the old one's place when it is verified."""
        if "email" in change.values and await self.store.answered(once) is None:
            await self.sign_ins.must_be_recent(who)
            # It says whether somebody has the address, and sends mail to whoever has it.
            await self.attempts.charge("mail_request", str(change.account_id))
        response, waiting = await self.store.update_own(change, once)
        if waiting and (found := await self.store.credentials(change.account_id)) is not None:
            self.one_time.send_verification(found)
        return response

    async def change_password(self, who: Caller, old: str, new: str, once: IdempotencyKey) -> None:
        """Set a password and end every sign-in but the one that calls."""
        password = accepted(new)
        if await self.store.answered(once) is not None:
            return
        proved = await self._prove(who, old, "password_changed")
        password_hash = await self.passwords.hash(password, QueueKey.of_account(who.account()))
        await self.store.change_password(who.account(), password_hash, proved.revision, once, but=who.sign_in_id)

    async def deactivate(self, who: Caller, password: str, once: IdempotencyKey) -> None:
        """Let nobody in until the operator says otherwise."""
        if await self.store.answered(once) is not None:
            return
        proved = await self._prove(who, password, "account_deactivated")
        await self.store.deactivate(who.account(), proved.revision, once)

    async def delete(self, who: Caller, password: str, once: IdempotencyKey) -> None:
        """Remove the account for good."""
        if await self.store.answered(once) is not None:
            return
        await self._prove(who, password, "account_deleted")
        await self.remove(who.account(), once, pb.DeleteMeResponse())

    async def remove(self, account_id: UUID, once: IdempotencyKey, response: Response) -> Response:
        """Remove an account whoever wants it: first from the tenants, where the last owner is not let go."""
        if await self.store.answered(once) is None:
            # What is not there is in no tenant, and says so.
            await self.store.get_account(account_id)
            await self.memberships.remove_account(account_id)
            await self.store.delete_account(account_id, once, response)
        return response

    async def _prove(self, who: Caller, password: str, event: str) -> LoginCredentials:
        """Return what signs into the account if this is its password; who has none must have signed in lately."""
        account_id = who.account()
        async with self.attempts.failing(("own_proof", auth_session_subject(who))):
            found = await self.store.credentials(account_id)
            if found is None:
                raise CredentialInvalid
            if found.password_hash is None and not password:
                await self.sign_ins.must_be_recent(who)
                return found
            if not (await self.passwords.verify(found.password_hash, password, QueueKey.of_account(account_id))).ok:
                await self.audit.record(event, outcome="refused", reason=PasswordWrong.reason, account_id=account_id)
                raise PasswordWrong
        return found
