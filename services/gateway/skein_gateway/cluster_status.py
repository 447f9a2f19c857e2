"""GetClusterStatus: the health of every service, read from its gRPC health check."""

from __future__ import annotations

import asyncio
from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio
from grpc_health.v1 import health, health_pb2

from skein.gateway.v1 import gateway_pb2 as pb
from skein_gateway import VERSION
from skein_kit.calls.call import Context
from skein_kit.host.process import Host, ServicerRegistry, is_ready

CHECK_SECONDS = 2.0
# Services with a health check, in the order of the response.
SERVICES = ("gateway", "auth", "tenancy", "session", "memory", "recall", "worker", "pc2")


class ClusterStatusHandler:
    """Checks each service whose address this process knows, concurrently and for at most CHECK_SECONDS."""

    def __init__(self, host: Host, registry: ServicerRegistry) -> None:
        """Call services through the host's channels. `registry` is the gateway's own, whose state needs no call."""
        self._host = host
        self._registry = registry

    async def GetClusterStatus(
        self, _request: pb.GetClusterStatusRequest, _context: Context
    ) -> pb.GetClusterStatusResponse:
        names = [name for name in SERVICES if name in self._host.addresses]
        services = await asyncio.gather(*(self._check(name) for name in names))
        return pb.GetClusterStatusResponse(version=VERSION, services=services)

    async def _check(self, service: str) -> pb.ServiceStatus:
        loop = asyncio.get_running_loop()
        started = loop.time()
        state = await self._state(service)
        elapsed = Duration()
        elapsed.FromMicroseconds(round((loop.time() - started) * 1e6))
        return pb.ServiceStatus(service=service, state=state, elapsed=elapsed)

    async def _state(self, service: str) -> pb.ServiceState:
        if service == "gateway":
            is_serving = await is_ready(self._registry) and not self._host.is_draining
            return pb.SERVICE_STATE_SERVING if is_serving else pb.SERVICE_STATE_NOT_SERVING
        # The generated stub needs a channel with streams as well, which the host does not offer here.
        check: Any = self._host.channel(service, caller="gateway", by_health=False).unary_unary(
            f"/{health.SERVICE_NAME}/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            response = await check(health_pb2.HealthCheckRequest(), timeout=CHECK_SECONDS)
        except aio.AioRpcError:
            return pb.SERVICE_STATE_UNREACHABLE
        if response.status == health_pb2.HealthCheckResponse.SERVING:
            return pb.SERVICE_STATE_SERVING
        return pb.SERVICE_STATE_NOT_SERVING
