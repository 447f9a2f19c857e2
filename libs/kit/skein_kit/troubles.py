"""What the driver raises when the database is away, full, slow or in conflict, as the refusals that callers read.

| SQLSTATE | refusal |
|---|---|
| 08xxx, 53xxx but 53100, 57P0x, 58xxx, 25006, a lost socket | DatabaseUnavailable |
| 53100 | DatabaseFull |
| 40xxx, 55P03 | TransactionConflict |
| 57014, 25P03, 25P04 | DeadlineExceeded |
| 22021, 22P05 | TextNotStorable |

Whatever else the database says is a fault of ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.errors import (
    DatabaseFull,
    DatabaseUnavailable,
    DeadlineExceeded,
    Refusal,
    TextNotStorable,
    TransactionConflict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the driver raises when the database is away, full, slow or in conflict into refusals."""
    try:
        yield
    except Refusal:
        raise
    except asyncpg.DiskFullError as error:
        raise DatabaseFull from error
    except _TOO_SLOW as error:
        raise DeadlineExceeded from error
    except UNAVAILABLE as error:
        raise DatabaseUnavailable from error
    except _CONFLICT as error:
        raise TransactionConflict from error
    except _NOT_STORABLE as error:
        raise TextNotStorable from error
