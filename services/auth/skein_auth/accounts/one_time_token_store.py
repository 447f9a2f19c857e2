"""One-time tokens in the database, and what is done for who brings one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts.one_time_token_model import PREFIX, Purpose
from skein_auth.accounts.store import EMAIL_TAKEN, lock_account, set_password, write_account
from skein_auth.errors import OneTimeTokenInvalid
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import new_id, now
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey


class OneTimeTokenStore:
    """Tokens that are good for one thing, once."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def create(self, account_id: UUID, purpose: Purpose, email: str, lifetime: timedelta) -> BearerToken:
        """Make a token for an account with this address."""
        async with self._database.shared() as tx:
            token, _ = await _create(tx, account_id, purpose, email, lifetime)
        return token

    async def create_for_operator(
        self, account_id: UUID, purpose: Purpose, lifetime: timedelta, once: IdempotencyKey
    ) -> pb.CreateOneTimeTokenResponse:
        """Make a token once for each request. The stored answer does not hold it, so a repeated request gets none."""
        async with self._database.transaction(NO_TENANT) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.CreateOneTimeTokenResponse.FromString(first)
            account = await lock_account(tx, account_id)
            email = account["email"] or ""
            if purpose is Purpose.EMAIL_VERIFICATION:
                email = account["new_email"] or email
            token, ends = await _create(tx, account_id, purpose, email, lifetime)
            await self._audit.within(
                tx, "one_time_token_created", account_id=account_id, target=f"account:{account_id}"
            )
            response = pb.CreateOneTimeTokenResponse(expire_time=well_known_types.to_timestamp(ends))
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        response.token = token.text()
        return response

    async def request_verification(self, account_id: UUID, once: IdempotencyKey) -> bool:
        """Keep that the account asked for another mail; say whether it is the first time for this request."""
        async with self._database.transaction(NO_TENANT) as tx:
            answer = pb.RequestEmailVerificationResponse()
            write = await self._requests.claim(tx, NO_TENANT, once, response=answer.SerializeToString())
            if write.saved_response is not None:
                return False
            await self._audit.within(tx, "email_verification_requested", account_id=account_id)
        return True

    async def account_to_reset(self, token: BearerToken) -> UUID:
        """Return the account whose password a token sets, or refuse it; it is not spent yet."""
        async with self._database.shared() as tx:
            found: UUID | None = await tx.value(
                QUERIES["find_one_time_token"],
                token_id=token.token_id,
                secret_hash=token.secret_hash(),
                purpose=Purpose.PASSWORD_RESET.value,
                at=now(),
            )
        if found is None:
            raise OneTimeTokenInvalid
        return found

    async def verify_email(self, token: BearerToken) -> pb.Account:
        """Spend a token: the address that it was made for is the account's."""
        with translate_constraint_errors(dict.fromkeys(EMAIL_TAKEN, OneTimeTokenInvalid)):
            async with self._database.transaction(NO_TENANT) as tx:
                at = now()
                account_id, email = await _spend(tx, token, Purpose.EMAIL_VERIFICATION)
                current = await lock_account(tx, account_id)
                if email and email == current["new_email"]:
                    account = await write_account(tx, current, at, email=email, new_email=None, email_verify_time=at)
                elif email and email == current["email"]:
                    verified = current["email_verify_time"] or at
                    account = await write_account(tx, current, at, email_verify_time=verified)
                else:
                    raise OneTimeTokenInvalid
                await self._audit.within(tx, "email_verified", account_id=account_id, principal=f"account:{account_id}")
        return account

    async def reset_password(self, account_id: UUID, token: BearerToken, password_hash: str) -> None:
        """Spend a token and set a password; every sign-in of the account ends."""
        async with self._database.account(account_id) as tx:
            spent, email = await _spend(tx, token, Purpose.PASSWORD_RESET)
            current = await lock_account(tx, spent)
            if spent != account_id or email != (current["email"] or "") or current["status"] != "active":
                raise OneTimeTokenInvalid
            if current["email_verify_time"] is None:
                # Whoever made the account need not be who has the address, and left no way in behind.
                for name in ("delete_identities", "remove_totp", "delete_recovery_codes"):
                    await tx.execute(QUERIES[name], account_id=account_id)
            await set_password(tx, current, password_hash, now(), "password_reset")
            await self._audit.within(tx, "password_reset", account_id=account_id, principal=f"account:{account_id}")


async def _create(
    tx: Transaction, account_id: UUID, purpose: Purpose, email: str, lifetime: timedelta
) -> tuple[BearerToken, datetime]:
    """Return a new token and its end."""
    at = now()
    token = BearerToken.made(PREFIX, NO_TENANT, new_id(at))
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


async def _spend(tx: Transaction, token: BearerToken, purpose: Purpose) -> tuple[UUID, str]:
    """Spend a token and return its account and address. Whoever refuses it after all leaves it as it was."""
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
