"""Composition root of the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Route

from skein.auth.v1 import auth_pb2_grpc, oauth_pb2_grpc
from skein.gateway.v1 import gateway_pb2_grpc
from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, memory_pb2_grpc
from skein.recall.v1 import recall_pb2_grpc
from skein.session.v1 import session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway.cluster_status import ClusterStatusHandler
from skein_gateway.console.routes import Console
from skein_gateway.context.recorder import ContextRecorder
from skein_gateway.context.replay import ContextReplayHandler
from skein_gateway.context.rpc import ContextHandler
from skein_gateway.context.turns import LedgerTurns
from skein_gateway.forget.certified_purges import CertifiedPurges
from skein_gateway.forget.rpc import ForgetHandler
from skein_gateway.forget.session_purge import SessionPurge
from skein_gateway.http_api.cors import origins_of
from skein_gateway.http_api.server import HttpConfig, call_of_request, serve_http_api
from skein_gateway.identity.credential_cache import IdentityCache
from skein_gateway.identity.credential_check import CredentialChecker, key_fetcher
from skein_gateway.identity.trusted_proxies import NO_TRUSTED_PROXIES, TrustedProxies
from skein_gateway.mcp.http_handler import McpHttpHandler, OriginCheck, is_loopback, manager_of, running_manager
from skein_gateway.mcp.rpc_calls import MCP_PATH, RpcCaller
from skein_gateway.mcp.server import server_of
from skein_gateway.oauth.metadata import ServerMetadata
from skein_gateway.oauth.routes import oauth_routes
from skein_gateway.public_methods import PUBLIC_METHODS, forwarder, stream_forwarder
from skein_gateway.rate_limits import RateLimiter
from skein_gateway.recall.rpc import RecallHandler
from skein_gateway.refusals import RefusalSender, count_lost
from skein_gateway.remember import RememberHandler
from skein_gateway.settings import GatewaySettings
from skein_kit.access_log.refusals import RefusalRecorder
from skein_kit.calls.call import DEFAULT_DEADLINE_SECONDS
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_kit.rpc.interceptors import Handler
from skein_kit.telemetry import logs
from skein_kit.tls.server_tls import ServerTls

log = logs.get("gateway")


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Build the gateway and serve HTTP; the host serves the returned registry over gRPC."""
    settings = GatewaySettings.read(host.environment)
    tls, proxies = (
        ServerTls.read(settings.tls_certificate, settings.tls_key),
        TrustedProxies.of(settings.trusted_proxies),
    )
    if not (proxies.networks or is_loopback(host.settings.host)):
        log.warning("trusted_proxies_missing", hint=NO_TRUSTED_PROXIES)
    identities = auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth", caller="gateway"))
    checker = CredentialChecker(
        key_fetcher(auth_pb2_grpc.AuthServiceStub(host.channel("auth", caller="gateway")), identities)
    )
    credentials = IdentityCache(
        identities,
        host.verifier,
        checker,
        unproven_per_second=settings.unproven_credentials_per_second,
    )
    limiter = RateLimiter(
        tenancy_pb2_grpc.TenancyInternalServiceStub(host.channel("tenancy", caller="gateway")).AcquireRateLimit
    )
    servicers = ServicerRegistry(
        identify=credentials.identify,
        admit=limiter.admit,
        continues_trace=settings.trust_traceparent,
        is_edge=True,
        resolve_origin=proxies.client,
        credentials=None if tls is None else tls.credentials(),
    )
    servicers.ready_checks.append(host.verifier.ready)
    sender = RefusalSender(memory_pb2_grpc.MemoryInternalServiceStub(host.channel("memory", caller="gateway")))
    refusals = RefusalRecorder(sender.send, count_lost=count_lost)
    servicers.steps = DeclaredSteps(refusals=refusals)
    sessions = session_pb2_grpc.SessionServiceStub(host.channel("session", caller="gateway"))
    memories = memory_pb2_grpc.MemoryServiceStub(host.channel("memory", caller="gateway"))
    tenancy = tenancy_pb2_grpc.TenancyServiceStub(host.channel("tenancy", caller="gateway"))
    index = recall_pb2_grpc.RecallServiceStub(host.channel("recall", caller="gateway"))
    blocks = blocks_pb2_grpc.BlockServiceStub(host.channel("memory", caller="gateway"))
    curation = curation_pb2_grpc.CurationServiceStub(host.channel("memory", caller="gateway"))
    internal = recall_pb2_grpc.RecallInternalServiceStub(host.channel("recall", caller="gateway"))
    recorder = ContextRecorder(internal)
    recall = RecallHandler(
        index,
        blocks,
        tenancy,
        branch_seconds=settings.gateway_recall_branch_seconds,
    )
    servicers.add(
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server,
        RememberHandler(sessions, memories),
        recall,
        ContextHandler(
            recall,
            sessions,
            curation,
            recorder,
            LedgerTurns(
                session_pb2_grpc.SessionInternalServiceStub(host.channel("session", caller="gateway")), internal
            ),
            lineage_seconds=settings.gateway_recall_branch_seconds,
        ),
        ContextReplayHandler(index, memories, blocks, sessions, tenancy, curation, recorder),
        ForgetHandler(sessions, memories, tenancy, identities),
        ClusterStatusHandler(host, servicers),
    )
    forwarders: dict[str, Handler] = {}
    for path, method in PUBLIC_METHODS.items():
        if method.service == "gateway":
            continue
        if method.streams:
            servicers.add_raw_stream(path, stream_forwarder(host, method))
        else:
            forwarders[path] = forwarder(host, method)
    purges = CertifiedPurges(identities).handlers(forwarders) | SessionPurge(memories).handlers(forwarders)
    for path, handler in (forwarders | purges).items():
        servicers.add_raw(path, handler)
    metadata = ServerMetadata(oauth_pb2_grpc.OAuthServiceStub(host.channel("auth", caller="gateway")))
    origins = origins_of(settings.cors_origins)
    mcp = manager_of(server_of(RpcCaller(servicers)))
    mcp_handler = McpHttpHandler(
        mcp,
        call_of_request=lambda request: call_of_request(request, proxies),
        identify=credentials.identify,
        metadata=metadata,
        origin_check=OriginCheck(origins=origins, proxies=proxies, loopback=is_loopback(host.settings.host)),
        timeout_seconds=DEFAULT_DEADLINE_SECONDS,
    )
    mcp_routes = [Route(path, mcp_handler) for path in (MCP_PATH, MCP_PATH + "/")]
    console = Console.of(host, credentials, metadata, proxies, servicers.handlers)
    config = HttpConfig(
        routes=[*oauth_routes(host, credentials, metadata, proxies), *mcp_routes, *console.routes],
        home=console.home,
        metadata=metadata,
        origins=origins,
        proxies=proxies,
        tls=tls,
        console_port=settings.console_port,
    )
    async with (
        limiter,
        recorder.open(),
        refusals.open(),
        running_manager(mcp),
        serve_http_api(host, settings.http_port, servicers, config),
    ):
        yield servicers


SERVICE = Service(
    name="gateway",
    port=50050,
    depends_on=("auth", "tenancy", "session", "memory", "recall", "worker", "pc2"),
    start=start,
    has_database=False,
)
