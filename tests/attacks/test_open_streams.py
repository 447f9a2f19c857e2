"""Attack: streams that no credential is needed for, health and reflection, opened without end on every service's port.
May be seen: RESOURCE_EXHAUSTED for one stream too many, while other callers still get health.
May be spent: eight watches and four reflections of a connection, 1,024 watches of an address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, cast

import grpc
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster
from fix_identities import service_channel
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from skein_kit.rpc.health_reflection import MAX_REFLECTIONS_PER_CONNECTION, MAX_WATCHES, MAX_WATCHES_PER_CONNECTION

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
SERVING = health_pb2.HealthCheckResponse.SERVING
MAX_STREAMS_PER_ADDRESS = MAX_WATCHES // 2
SERVICES = ("gateway", "auth", "tenancy", "session", "memory", "recall", "worker", "pc2")


def watch(channel: aio.Channel, name: str = "") -> Any:
    stub: Any = health_pb2_grpc.HealthStub(cast("Any", channel))
    return stub.Watch(health_pb2.HealthCheckRequest(service=name))


async def outcomes(calls: Iterable[Any]) -> list[Any]:
    """Return of each stream its first message, or the code that it ended with."""

    async def one(call: Any) -> Any:
        try:
            return await call.read()
        except aio.AioRpcError as error:
            return error.code()

    return await asyncio.gather(*(one(call) for call in calls))


def own_connection(address: str, service: str = "gateway") -> aio.Channel:
    options = (("grpc.use_local_subchannel_pool", 1),)
    if service == "gateway":
        return aio.insecure_channel(address, options=options)
    return service_channel(address, service, options=options)


@pytest.mark.system
async def test_a_connection_has_so_many_watches_and_reflections_on_every_service(cluster: Cluster) -> None:
    for service in [name for name in SERVICES if cluster.addresses.get(name)]:
        async with own_connection(cluster.addresses[service], service) as channel:
            watches = [watch(channel, name=f"unknown {number}") for number in range(MAX_WATCHES_PER_CONNECTION + 3)]
            watched = await outcomes(watches)
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", channel))
            streams = [stub.ServerReflectionInfo() for _ in range(MAX_REFLECTIONS_PER_CONNECTION)]
            for stream in streams:
                await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            reflected = await outcomes(streams)
            # Nothing is sent on these: grpc gives a stream that is refused during a write the code INTERNAL.
            refused = await outcomes([stub.ServerReflectionInfo() for _ in range(2)])
            # A place is free again when its stream has ended.
            for stream in (*watches, *streams):
                stream.cancel()

            async with asyncio.timeout(60):
                while (await outcomes([again := watch(channel)]))[0] is FULL:
                    pass
            again.cancel()
        async with own_connection(cluster.addresses[service], service) as other:
            first = await outcomes([watch(other)])

        assert watched.count(FULL) == 3, service
        assert FULL not in reflected, service
        assert refused == [FULL, FULL], service
        assert first[0].status == SERVING, service


@pytest.mark.system
async def test_an_address_has_so_many_watches_and_health_is_checked_meanwhile(cluster: Cluster) -> None:
    connections = attack_size(MAX_STREAMS_PER_ADDRESS // MAX_WATCHES_PER_CONNECTION + 2, MAX_WATCHES)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(own_connection(cluster.addresses["memory"], "memory"))
            for _ in range(connections)
        ]
        calls = [watch(channel) for channel in opened for _ in range(MAX_WATCHES_PER_CONNECTION)]
        watched = await outcomes(calls)
        stub: Any = health_pb2_grpc.HealthStub(cast("Any", opened[-1]))
        checked = await stub.Check(health_pb2.HealthCheckRequest(service=""))

    # The cluster's own services watch this one from the same address.
    served = sum(isinstance(one, health_pb2.HealthCheckResponse) for one in watched)
    assert 0 < served <= MAX_STREAMS_PER_ADDRESS
    assert checked.status == SERVING


async def test_a_question_that_no_name_is_so_long_for_is_refused(cluster: Cluster) -> None:
    name = "x" * 100_000
    async with own_connection(cluster.endpoint) as channel:
        stub: Any = health_pb2_grpc.HealthStub(cast("Any", channel))
        reflect: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", channel))
        reflected = reflect.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(file_by_filename=name)]))
        with_name = [watch(channel, name), reflected]
        codes = await outcomes(with_name)
        try:
            await stub.Check(health_pb2.HealthCheckRequest(service=name))
        except aio.AioRpcError as error:
            codes.append(error.code())

    assert codes == [grpc.StatusCode.INVALID_ARGUMENT] * 3
