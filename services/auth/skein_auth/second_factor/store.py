"""Second factors in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.errors import CodeWrong, TotpStateInvalid
from skein_auth.queries import QUERIES
from skein_auth.second_factor.model import SecondFactor
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    import asyncpg

    from skein_auth.audit.recorder import AuditRecorder
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey


class TotpStore:
    """Second factors and recovery codes.

    Methods that take `once` do their work once for each request; their stored answers hold no secret.
    """

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit
        self._requests = IdempotencyStore(database, "auth")

    async def second_factor(self, account_id: UUID) -> SecondFactor | None:
        """Return what the account signs in with; None when there is no such account."""
        async with self._database.shared() as tx:
            row = await tx.row(QUERIES["get_second_factor"], account_id=account_id)
        return None if row is None else _factor(row, email=row["email"] or "", password_hash=row["password_hash"])

    async def spend_step(self, account_id: UUID, step: int) -> bool:
        """Say whether the code of this step was still good; it is no more."""
        async with self._database.shared() as tx:
            return await tx.execute(QUERIES["spend_totp_step"], account_id=account_id, step=step) == 1

    async def spend_recovery_code(self, account_id: UUID, code_hash: bytes) -> bool:
        """Say whether the recovery code was still good; it is no more."""
        async with self._database.shared() as tx:
            return await _spend(tx, account_id, code_hash)

    async def reseal(self, account_id: UUID, sealed: bytes, resealed: bytes) -> None:
        async with self._database.shared() as tx:
            await tx.execute(
                QUERIES["reseal_totp"], account_id=account_id, sealed_totp_secret=sealed, resealed=resealed
            )

    async def start(self, account_id: UUID, sealed_secret: bytes, once: IdempotencyKey) -> bool:
        """Keep a secret that counts for nothing yet; False when the request was answered before."""
        async with self._database.transaction(NO_TENANT) as tx:
            saved = pb.StartTotpResponse().SerializeToString()
            write = await self._requests.claim(tx, NO_TENANT, once, response=saved)
            if write.saved_response is not None:
                return False
            started = await tx.execute(
                QUERIES["start_totp"], account_id=account_id, sealed_totp_secret=sealed_secret, at=now()
            )
            if not started:
                raise TotpStateInvalid
            await self._audit.within(tx, "totp_started", account_id=account_id)
        return True

    async def confirm(
        self,
        account_id: UUID,
        step_of: Callable[[SecondFactor], int],
        code_hashes: Sequence[bytes],
        once: IdempotencyKey,
    ) -> bool:
        """Make the second factor count, and keep its recovery codes; False when the request was answered before.

        `step_of` returns the time step of the code that was given, or refuses it.
        """
        async with self._database.transaction(NO_TENANT) as tx:
            write = await self._requests.claim(
                tx, NO_TENANT, once, response=pb.ConfirmTotpResponse().SerializeToString()
            )
            if write.saved_response is not None:
                return False
            factor = await _locked(tx, account_id, confirmed=False)
            await tx.execute(QUERIES["confirm_totp"], account_id=account_id, step=step_of(factor), at=now())
            await tx.execute(QUERIES["create_recovery_codes"], account_id=account_id, code_hashes=list(code_hashes))
            await self._audit.within(tx, "totp_confirmed", account_id=account_id)
        return True

    async def disable(
        self,
        account_id: UUID,
        is_code: Callable[[SecondFactor], bool] | None,
        code_hash: bytes | None,
        once: IdempotencyKey,
    ) -> None:
        """Remove the second factor if the code is good: the authenticator's, or a recovery code by its hash."""
        async with self._database.transaction(NO_TENANT) as tx:
            write = await self._requests.claim(
                tx, NO_TENANT, once, response=pb.DisableTotpResponse().SerializeToString()
            )
            if write.saved_response is not None:
                return
            factor = await _locked(tx, account_id, confirmed=True)
            if is_code is not None:
                is_good = is_code(factor)
            else:
                is_good = code_hash is not None and await _spend(tx, account_id, code_hash)
            if not is_good:
                raise CodeWrong
            await tx.execute(QUERIES["disable_totp"], account_id=account_id, at=now())
            await tx.execute(QUERIES["delete_recovery_codes"], account_id=account_id)
            await self._audit.within(tx, "totp_disabled", account_id=account_id)


async def _locked(tx: Transaction, account_id: UUID, *, confirmed: bool) -> SecondFactor:
    """Return the second factor in the state that is wanted, kept from changes."""
    row = await tx.row(QUERIES["lock_second_factor"], account_id=account_id)
    if row is None or row["sealed_totp_secret"] is None or (row["totp_confirm_time"] is not None) != confirmed:
        raise TotpStateInvalid
    return _factor(row)


async def _spend(tx: Transaction, account_id: UUID, code_hash: bytes) -> bool:
    spent = await tx.execute(QUERIES["spend_recovery_code"], account_id=account_id, code_hash=code_hash, at=now())
    return spent == 1


def _factor(row: asyncpg.Record, *, email: str = "", password_hash: str | None = None) -> SecondFactor:
    return SecondFactor(
        email=email,
        password_hash=password_hash,
        sealed_secret=row["sealed_totp_secret"] or b"",
        confirmed=row["totp_confirm_time"] is not None,
        step=row["totp_step"],
    )
