"""What a caller reads when the database cancels a statement: whether it was the deadline or the limit of reads."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from skein_kit.calls import call as calls
from skein_kit.calls.call import Call
from skein_kit.database import postgres_errors
from skein_kit.errors import DeadlineExceeded, ReadTooCostly, RpcError


@pytest.mark.parametrize(
    ("remaining", "refusal"),
    [(None, ReadTooCostly), (60.0, ReadTooCostly), (-1.0, DeadlineExceeded)],
    ids=["no deadline", "time left", "no time left"],
)
async def test_a_cancelled_statement_met_the_limit_of_reads_unless_the_deadline_is_over(
    monkeypatch: pytest.MonkeyPatch, remaining: float | None, refusal: type[RpcError]
) -> None:
    deadline = None if remaining is None else asyncio.get_running_loop().time() + remaining
    call = Call(path="/p.S/M", metadata={}, deadline=deadline, peer="")
    monkeypatch.setattr(postgres_errors, "current_call", lambda: call)

    with pytest.raises(refusal):
        postgres_errors.raise_rpc_error(asyncpg.QueryCanceledError())


async def test_a_cancelled_statement_of_the_background_met_its_own_limit() -> None:
    assert calls.current_call() is None

    with pytest.raises(DeadlineExceeded):
        postgres_errors.raise_rpc_error(asyncpg.QueryCanceledError())
