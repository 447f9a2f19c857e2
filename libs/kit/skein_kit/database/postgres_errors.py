"""Errors of the driver, translated into the errors that callers see.

| SQLSTATE | error |
|---|---|
| 08xxx, 53xxx but 53100, 57P0x, 58xxx, 25006, a lost socket | DatabaseUnavailable |
| 53100 | DatabaseFull |
| 40xxx, 55P03 | TransactionConflict |
| 57014 while the call has time left | ReadTooCostly |
| 57014, 25P03, 25P04 | DeadlineExceeded |
| 22021, 22P05 | TextNotStorable |

Every other error of the database is a bug.
"""

from __future__ import annotations

import re

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

_CONSTRAINT = re.compile(r'constraint "([^"]+)"')
# Citus numbers shards from 102008 on.
_SHARD = re.compile(r"_\d{6,}$")
# A statement or a transaction exceeded its time limit. Not UNAVAILABLE, because an immediate retry would take as long.
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
    # asyncpg raises it when the connection breaks at certain moments of a statement.
    asyncpg.InternalClientError,
    # Prepared before a migration; the driver drops it now, and the caller's retry prepares it again.
    asyncpg.InvalidCachedStatementError,
    # A standby, or a primary that is about to become one.
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
)
_CONFLICT = (asyncpg.TransactionRollbackError, asyncpg.LockNotAvailableError)
_NOT_STORABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


# The first match counts: the class of a full disk is also a subclass of the unavailable ones.
_RPC_ERRORS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], type[RpcError]], ...] = (
    (asyncpg.DiskFullError, DatabaseFull),
    (_TOO_SLOW, DeadlineExceeded),
    (UNAVAILABLE, DatabaseUnavailable),
    (_CONFLICT, TransactionConflict),
    (_NOT_STORABLE, TextNotStorable),
)


def raise_rpc_error(error: BaseException) -> None:
    """Raise the RpcError for an error of the driver; return for any other error, which the caller handles."""
    if isinstance(error, RpcError):
        return
    if isinstance(error, asyncpg.QueryCanceledError) and _has_time_left():
        raise ReadTooCostly from None
    for kinds, rpc_error in _RPC_ERRORS:
        if isinstance(error, kinds):
            # The class, not an instance: a local variable with the instance would keep its frames alive.
            raise rpc_error from error


def _has_time_left() -> bool:
    """Return whether the current call has time left: then the statement exceeded the limit of reads."""
    call = current_call()
    if call is None:
        return False
    remaining_seconds = call.remaining_seconds()
    return remaining_seconds is None or remaining_seconds > 0


def violated_constraint(error: asyncpg.IntegrityConstraintViolationError) -> str:
    """Return the name of the constraint that a statement violated, "" when the error has none.

    An error of a worker of Citus has the name in its message alone, with the number of the shard: `blocks_pkey_102313`.
    """
    name: str | None = error.constraint_name
    if not name:
        named = _CONSTRAINT.search(str(error))
        name = named[1] if named else ""
    return _SHARD.sub("", name)
