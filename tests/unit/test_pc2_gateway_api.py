"""Calls through the gateway: repeats of overloaded calls within their deadline."""

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


def grpc_error(error: errors.RpcError) -> aio.AioRpcError:
    """Return the exception that a stub raises for an error of the gateway."""
    status = error.status()
    return aio.AioRpcError(
        errors.status_code(status), aio.Metadata(), aio.Metadata(*status_metadata(status)), details=status.message
    )


class Method:
    """Answers with these, one after the other; the last one for good."""

    def __init__(self, *replies: str | aio.AioRpcError) -> None:
        self.replies: Sequence[str | aio.AioRpcError] = replies
        self.calls = 0
        self.times: list[float] = []

    async def __call__(self, _request: str, /, **_: Any) -> str:
        reply = self.replies[min(self.calls, len(self.replies) - 1)]
        self.calls += 1
        self.times.append(asyncio.get_running_loop().time())
        if isinstance(reply, aio.AioRpcError):
            raise reply
        return reply


async def call_gateway(method: Method, *, seconds: float) -> str:
    context = RequestContext(request_id="r", deadline=asyncio.get_running_loop().time() + seconds)
    async with aio.insecure_channel("127.0.0.1:9") as channel:
        return await GatewayApi(channel, lambda: "key").call(method, "", context)


async def test_an_overloaded_call_is_repeated() -> None:
    method = Method(grpc_error(errors.Overloaded()), grpc_error(errors.Overloaded()), "done")

    reply = await call_gateway(method, seconds=60)

    assert (reply, method.calls) == ("done", 3)


@pytest.mark.system
async def test_an_overloaded_call_fails_before_the_deadline() -> None:
    method = Method(grpc_error(errors.Overloaded()))

    with pytest.raises(aio.AioRpcError) as raised:
        await call_gateway(method, seconds=3)

    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert method.calls > 1


@pytest.mark.system
async def test_a_repeat_waits_for_the_pause_that_the_gateway_names() -> None:
    method = Method(grpc_error(errors.Overloaded(retry_after=0.4)), "done")

    await call_gateway(method, seconds=60)

    assert method.times[1] - method.times[0] >= 0.4


@pytest.mark.system
async def test_a_pause_leaves_time_for_another_attempt() -> None:
    method = Method(grpc_error(errors.Overloaded(retry_after=30)), "done")

    assert await call_gateway(method, seconds=4) == "done"


@pytest.mark.parametrize("error", [errors.RateLimited(), errors.DatabaseUnavailable()], ids=lambda one: one.reason)
async def test_other_errors_are_raised_without_a_repeat(error: errors.RpcError) -> None:
    method = Method(grpc_error(error))

    with pytest.raises(aio.AioRpcError):
        await call_gateway(method, seconds=60)

    assert method.calls == 1
