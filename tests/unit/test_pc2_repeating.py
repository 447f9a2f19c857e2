from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from grpc import aio

from skein_kit import errors
from skein_kit.calls.call import status_metadata
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import RequestContext


def refusal(refused: errors.RpcError) -> aio.AioRpcError:
    """Return what a stub raises when the gateway refuses."""
    status = refused.status()
    return aio.AioRpcError(
        errors.status_code(status), aio.Metadata(), aio.Metadata(*status_metadata(status)), details=status.message
    )


class Method:
    """Answers with these, one after the other; the last one for good."""

    def __init__(self, *answers: str | aio.AioRpcError) -> None:
        self.answers: Sequence[str | aio.AioRpcError] = answers
        self.calls = 0
        self.times: list[float] = []

    async def __call__(self, _request: str, /, **_: Any) -> str:
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        self.calls += 1
        self.times.append(asyncio.get_running_loop().time())
        if isinstance(answer, aio.AioRpcError):
            raise answer
        return answer


async def call(method: Method, *, seconds: float) -> str:
    context = RequestContext(request_id="r", deadline=asyncio.get_running_loop().time() + seconds)
    async with aio.insecure_channel("127.0.0.1:9") as channel:
        return await GatewayApi(channel, lambda: "key").call(method, "", context)


async def test_a_shed_call_is_repeated() -> None:
    method = Method(refusal(errors.Overloaded()), refusal(errors.Overloaded()), "done")

    answer = await call(method, seconds=60)

    assert (answer, method.calls) == ("done", 3)


async def test_an_overload_is_reported_in_time() -> None:
    method = Method(refusal(errors.Overloaded()))

    with pytest.raises(aio.AioRpcError) as raised:
        await call(method, seconds=3)

    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert method.calls > 1


async def test_the_gateway_is_left_alone_for_as_long_as_it_asks() -> None:
    method = Method(refusal(errors.Overloaded(retry_after=0.4)), "done")

    await call(method, seconds=60)

    assert method.times[1] - method.times[0] >= 0.4


async def test_a_pause_leaves_time_for_another_try() -> None:
    method = Method(refusal(errors.Overloaded(retry_after=30)), "done")

    assert await call(method, seconds=4) == "done"


@pytest.mark.parametrize("refused", [errors.RateLimited(), errors.DatabaseUnavailable()], ids=lambda one: one.reason)
async def test_another_error_is_raised_at_once(refused: errors.RpcError) -> None:
    method = Method(refusal(refused))

    with pytest.raises(aio.AioRpcError):
        await call(method, seconds=60)

    assert method.calls == 1
