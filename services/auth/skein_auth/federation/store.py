"""Federated identities in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert as account_convert
from skein_auth.errors import IdentityNotFound, IdentityTaken, LastLoginMethod
from skein_auth.federation import convert
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.errors import CredentialInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import new_id, now

if TYPE_CHECKING:
    from uuid import UUID

    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.federation.providers import ProviderIdentity
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey

# A call outlived the account that made it.
_ACCOUNT_GONE = {"identities_account_fkey": CredentialInvalid}


class _AlreadyLinked(Exception):
    """Somebody else linked the identity meanwhile."""


class _Unanswered(Exception):
    """The request was not answered before."""


class IdentityStore:
    """What signs into accounts besides their passwords.

    Methods that take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def find(self, proof: ProviderIdentity) -> pb.Account | None:
        """Return the account that the identity signs into, and keep what people call the identity now."""
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["find_identity"], provider=proof.provider, subject=proof.subject)
            if row is None:
                return None
            if row["login"] != proof.login:
                await tx.execute(QUERIES["update_identity_login"], identity_id=row["identity_id"], login=proof.login)
        return account_convert.account(row)

    async def create_account(self, proof: ProviderIdentity) -> bool:
        """Make an account that the identity signs into; False when it signs into one meanwhile.

        The account has the proof's address, unless another account has it: then it has none.
        """
        try:
            async with self._database.transaction(NO_TENANT) as tx:
                account_id = await _create_account(tx, proof)
                _first(await self._link(tx, account_id, proof))
                await self._audit.within(tx, "sign_up", account_id=account_id)
        except _AlreadyLinked:
            return False
        return True

    async def answered(self, once: IdempotencyKey) -> pb.LinkIdentityResponse | None:
        """Return the first answer to a repeated request."""
        try:
            async with self._database.transaction(NO_TENANT) as tx:
                first = _given((await self._requests.claim(tx, NO_TENANT, once)).saved_response)
        except _Unanswered:
            return None
        return pb.LinkIdentityResponse.FromString(first)

    async def link(self, account_id: UUID, proof: ProviderIdentity, once: IdempotencyKey) -> pb.LinkIdentityResponse:
        """Let the identity sign into the account; one that does so already stays as it is."""
        with translate_constraint_errors(_ACCOUNT_GONE):
            async with self._database.transaction(NO_TENANT) as tx:
                if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                    return pb.LinkIdentityResponse.FromString(first)
                identity = await self._link(tx, account_id, proof)
                if identity is None:
                    row = await tx.row(
                        QUERIES["get_linked_identity"],
                        account_id=account_id,
                        provider=proof.provider,
                        subject=proof.subject,
                    )
                    if row is None:
                        raise IdentityTaken
                    identity = convert.identity(row)
                response = pb.LinkIdentityResponse(identity=identity)
                await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response

    async def unlink(self, account_id: UUID, identity_id: UUID, once: IdempotencyKey) -> None:
        async with self._database.transaction(NO_TENANT) as tx:
            write = await self._requests.claim(
                tx, NO_TENANT, once, response=pb.UnlinkIdentityResponse().SerializeToString()
            )
            if write.saved_response is not None:
                return
            has_password = await tx.value(QUERIES["lock_ways_in"], account_id=account_id)
            if not await tx.execute(QUERIES["delete_identity"], identity_id=identity_id, account_id=account_id):
                raise IdentityNotFound
            if not has_password and not await tx.value(QUERIES["count_identities"], account_id=account_id):
                raise LastLoginMethod
            await self._audit.within(tx, "identity_unlinked", account_id=account_id, target=f"identity:{identity_id}")

    async def list_identities(self, account_id: UUID) -> list[pb.Identity]:
        async with self._database.shared() as tx:
            return [convert.identity(row) for row in await tx.rows(QUERIES["list_identities"], account_id=account_id)]

    async def _link(self, tx: Transaction, account_id: UUID, proof: ProviderIdentity) -> pb.Identity | None:
        """Return None when the identity signs into an account already, this one or another."""
        at = now()
        identity_id = new_id(at)
        row = await tx.row(
            QUERIES["create_identity"],
            identity_id=identity_id,
            account_id=account_id,
            provider=proof.provider,
            subject=proof.subject,
            login=proof.login,
            create_time=at,
        )
        if row is None:
            return None
        await self._audit.within(tx, "identity_linked", account_id=account_id, target=f"identity:{identity_id}")
        return convert.identity(row)


def _first(identity: pb.Identity | None) -> None:
    """Let nothing of the transaction last when the identity was linked meanwhile."""
    if identity is None:
        raise _AlreadyLinked


def _given(answer: bytes | None) -> bytes:
    """Let nothing of the transaction last when it would claim the request."""
    if answer is None:
        raise _Unanswered
    return answer


async def _create_account(tx: Transaction, proof: ProviderIdentity) -> UUID:
    at = now()
    account_id = new_id(at)
    for email in dict.fromkeys((proof.email or None, None)):
        row = await tx.row(
            QUERIES["create_account"],
            account_id=account_id,
            email=email,
            email_verify_time=None if email is None else at,
            password_hash=None,
            display_name=proof.display_name or proof.login,
            create_time=at,
            update_time=at,
        )
        if row is not None:
            return account_id
    message = "an account without an address was not made"
    raise LookupError(message)
