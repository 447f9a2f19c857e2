"""How long the database lets a transaction go on, by itself, for the call that it works for."""

from __future__ import annotations

from skein_kit.call import current

# How long after a call's deadline the server ends a statement that was not cancelled.
_CANCEL_MILLISECONDS = 100
# How long after it the server lets go of a transaction that nobody goes on with; and of one that is no call's work.
_ABANDONED_MILLISECONDS = 5_000
_UNHEARD_MILLISECONDS = 30_000
# The first version of Postgres with transaction_timeout.
_LIMITS_TRANSACTIONS = 17


def time_limit(version: int) -> str:
    """Let the server itself end a statement when the call's time is over, and what nobody goes on with soon after.

    A cancellation is sent as well, and sooner; but one that reaches the server before its statement does is lost, and
    the statement would wait for its lock as long as it takes. When the network between is gone nothing reaches it at
    all, and the transaction would keep its locks, and from those who watch all that came after it, until the server
    noticed. Before version 17 the server lets go of one that is idle only, and not of one that was cut off between the
    parts of a statement.
    """
    call = current()
    left = None if call is None else call.remaining()
    abandoned = "transaction_timeout" if version >= _LIMITS_TRANSACTIONS else "idle_in_transaction_session_timeout"
    if left is None:
        return f"; SET LOCAL {abandoned} = {_UNHEARD_MILLISECONDS}"
    milliseconds = max(0, int(left * 1000))
    return (
        f"; SET LOCAL statement_timeout = {milliseconds + _CANCEL_MILLISECONDS}"
        f"; SET LOCAL {abandoned} = {milliseconds + _ABANDONED_MILLISECONDS}"
    )
