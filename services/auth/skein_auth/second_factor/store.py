"""Second factors and recovery codes in the database. Methods that take `tx` work in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import CodeWrong, TotpStateInvalid
from skein_auth.queries import QUERIES
from skein_auth.second_factor.model import SecondFactor
from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import now


class TotpStore:
    """Second factors and recovery codes."""

    def __init__(self, database: Database, audit: AuditRecorder) -> None:
        self._database = database
        self._audit = audit

    async def get_second_factor(self, account_id: UUID) -> SecondFactor | None:
        """Read an account's second factor with its e-mail address and password hash; None for no such account."""
        async with self._database.global_transaction() as tx:
            row = await tx.row(QUERIES["get_second_factor"], account_id=account_id)
        return None if row is None else SecondFactor(**row)

    async def spend_step(self, account_id: UUID, step: int) -> bool:
        """Spend the code of a time step; return whether it was unspent."""
        async with self._database.global_transaction() as tx:
            return await tx.execute(QUERIES["spend_totp_step"], account_id=account_id, step=step) == 1

    async def spend_recovery_code(self, account_id: UUID, code_hash: bytes) -> bool:
        """Spend a recovery code; return whether it was unspent."""
        async with self._database.global_transaction() as tx:
            return await _spend(tx, account_id, code_hash)

    async def replace_encrypted_secret(self, account_id: UUID, old: bytes, new: bytes) -> None:
        """Replace the encryption of the same secret, unless the secret changed since."""
        async with self._database.global_transaction() as tx:
            await tx.execute(
                QUERIES["reencrypt_totp_secret"], account_id=account_id, old_encrypted_secret=old, encrypted_secret=new
            )

    async def start(self, tx: Transaction, account_id: UUID, encrypted_secret: bytes) -> None:
        """Store a secret that waits for confirmation. Raises TotpStateInvalid."""
        row_count = await tx.execute(
            QUERIES["start_totp"], account_id=account_id, encrypted_secret=encrypted_secret, at=now()
        )
        if not row_count:
            raise TotpStateInvalid
        await self._audit.record_in(tx, "totp_started", account_id=account_id)

    async def lock_second_factor(self, tx: Transaction, account_id: UUID, *, confirmed: bool) -> SecondFactor:
        """Lock an account's second factor until the transaction ends.

        Raises TotpStateInvalid unless it is started, and confirmed as `confirmed` says.
        """
        row = await tx.row(QUERIES["lock_second_factor"], account_id=account_id)
        factor = None if row is None else SecondFactor(**row)
        if factor is None or not factor.encrypted_secret or factor.confirmed != confirmed:
            raise TotpStateInvalid
        return factor

    async def confirm(self, tx: Transaction, account_id: UUID, step: int, code_hashes: Sequence[bytes]) -> None:
        """Make a locked second factor obligatory; the code of this step is spent."""
        await tx.execute(QUERIES["confirm_totp"], account_id=account_id, step=step, at=now())
        await tx.execute(QUERIES["create_recovery_codes"], account_id=account_id, code_hashes=list(code_hashes))
        await self._audit.record_in(tx, "totp_confirmed", account_id=account_id)

    async def spend_recovery_code_in(self, tx: Transaction, account_id: UUID, code_hash: bytes) -> None:
        """Spend a recovery code in the transaction. Raises CodeWrong."""
        if not await _spend(tx, account_id, code_hash):
            raise CodeWrong

    async def disable(self, tx: Transaction, account_id: UUID) -> None:
        """Delete a locked second factor and its recovery codes."""
        await tx.execute(QUERIES["disable_totp"], account_id=account_id, at=now())
        await tx.execute(QUERIES["delete_recovery_codes"], account_id=account_id)
        await self._audit.record_in(tx, "totp_disabled", account_id=account_id)


async def _spend(tx: Transaction, account_id: UUID, code_hash: bytes) -> bool:
    row_count = await tx.execute(QUERIES["spend_recovery_code"], account_id=account_id, code_hash=code_hash, at=now())
    return row_count == 1
