"""Accounts in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts import convert
from skein_auth.accounts.model import LoginCredentials
from skein_auth.errors import AccountExists, AccountNotFound, AuthSessionNotFound
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.errors import CredentialInvalid, RevisionStale, TransactionConflict
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import new_id, now

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_auth.accounts.model import Change, Draft
    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey

Response = TypeVar("Response", bound=Message)
EMAIL_TAKEN = {"accounts_email_key": AccountExists}
_KEPT = ("email", "new_email", "email_verify_time", "display_name", "status", "password_hash")


class _Unanswered(Exception):
    """The request was not answered before."""


class AccountStore:
    """All accounts.

    Methods that take `once` do their work once for each request and return the first answer whenever it is repeated.
    """

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def answered(self, once: IdempotencyKey) -> bytes | None:
        """Return the first answer to a repeated request, before anything is proved for it anew."""
        if not once.request_id:
            return None
        try:
            async with self._database.transaction(NO_TENANT) as tx:
                return _given((await self._requests.claim(tx, NO_TENANT, once)).saved_response)
        except _Unanswered:
            return None

    async def sign_up(self, draft: Draft) -> pb.Account:
        """Make an account for who asks for it."""
        async with self._database.transaction(NO_TENANT) as tx:
            return await self._create(tx, draft, "sign_up")

    async def create_account(self, draft: Draft, once: IdempotencyKey) -> pb.CreateAccountResponse:
        """Make an account for somebody."""
        async with self._database.transaction(NO_TENANT) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.CreateAccountResponse.FromString(first)
            response = pb.CreateAccountResponse(account=await self._create(tx, draft, "account_created"))
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response

    async def get_account(self, account_id: UUID) -> pb.Account:
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["get_account"], account_id=account_id)
        return convert.account(_found(row))

    async def get_account_by_email(self, email: str) -> pb.Account:
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["get_account_by_email"], email=email)
        return convert.account(_found(row))

    async def list_accounts(self, *, before: UUID | None, size: int) -> list[pb.Account]:
        async with self._database.shared() as tx:
            rows = await tx.rows(QUERIES["list_accounts"], before=before, size=size)
        return [convert.account(row) for row in rows]

    async def credentials(self, account_id: UUID) -> LoginCredentials | None:
        """Read what signs into an account; None when there is no such one."""
        async with self._database.shared() as tx:
            return _credentials(await tx.row(QUERIES["get_credentials"], account_id=account_id))

    async def credentials_of(self, email: str) -> LoginCredentials | None:
        """Read what signs into the account that has an address; None when there is none."""
        async with self._database.shared() as tx:
            return _credentials(await tx.row(QUERIES["find_credentials"], email=email))

    async def replace_hash(self, account_id: UUID, old_hash: str, password_hash: str) -> None:
        """Keep the same password in another form, unless another was set meanwhile."""
        async with self._database.shared() as tx:
            await tx.execute(
                QUERIES["replace_password_hash"], account_id=account_id, old_hash=old_hash, password_hash=password_hash
            )

    async def update_own(self, change: Change, once: IdempotencyKey) -> tuple[pb.UpdateMeResponse, str]:
        """Change one's own account; return it and the address that waits to be verified now, empty for none."""
        async with self._database.account(change.account_id) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.UpdateMeResponse.FromString(first), ""
            current = await lock_account(tx, change.account_id)
            _refuse_stale(change, current)
            values: dict[str, object] = dict(change.values)
            email = str(values.pop("email", "") or "")
            waiting = ""
            if email:
                waiting = email if email != current["email"] else ""
                if waiting and await tx.row(QUERIES["get_account_by_email"], email=waiting) is not None:
                    raise AccountExists
                values["new_email"] = waiting or None
            response = pb.UpdateMeResponse(account=await write_account(tx, current, now(), **values))
            await self._audit.within(tx, "account_updated", account_id=change.account_id)
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response, waiting

    async def update_account(self, change: Change, once: IdempotencyKey) -> pb.UpdateAccountResponse:
        """Change somebody's account; deactivating ends their sign-ins, and another address is not verified yet."""
        with translate_constraint_errors(EMAIL_TAKEN):
            async with self._database.account(change.account_id) as tx:
                if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                    return pb.UpdateAccountResponse.FromString(first)
                current = await lock_account(tx, change.account_id)
                _refuse_stale(change, current)
                at, values = now(), dict[str, object](change.values)
                if values.get("email", current["email"]) != current["email"]:
                    values |= {"new_email": None, "email_verify_time": None}
                response = pb.UpdateAccountResponse(account=await write_account(tx, current, at, **values))
                event = "account_updated"
                if values.get("status") == "deactivated":
                    await end_sign_ins(tx, change.account_id, at, "account_deactivated")
                    event = "account_deactivated"
                await self._audit.within(tx, event, account_id=change.account_id, target=f"account:{change.account_id}")
                await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response

    async def change_password(
        self, account_id: UUID, password_hash: str, revision: int, once: IdempotencyKey, *, but: UUID | None
    ) -> None:
        """Set a password and end every sign-in but one, unless the account changed since `revision` was proved."""
        async with self._database.account(account_id) as tx:
            write = await self._requests.claim(
                tx, NO_TENANT, once, response=pb.ChangePasswordResponse().SerializeToString()
            )
            if write.saved_response is not None:
                return
            current = await _proved(tx, account_id, revision)
            await set_password(tx, current, password_hash, now(), "password_changed", but=but)
            await self._audit.within(tx, "password_changed", account_id=account_id)

    async def deactivate(self, account_id: UUID, revision: int, once: IdempotencyKey) -> None:
        """Let nobody into the account any more, unless it changed since `revision`, when it was proved."""
        async with self._database.account(account_id) as tx:
            write = await self._requests.claim(
                tx, NO_TENANT, once, response=pb.DeactivateMeResponse().SerializeToString()
            )
            if write.saved_response is not None:
                return
            at = now()
            await write_account(tx, await _proved(tx, account_id, revision), at, status="deactivated")
            await end_sign_ins(tx, account_id, at, "account_deactivated")
            await self._audit.within(tx, "account_deactivated", account_id=account_id)

    async def delete_account(self, account_id: UUID, once: IdempotencyKey, response: Response) -> None:
        """Remove an account and all that hangs on it; its memberships are tenancy's."""
        async with self._database.account(account_id) as tx:
            write = await self._requests.claim(tx, NO_TENANT, once, response=response.SerializeToString())
            if write.saved_response is not None:
                return
            if not await tx.execute(QUERIES["delete_account"], account_id=account_id):
                raise AccountNotFound
            target = f"account:{account_id}"
            await self._audit.within(tx, "account_deleted", account_id=account_id, target=target)

    async def revoke_auth_session(
        self, account_id: UUID, sign_in_id: UUID | None, once: IdempotencyKey, *, but: UUID | None
    ) -> pb.RevokeAuthSessionResponse:
        """End one live sign-in of the account, or all of them but one."""
        async with self._database.account(account_id) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.RevokeAuthSessionResponse.FromString(first)
            at, reason, count = now(), "revoked_by_account", 1
            if sign_in_id is None:
                count = await end_sign_ins(tx, account_id, at, reason, but=but)
            else:
                query = QUERIES["revoke_sign_in_of_account"]
                ended = await tx.value(query, account_id=account_id, sign_in_id=sign_in_id, at=at, reason=reason)
                if ended is None:
                    raise AuthSessionNotFound
            target = "" if sign_in_id is None else f"sign_in:{sign_in_id}"
            await self._audit.within(tx, "sign_in_revoked", account_id=account_id, target=target)
            response = pb.RevokeAuthSessionResponse(revoked_count=count)
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response

    async def _create(self, tx: Transaction, draft: Draft, event: str) -> pb.Account:
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
        await self._audit.within(tx, event, account_id=account_id, target=f"account:{account_id}")
        return convert.account(row)


def _given(answer: bytes | None) -> bytes:
    """Let nothing of the transaction last when it would claim the request, which is for who does the work."""
    if answer is None:
        raise _Unanswered
    return answer


async def lock_account(tx: Transaction, account_id: UUID) -> asyncpg.Record:
    """Take an account until the transaction ends."""
    return _found(await tx.row(QUERIES["lock_account"], account_id=account_id))


async def write_account(tx: Transaction, current: asyncpg.Record, at: datetime, **values: object) -> pb.Account:
    """Change an account that is held."""
    kept = {name: current[name] for name in _KEPT} | values
    query = QUERIES["update_account"]
    return convert.account(_found(await tx.row(query, account_id=current["account_id"], update_time=at, **kept)))


async def set_password(
    tx: Transaction,
    current: asyncpg.Record,
    password_hash: str,
    at: datetime,
    reason: str,
    *,
    but: UUID | None = None,
) -> None:
    """Give a held account a password, and end all that the one before was good for.

    An address that waits to be verified is forgotten: whoever had the old password may have asked for it.
    """
    account_id = current["account_id"]
    await write_account(tx, current, at, password_hash=password_hash, new_email=None)
    await tx.execute(QUERIES["spend_one_time_tokens"], account_id=account_id, purpose="password_reset", at=at)
    await end_sign_ins(tx, account_id, at, reason, but=but)


async def end_sign_ins(tx: Transaction, account_id: UUID, at: datetime, reason: str, *, but: UUID | None = None) -> int:
    """End the account's sign-ins in every tenant, but one, and make its devices unknown; return how many ended."""
    await tx.execute(QUERIES["end_known_devices"], account_id=account_id)
    query = QUERIES["revoke_sign_ins_of_account"]
    return await tx.execute(query, account_id=account_id, at=at, reason=reason, but=but, own_only=False)


def _found(row: asyncpg.Record | None) -> asyncpg.Record:
    if row is None:
        raise AccountNotFound
    return row


async def _proved(tx: Transaction, account_id: UUID, revision: int) -> asyncpg.Record:
    """Take an account whose password was proved; whoever deactivated it or set another one meanwhile comes first."""
    row = await tx.row(QUERIES["lock_account"], account_id=account_id)
    if row is None:
        raise CredentialInvalid
    if row["revision"] != revision:
        raise TransactionConflict
    return row


def _refuse_stale(change: Change, current: asyncpg.Record) -> None:
    if change.revision not in (0, current["revision"]):
        raise RevisionStale(given=change.revision, current=current["revision"])


def _credentials(row: asyncpg.Record | None) -> LoginCredentials | None:
    if row is None:
        return None
    return LoginCredentials(
        account_id=row["account_id"],
        email=row["email"] or "",
        new_email=row["new_email"] or "",
        email_verified=row["email_verify_time"] is not None,
        password_hash=row["password_hash"],
        active=row["status"] == "active",
        has_second_factor=row["has_totp"],
        device_generation=row["device_generation"],
        revision=row["revision"],
    )
