"""Accounts in the database. Methods that take `tx` work in the caller's transaction."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from skein_auth.accounts.model import Account, AccountChange, AccountDraft, LoginCredentials
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.store import revoke_all_sessions
from skein_auth.errors import AccountExists, AccountNotFound
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, Database, Transaction, translate_constraint_errors
from skein_kit.errors import CredentialInvalid, RevisionStale, TransactionConflict
from skein_kit.ids import new_id, now

_UPDATABLE_COLUMNS = ("email", "new_email", "email_verify_time", "display_name", "status", "password_hash")
EMAIL_CONSTRAINT = "accounts_email_key"


class AccountStore:
    """All accounts."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def sign_up(self, draft: AccountDraft) -> Account:
        """Create the account of a person who signs up. Raises AccountExists."""
        async with self._database.transaction(NO_TENANT) as tx:
            return await self._create(tx, draft, "sign_up")

    async def create_account(self, tx: Transaction, draft: AccountDraft) -> Account:
        """Create an account for the operator. Raises AccountExists."""
        return await self._create(tx, draft, "account_created")

    async def get_account(self, account_id: UUID) -> Account:
        """Raises AccountNotFound."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["get_account"], account_id=account_id)
        return Account(**_require(row))

    async def get_account_by_email(self, email: str) -> Account:
        """Raises AccountNotFound."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["get_account_by_email"], email=email)
        return Account(**_require(row))

    async def list_accounts(self, *, before: UUID | None, size: int) -> list[Account]:
        """Read accounts, newest first, from before this id; None for the first page."""
        async with self._database.global_transaction() as tx:
            rows = await tx.rows(QUERIES["list_accounts"], before=before, size=size)
        return [Account(**row) for row in rows]

    async def get_credentials(self, account_id: UUID) -> LoginCredentials | None:
        """Read what a login is checked against; None for no such account."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["get_credentials"], account_id=account_id)
        return None if row is None else LoginCredentials(**row)

    async def find_credentials(self, email: str) -> LoginCredentials | None:
        """Read what a login with this address is checked against; None when no account has the address."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["find_credentials"], email=email)
        return None if row is None else LoginCredentials(**row)

    async def replace_hash(self, account_id: UUID, old_hash: str, password_hash: str) -> None:
        """Replace the hash of the same password, unless the password changed since."""
        async with self._database.global_transaction() as tx:
            await tx.execute(
                QUERIES["replace_password_hash"], account_id=account_id, old_hash=old_hash, password_hash=password_hash
            )

    async def update_own(self, tx: Transaction, change: AccountChange) -> tuple[Account, str]:
        """Change an account for its owner; return it and a new address that waits for verification, empty for none.

        Raises AccountNotFound, RevisionStale and AccountExists.
        """
        current = await lock_account(tx, change.account_id)
        _check_revision(change, current)
        values: dict[str, object] = dict(change.values)
        email = str(values.pop("email", "") or "")
        new_email = email if email != current["email"] else ""
        if email:
            if new_email and await tx.row(QUERIES["get_account_by_email"], email=new_email) is not None:
                raise AccountExists
            values["new_email"] = new_email or None
        account = await write_account(tx, current, now(), **values)
        await self._audit.record_in(tx, "account_updated", account_id=change.account_id)
        return account, new_email

    async def update_account(self, tx: Transaction, change: AccountChange) -> Account:
        """Change an account for the operator: deactivation ends its auth sessions, a new address is not verified.

        The transaction must see the account's rows in every tenant. Raises AccountNotFound, RevisionStale and
        AccountExists.
        """
        current = await lock_account(tx, change.account_id)
        _check_revision(change, current)
        at, values = now(), dict[str, object](change.values)
        if values.get("email", current["email"]) != current["email"]:
            values |= {"new_email": None, "email_verify_time": None}
        with translate_constraint_errors({EMAIL_CONSTRAINT: AccountExists}):
            account = await write_account(tx, current, at, **values)
        event = "account_updated"
        if values.get("status") == "deactivated":
            await revoke_all_sessions(tx, change.account_id, at, "account_deactivated")
            event = "account_deactivated"
        await self._audit.record_in(tx, event, account_id=change.account_id, target=f"account:{change.account_id}")
        return account

    async def change_password(
        self, tx: Transaction, account_id: UUID, password_hash: str, *, revision: int, except_session: UUID | None
    ) -> None:
        """Set a password and revoke every auth session but one.

        `revision` is that of the account when its old password was proved. Raises CredentialInvalid and
        TransactionConflict.
        """
        current = await _lock_at_revision(tx, account_id, revision)
        await set_password(tx, current, password_hash, now(), "password_changed", except_session=except_session)
        await self._audit.record_in(tx, "password_changed", account_id=account_id)

    async def deactivate(self, tx: Transaction, account_id: UUID, *, revision: int) -> None:
        """Deactivate an account and revoke its auth sessions.

        `revision` is that of the account when its password was proved. Raises CredentialInvalid and
        TransactionConflict.
        """
        at = now()
        current = await _lock_at_revision(tx, account_id, revision)
        await write_account(tx, current, at, status="deactivated")
        await revoke_all_sessions(tx, account_id, at, "account_deactivated")
        await self._audit.record_in(tx, "account_deactivated", account_id=account_id)

    async def delete_account(self, tx: Transaction, account_id: UUID) -> None:
        """Delete an account with all its rows here; tenancy keeps its memberships. Raises AccountNotFound."""
        if not await tx.execute(QUERIES["delete_account"], account_id=account_id):
            raise AccountNotFound
        await self._audit.record_in(tx, "account_deleted", account_id=account_id, target=f"account:{account_id}")

    async def _create(self, tx: Transaction, draft: AccountDraft, event: str) -> Account:
        at = now()
        account_id = new_id(at)
        row = await tx.row(
            QUERIES["create_account"],
            account_id=account_id,
            email=draft.email,
            email_verify_time=at if draft.email_verified else None,
            password_hash=draft.password_hash,
            display_name=draft.display_name,
            create_time=draft.create_time or draft.update_time or at,
            update_time=draft.update_time or draft.create_time or at,
        )
        if row is None:
            raise AccountExists
        await self._audit.record_in(tx, event, account_id=account_id, target=f"account:{account_id}")
        return Account(**row)


async def lock_account(tx: Transaction, account_id: UUID) -> asyncpg.Record:
    """Lock an account's row until the transaction ends. Raises AccountNotFound."""
    return _require(await tx.row(QUERIES["lock_account"], account_id=account_id))


async def write_account(tx: Transaction, current: asyncpg.Record, at: datetime, **values: object) -> Account:
    """Change some fields of a locked account."""
    columns = {name: current[name] for name in _UPDATABLE_COLUMNS} | values
    query = QUERIES["update_account"]
    return Account(**_require(await tx.row(query, account_id=current["account_id"], update_time=at, **columns)))


async def set_password(
    tx: Transaction,
    current: asyncpg.Record,
    password_hash: str,
    at: datetime,
    reason: str,
    *,
    except_session: UUID | None = None,
) -> None:
    """Set the password of a locked account, spend its reset tokens and revoke its auth sessions.

    An address that waits for verification is dropped: a thief of the old password may have asked for it.
    """
    account_id = current["account_id"]
    await write_account(tx, current, at, password_hash=password_hash, new_email=None)
    await tx.execute(QUERIES["spend_one_time_tokens"], account_id=account_id, purpose="password_reset", at=at)
    await revoke_all_sessions(tx, account_id, at, reason, except_session=except_session)


def _require(row: asyncpg.Record | None) -> asyncpg.Record:
    if row is None:
        raise AccountNotFound
    return row


async def _lock_at_revision(tx: Transaction, account_id: UUID, revision: int) -> asyncpg.Record:
    """Lock an account that did not change since its password was proved."""
    row = await tx.row(QUERIES["lock_account"], account_id=account_id)
    if row is None:
        raise CredentialInvalid
    if row["revision"] != revision:
        raise TransactionConflict
    return row


def _check_revision(change: AccountChange, current: asyncpg.Record) -> None:
    if change.revision not in (0, current["revision"]):
        raise RevisionStale(requested=change.revision, current=current["revision"])
