"""A database that follows another, as it is asked: while it answers, and for what it already has.

Nothing is remembered of how far it was: behind one address may stand several, and one that was started anew may show
less than it did before.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import asyncpg

from skein_kit.calls.database_revision import UNREACHABLE_REVISION
from skein_kit.database.named_queries import Queries
from skein_kit.errors import DatabaseBusy, DatabaseUnavailable
from skein_kit.telemetry.metrics import REPLICA_READS

if TYPE_CHECKING:
    from skein_kit.calls.call import Call
    from skein_kit.database.transactions import Database, Transaction

POSITION = Queries.of("skein_kit")["log_position"]
# A replica is a millisecond behind as a rule; one that is further behind is left to catch up.
_LOOKS, _PAUSE_SECONDS = 4, 0.003
# More of the log than is replayed in so many looks. Who asks for it may also have made up a number.
_MAX_LAG_BYTES = 4 * 1024 * 1024
# Until a replica that does not answer is asked again.
_RETRY_SECONDS = 5.0


class Replica:
    """Serves reads of one service, or leaves them to the primary."""

    def __init__(self, database: Database) -> None:
        """Ask a database whose transactions only read."""
        self._database = database
        self._asked_from = 0.0
        self._served, self._behind, self._unavailable = (
            REPLICA_READS.labels(database.service, outcome) for outcome in ("served", "behind", "unavailable")
        )

    async def entered(self, stack: AsyncExitStack, settings: str, call: Call) -> Transaction | None:
        """Begin a transaction for a read; None when the primary has to be asked."""
        if (
            call.min_revision is None
            or call.min_revision == UNREACHABLE_REVISION
            or time.monotonic() < self._asked_from
        ):
            return None
        # What an earlier transaction of the call has shown is shown by this one as well.
        least = max(call.min_revision, call.revision)
        try:
            async with AsyncExitStack() as entering:
                transaction = await entering.enter_async_context(self._database.with_settings(settings))
                if await _wait_for_revision(transaction, least):
                    stack.push_async_exit(entering.pop_all())
                    self._served.inc()
                    return transaction
        # Whatever it says, a wrong password for one, the primary can answer.
        except (DatabaseBusy, DatabaseUnavailable, asyncpg.PostgresError):
            self._asked_from = time.monotonic() + _RETRY_SECONDS
            self._unavailable.inc()
            return None
        self._behind.inc()
        return None


async def _wait_for_revision(transaction: Transaction, least: int) -> bool:
    """Say whether what this transaction reads from now on is so new."""
    if least == 0:
        return True
    for look in range(_LOOKS):
        if look:
            await asyncio.sleep(_PAUSE_SECONDS)
        missing = least - await transaction.value(POSITION)
        if missing <= 0:
            return True
        if missing > _MAX_LAG_BYTES:
            break
    return False
