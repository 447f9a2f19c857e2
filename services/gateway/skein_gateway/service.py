"""How the gateway service is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import Route

from skein.auth.v1 import auth_pb2_grpc, oauth_pb2_grpc
from skein.gateway.v1 import gateway_pb2_grpc
from skein.memory.v1 import blocks_pb2_grpc, memory_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway.cluster_status.rpc import ClusterStatus
from skein_gateway.console.routes import Console
from skein_gateway.context.rpc import Contexts
from skein_gateway.forget.rpc import Forgetting
from skein_gateway.http_api.cors import origins_of
from skein_gateway.http_api.server import Front, entered, http_door
from skein_gateway.identity.credential_cache import Credentials
from skein_gateway.identity.credential_check import Recognizer, fetching
from skein_gateway.identity.trusted_proxies import NO_TRUSTED_PROXIES, Proxies
from skein_gateway.mcp.http_handler import Guard, McpDoor, is_loopback, manager_of, running
from skein_gateway.mcp.rpc_calls import MCP_PATH, Rpcs
from skein_gateway.mcp.server import server_of
from skein_gateway.oauth.metadata import Metadata
from skein_gateway.oauth.routes import oauth_routes
from skein_gateway.public_methods.forwarder import PUBLIC_METHODS, forwarder, stream_forwarder
from skein_gateway.rate_limits.limiter import Limiter
from skein_gateway.recall.rpc import Recalling
from skein_gateway.remember.rpc import Remembering
from skein_gateway.servicer import GatewayServicer
from skein_gateway.settings import GatewaySettings
from skein_kit.host.process import Host, Service, Servicers
from skein_kit.telemetry import logs
from skein_kit.tls.server_tls import Tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logs.get("gateway")


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the HTTP door and put every public method of the cluster behind both doors."""
    settings = GatewaySettings.read(host.environment)
    tls, proxies = Tls.of(settings.tls_certificate, settings.tls_key), Proxies.of(settings.trusted_proxies)
    if not (proxies.networks or is_loopback(host.settings.host)):
        log.warning("no_trusted_proxies", hint=NO_TRUSTED_PROXIES)
    identities = auth_pb2_grpc.IdentityServiceStub(host.channel("auth"))
    recognizer = Recognizer(fetching(auth_pb2_grpc.AuthServiceStub(host.channel("auth")), identities))
    credentials = Credentials(
        identities,
        host.verifier,
        recognizer,
        unproven_per_second=settings.unproven_credentials_per_second,
    )
    limiter = Limiter(tenancy_pb2_grpc.UpkeepServiceStub(host.channel("tenancy")).LeaseRequests)
    servicers = Servicers(
        identify=credentials.identify,
        admit=limiter.admit,
        continues_trace=settings.trust_traceparent,
        is_edge=True,
        origin=proxies.client,
        credentials=None if tls is None else tls.credentials(),
    )
    servicers.ready_checks.append(host.verifier.ready)
    remembering = Remembering(
        session_pb2_grpc.SessionServiceStub(host.channel("session")),
        memory_pb2_grpc.MemoryServiceStub(host.channel("memory")),
    )
    recalling = Recalling(
        recall_pb2_grpc.RecallServiceStub(host.channel("recall")),
        blocks_pb2_grpc.BlockServiceStub(host.channel("memory")),
        tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy")),
        arm_seconds=settings.gateway_recall_arm_seconds,
    )
    contexts = Contexts(recalling, session_pb2_grpc.SessionServiceStub(host.channel("session")))
    forgetting = Forgetting(
        session_pb2_grpc.SessionServiceStub(host.channel("session")),
        memory_pb2_grpc.MemoryServiceStub(host.channel("memory")),
        tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy")),
    )
    servicer = GatewayServicer(remembering, recalling, contexts, forgetting, ClusterStatus(host, servicers))
    servicers.add(gateway_pb2_grpc.add_GatewayServiceServicer_to_server, servicer)
    for path, method in PUBLIC_METHODS.items():
        if method.service == "gateway":
            continue
        if method.streams:
            servicers.forward_stream(path, stream_forwarder(host, method))
        else:
            servicers.forward(path, forwarder(host, method))
    metadata = Metadata(oauth_pb2_grpc.OAuthServiceStub(host.channel("auth")))
    origins = origins_of(settings.cors_origins)
    mcp = manager_of(server_of(Rpcs(servicers)))
    mcp_door = McpDoor(
        mcp,
        entering=lambda request: entered(request, proxies),
        identify=credentials.identify,
        metadata=metadata,
        guard=Guard(origins=origins, proxies=proxies, loopback=is_loopback(host.settings.host)),
        seconds=host.settings.default_deadline_seconds,
    )
    console = Console.of(host, credentials, metadata, proxies, servicers.answers)
    front = Front(
        routes=[*oauth_routes(host, credentials, metadata, proxies), Route(MCP_PATH, mcp_door), *console.routes],
        home=console.home,
        metadata=metadata,
        origins=origins,
        proxies=proxies,
        tls=tls,
    )
    async with limiter, running(mcp), http_door(host, settings.http_port, servicers, front):
        yield servicers


SERVICE = Service(
    name="gateway",
    port=50050,
    calls=("auth", "tenancy", "session", "memory", "recall", "worker", "pc2"),
    start=start,
    has_database=False,
)
