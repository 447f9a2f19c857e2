"""Identities as a provider states them, and linked ones in the database.

Methods that take `tx` work in the caller's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from skein_auth.accounts.model import Account
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import IdentityNotFound, IdentityTaken, LastLoginMethod
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, Database, Transaction, translate_constraint_errors
from skein_kit.errors import CredentialInvalid
from skein_kit.ids import new_id, now

# The account was deleted during the call.
_ACCOUNT_DELETED = {"identities_account_fkey": CredentialInvalid}


class _AlreadyLinked(Exception):
    """Another transaction linked the identity first; rolls back the account that was created for it."""


class IdentityStore:
    """Identities that are linked to accounts."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def find_account(self, identity: ProviderIdentity) -> Account | None:
        """Return the account that the identity is linked to, and store its current login name; None for no account."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["find_identity"], provider=identity.provider, subject=identity.subject)
            if row is None:
                return None
            values = dict(row)
            identity_id, login = values.pop("identity_id"), values.pop("login")
            if login != identity.login:
                await tx.execute(QUERIES["update_identity_login"], identity_id=identity_id, login=identity.login)
        return Account(**values)

    async def find_account_of_subject(self, provider: str, subject: str) -> Account | None:
        """Return the account that a provider's subject is linked to; None for no account."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["find_identity"], provider=provider, subject=subject)
        if row is None:
            return None
        return Account(**{name: value for name, value in row.items() if name not in {"identity_id", "login"}})

    async def create_account(self, identity: ProviderIdentity) -> bool:
        """Create an account that the identity is linked to; False when it is linked to one meanwhile.

        The account gets the identity's address, unless another account has it: then it has none.
        """
        try:
            async with self._database.transaction(NO_TENANT) as tx:
                account_id = await _create_account(tx, identity)
                if await self._link(tx, account_id, identity) is None:
                    raise _AlreadyLinked  # noqa: TRY301 - rolls back.
                await self._audit.record_in(tx, "sign_up", account_id=account_id)
        except _AlreadyLinked:
            return False
        return True

    async def link(self, tx: Transaction, account_id: UUID, identity: ProviderIdentity) -> LinkedIdentity:
        """Link an identity to the account; one that is linked to it stays as it is.

        Raises IdentityTaken, and CredentialInvalid when the account is deleted.
        """
        linked_identity = await self._link(tx, account_id, identity)
        if linked_identity is not None:
            return linked_identity
        row = await tx.row(
            QUERIES["get_linked_identity"],
            account_id=account_id,
            provider=identity.provider,
            subject=identity.subject,
        )
        if row is None:
            raise IdentityTaken
        return LinkedIdentity(**row)

    async def unlink(self, tx: Transaction, account_id: UUID, identity_id: UUID) -> None:
        """Remove an identity from the account. Raises IdentityNotFound and LastLoginMethod."""
        has_password = await tx.value(QUERIES["lock_login_methods"], account_id=account_id)
        if not await tx.execute(QUERIES["delete_identity"], identity_id=identity_id, account_id=account_id):
            raise IdentityNotFound
        if not has_password and not await tx.value(QUERIES["count_identities"], account_id=account_id):
            raise LastLoginMethod
        await self._audit.record_in(tx, "identity_unlinked", account_id=account_id, target=f"identity:{identity_id}")

    async def list_identities(self, account_id: UUID) -> list[LinkedIdentity]:
        async with self._database.global_transaction() as tx:
            rows = await tx.rows(QUERIES["list_identities"], account_id=account_id)
        return [LinkedIdentity(**row) for row in rows]

    async def _link(self, tx: Transaction, account_id: UUID, identity: ProviderIdentity) -> LinkedIdentity | None:
        """Return None when the identity is linked to an account already, this one or another."""
        at = now()
        identity_id = new_id(at)
        with translate_constraint_errors(_ACCOUNT_DELETED):
            row = await tx.row(
                QUERIES["create_identity"],
                identity_id=identity_id,
                account_id=account_id,
                provider=identity.provider,
                subject=identity.subject,
                login=identity.login,
                create_time=at,
            )
        if row is None:
            return None
        await self._audit.record_in(tx, "identity_linked", account_id=account_id, target=f"identity:{identity_id}")
        return LinkedIdentity(**row)


async def _create_account(tx: Transaction, identity: ProviderIdentity) -> UUID:
    at = now()
    account_id = new_id(at)
    for email in dict.fromkeys((identity.email or None, None)):
        row = await tx.row(
            QUERIES["create_account"],
            account_id=account_id,
            email=email,
            email_verify_time=None if email is None else at,
            password_hash=None,
            display_name=identity.display_name or identity.login,
            create_time=at,
            update_time=at,
        )
        if row is not None:
            return account_id
    message = "an account without an address was not created"
    raise LookupError(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentityProof:
    """The token of an identity provider that a caller presents, not verified yet."""

    # The name of the provider in the settings.
    provider: str
    token: str = field(repr=False)
    # That of the ID token; empty for none.
    nonce: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderIdentity:
    """A person, as an identity provider states."""

    # "github", or the URL of the issuer.
    provider: str
    subject: str
    # Their name in logins there.
    login: str
    display_name: str = ""
    # In lower case, and only when the provider has verified it; else empty.
    email: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedIdentity:
    """An identity that is linked to an account."""

    identity_id: UUID
    provider: str
    subject: str
    login: str
    create_time: datetime
