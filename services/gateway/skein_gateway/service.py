"""How the gateway service is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.auth.v1 import auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein_gateway.credentials import Credentials
from skein_gateway.forwarding import PUBLIC_METHODS, forwarder
from skein_gateway.http import http_door
from skein_gateway.recalling import Recalling
from skein_gateway.remembering import Remembering
from skein_gateway.servicer import GatewayServicer
from skein_gateway.settings import GatewaySettings
from skein_gateway.status import ClusterStatus
from skein_kit.service import Host, Service, Servicers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the HTTP door and put every public method of the cluster behind both doors."""
    settings = GatewaySettings.read(host.environment)
    credentials = Credentials(auth_pb2_grpc.IdentityServiceStub(host.channel("auth")), host.verifier)
    servicers = Servicers(identify=credentials.identify, continues_trace=settings.trust_traceparent, is_edge=True)
    servicers.ready_checks.append(host.verifier.ready)
    remembering = Remembering(
        session_pb2_grpc.SessionServiceStub(host.channel("session")),
        memory_pb2_grpc.MemoryServiceStub(host.channel("memory")),
    )
    recalling = Recalling(
        recall_pb2_grpc.RecallServiceStub(host.channel("recall")), arm_seconds=settings.gateway_recall_arm_seconds
    )
    servicer = GatewayServicer(remembering, recalling, ClusterStatus(host))
    servicers.add(gateway_pb2_grpc.add_GatewayServiceServicer_to_server, servicer)
    for path, method in PUBLIC_METHODS.items():
        if method.service != "gateway":
            servicers.forward(path, forwarder(host, method))
    async with http_door(host, settings.http_port, servicers):
        yield servicers


SERVICE = Service(
    name="gateway",
    port=50050,
    calls=("auth", "tenancy", "session", "memory", "recall", "worker", "pc2"),
    start=start,
    has_database=False,
)
