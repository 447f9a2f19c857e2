"""One-time tokens in the database. Methods that take `tx` work in the caller's transaction."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from skein_auth.accounts.model import ONE_TIME_PREFIX, Account, TokenPurpose
from skein_auth.accounts.store import EMAIL_CONSTRAINT, lock_account, set_password, write_account
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import OneTimeTokenInvalid
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, Database, Transaction, translate_constraint_errors
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import new_id, now


class OneTimeTokenStore:
    """Tokens of accounts, each good for one use."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def create(self, account_id: UUID, purpose: TokenPurpose, email: str, lifetime: timedelta) -> BearerToken:
        """Create a token that counts while the account has this address."""
        async with self._database.global_transaction() as tx:
            token, _ = await _create(tx, account_id, purpose, email, lifetime)
        return token

    async def create_for_operator(
        self, tx: Transaction, account_id: UUID, purpose: TokenPurpose, lifetime: timedelta
    ) -> tuple[BearerToken, datetime]:
        """Create a token for the account's address, or for the one to verify; return it and its expiry."""
        account = await lock_account(tx, account_id)
        email = account["email"] or ""
        if purpose is TokenPurpose.EMAIL_VERIFICATION:
            email = account["new_email"] or email
        token, expire_time = await _create(tx, account_id, purpose, email, lifetime)
        await self._audit.record_in(tx, "one_time_token_created", account_id=account_id, target=f"account:{account_id}")
        return token, expire_time

    async def find_account_to_reset(self, token: BearerToken) -> UUID:
        """Return the account whose password the token resets, without spending it. Raises OneTimeTokenInvalid."""
        async with self._database.global_transaction() as tx:
            account_id: UUID | None = await tx.value(
                QUERIES["find_one_time_token"],
                token_id=token.token_id,
                secret_hash=token.secret_hash(),
                purpose=TokenPurpose.PASSWORD_RESET.value,
                at=now(),
            )
        if account_id is None:
            raise OneTimeTokenInvalid
        return account_id

    async def verify_email(self, token: BearerToken) -> Account:
        """Spend a token and record that its address is the account's. Raises OneTimeTokenInvalid."""
        async with self._database.transaction(NO_TENANT) as tx:
            at = now()
            account_id, email = await _spend(tx, token, TokenPurpose.EMAIL_VERIFICATION)
            current = await lock_account(tx, account_id)
            if email and email == current["new_email"]:
                changes: dict[str, object] = {"email": email, "new_email": None, "email_verify_time": at}
            elif email and email == current["email"]:
                changes = {"email_verify_time": current["email_verify_time"] or at}
            else:
                raise OneTimeTokenInvalid
            with translate_constraint_errors({EMAIL_CONSTRAINT: OneTimeTokenInvalid}):
                account = await write_account(tx, current, at, **changes)
            await self._audit.record_in(tx, "email_verified", account_id=account_id, principal=f"account:{account_id}")
        return account

    async def reset_password(self, account_id: UUID, token: BearerToken, password_hash: str) -> None:
        """Spend a token, set the password and revoke the account's auth sessions. Raises OneTimeTokenInvalid."""
        async with self._database.account_transaction(account_id) as tx:
            token_account_id, email = await _spend(tx, token, TokenPurpose.PASSWORD_RESET)
            current = await lock_account(tx, token_account_id)
            if token_account_id != account_id or email != (current["email"] or "") or current["status"] != "active":
                raise OneTimeTokenInvalid
            if current["email_verify_time"] is None:
                # The creator of the account need not own the address, and must keep no login method.
                for name in ("delete_identities", "delete_totp_secret", "delete_recovery_codes"):
                    await tx.execute(QUERIES[name], account_id=account_id)
            await set_password(tx, current, password_hash, now(), "password_reset")
            await self._audit.record_in(tx, "password_reset", account_id=account_id, principal=f"account:{account_id}")


async def _create(
    tx: Transaction, account_id: UUID, purpose: TokenPurpose, email: str, lifetime: timedelta
) -> tuple[BearerToken, datetime]:
    """Return a new token and its expiry."""
    at = now()
    token = BearerToken.generate(ONE_TIME_PREFIX, NO_TENANT, new_id(at))
    await tx.execute(
        QUERIES["create_one_time_token"],
        token_id=token.token_id,
        account_id=account_id,
        purpose=purpose.value,
        secret_hash=token.secret_hash(),
        email=email,
        create_time=at,
        expire_time=at + lifetime,
    )
    return token, at + lifetime


async def _spend(tx: Transaction, token: BearerToken, purpose: TokenPurpose) -> tuple[UUID, str]:
    """Spend a token; return its account and address. A rollback leaves the token unspent."""
    row = await tx.row(
        QUERIES["spend_one_time_token"],
        token_id=token.token_id,
        secret_hash=token.secret_hash(),
        purpose=purpose.value,
        at=now(),
    )
    if row is None:
        raise OneTimeTokenInvalid
    return row["account_id"], row["email"]
