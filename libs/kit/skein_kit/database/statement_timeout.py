"""How long the database lets a transaction go on, by itself, for the call that it works for."""

from __future__ import annotations

from skein_kit.calls.call import Call, current_call
from skein_kit.identity.permissions import ACCESS_RULES, SYSTEM

# How long after a call's deadline the server ends a statement that was not cancelled.
_CANCEL_MILLISECONDS = 100
# How long after it the server lets go of a transaction that nobody goes on with; and of one that is no call's work.
_ABANDONED_MILLISECONDS = 5_000
_UNHEARD_MILLISECONDS = 30_000
# How permissions end that change nothing.
_READ = ".read"
# The first version of Postgres with transaction_timeout.
_LIMITS_TRANSACTIONS = 17


def timeout_settings(version: int, read_seconds: float = 0.0, *, reads: bool = False) -> str:
    """Let the server itself end a statement when the call's time is over, and what nobody goes on with soon after.

    A cancellation is sent as well, and sooner; but one that reaches the server before its statement does is lost, and
    the statement would wait for its lock as long as it takes. When the network between is gone nothing reaches it at
    all, and the transaction would keep its locks, and from those who watch all that came after it, until the server
    noticed. Before version 17 the server lets go of one that is idle only, and not of one that was cut off between the
    parts of a statement.

    What a caller reads gets `read_seconds` for each statement at most (0: no such limit), whatever the caller's
    deadline: in a transaction that only `reads`, and in every one of a method that asks for no more than a permission
    to read.
    """
    call = current_call()
    left = None if call is None else call.remaining()
    abandoned = "transaction_timeout" if version >= _LIMITS_TRANSACTIONS else "idle_in_transaction_session_timeout"
    if left is None:
        return f"; SET LOCAL {abandoned} = {_UNHEARD_MILLISECONDS}"
    milliseconds = max(0, int(left * 1000))
    statement = milliseconds + _CANCEL_MILLISECONDS
    if read_seconds and call is not None and (reads or _is_read(call)) and not _is_of_the_cluster(call):
        statement = min(statement, int(read_seconds * 1000))
    return (
        f"; SET LOCAL statement_timeout = {statement}; SET LOCAL {abandoned} = {milliseconds + _ABANDONED_MILLISECONDS}"
    )


def _is_read(call: Call) -> bool:
    """Say whether a call's method changes nothing, as the access table has it."""
    rule = ACCESS_RULES.get(call.path)
    return rule is not None and rule.permission is not None and rule.permission.endswith(_READ)


def _is_of_the_cluster(call: Call) -> bool:
    """Say whether a call is the cluster's own background work."""
    return call.caller is not None and SYSTEM in call.caller.permissions
