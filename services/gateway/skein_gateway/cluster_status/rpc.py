"""The state of the cluster as the gateway sees it: what each service's own health check says."""

from __future__ import annotations

import asyncio
import importlib.metadata
from typing import TYPE_CHECKING, Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio
from grpc_health.v1 import health, health_pb2

from skein.gateway.v1 import gateway_pb2 as pb
from skein_kit.host.process import is_ready

if TYPE_CHECKING:
    from skein_kit.host.process import Host, ServicerRegistry

VERSION = importlib.metadata.version("skein-gateway")
CHECK_SECONDS = 2.0
# The services that have a health check, in the order in which they are told.
SERVICES = ("gateway", "auth", "tenancy", "session", "memory", "recall", "worker", "pc2")


class ClusterStatus:
    """The services that this process knows an address of."""

    def __init__(self, host: Host, own: ServicerRegistry) -> None:
        """Reach them as the host does; the gateway's `own` state needs no call."""
        self._host = host
        self._own = own

    async def look(self) -> pb.GetClusterStatusResponse:
        """Ask all services at once."""
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
            ready = await is_ready(self._own) and not self._host.draining
            return pb.SERVICE_STATE_SERVING if ready else pb.SERVICE_STATE_NOT_SERVING
        # Not the generated stub, which wants a channel for streams as well.
        check: Any = self._host.channel(service, by_health=False).unary_unary(
            f"/{health.SERVICE_NAME}/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = await check(health_pb2.HealthCheckRequest(), timeout=CHECK_SECONDS)
        except aio.AioRpcError:
            return pb.SERVICE_STATE_UNREACHABLE
        if answer.status == health_pb2.HealthCheckResponse.SERVING:
            return pb.SERVICE_STATE_SERVING
        return pb.SERVICE_STATE_NOT_SERVING
