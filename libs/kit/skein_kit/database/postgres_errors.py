"""What the driver raises when the database is away, full, slow or in conflict, as the refusals that callers read.

| SQLSTATE | refusal |
|---|---|
| 08xxx, 53xxx but 53100, 57P0x, 58xxx, 25006, a lost socket | DatabaseUnavailable |
| 53100 | DatabaseFull |
| 40xxx, 55P03 | TransactionConflict |
| 57014 while the call has time left | ReadTooCostly |
| 57014, 25P03, 25P04 | DeadlineExceeded |
| 22021, 22P05 | TextNotStorable |

Whatever else the database says is a fault of ours.
"""

from __future__ import annotations

import asyncpg

from skein_kit.calls.call import current_call
from skein_kit.errors import (
    DatabaseFull,
    DatabaseUnavailable,
    DeadlineExceeded,
    ReadTooCostly,
    RpcError,
    TextNotStorable,
    TransactionConflict,
)

# A statement's or a transaction's own limit of time. Repeating it at once would take as long again, so it is not
# UNAVAILABLE.
_TOO_SLOW = (
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
)
UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    # The disk under the database fails, or its files are gone.
    asyncpg.PostgresSystemError,
    asyncpg.InterfaceError,
    # What asyncpg says when the connection under a statement goes away at the wrong moment.
    asyncpg.InternalClientError,
    # Prepared before a migration; the driver forgets it now, and the caller's retry prepares it anew.
    asyncpg.InvalidCachedStatementError,
    # A standby, or a primary that is about to become one.
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
)
_CONFLICT = (asyncpg.TransactionRollbackError, asyncpg.LockNotAvailableError)
_NOT_STORABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


# The first that fits counts: a full disk is one of the errors that a database which is not there raises, too.
_REFUSALS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], type[RpcError]], ...] = (
    (asyncpg.DiskFullError, DatabaseFull),
    (_TOO_SLOW, DeadlineExceeded),
    (UNAVAILABLE, DatabaseUnavailable),
    (_CONFLICT, TransactionConflict),
    (_NOT_STORABLE, TextNotStorable),
)


def raise_rpc_error(error: BaseException) -> None:
    """Raise the refusal for what the driver raises when the database is away, full, slow or in conflict.

    Whatever else it is, a refusal for one, is left to whoever asks.
    """
    if isinstance(error, RpcError):
        return
    if isinstance(error, asyncpg.QueryCanceledError) and _has_time_left():
        raise ReadTooCostly from None
    for kinds, refusal in _REFUSALS:
        if isinstance(error, kinds):
            # Its name is the class's: a local one for the refusal itself would hold the frames that it has come by.
            raise refusal from error


def _has_time_left() -> bool:
    """Say whether the present call has time left, or no deadline: then the statement met the limit of reads."""
    call = current_call()
    if call is None:
        return False
    left = call.remaining()
    return left is None or left > 0
