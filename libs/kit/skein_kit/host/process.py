"""Runs services in a process: production, all-in-one and tests call `run_services`.

A service is a value. Its `start` opens its resources on a Host and yields its ServicerRegistry. `run_services` puts the
methods behind the interceptors and serves them on a port, and in process to the other services.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import asyncpg
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein_kit.admission.overload import AdmissionControl
from skein_kit.admission.scan_budget import MEBIBYTE
from skein_kit.background import log_unhandled_exceptions, run_forever
from skein_kit.calls import database_revision
from skein_kit.calls.call import DEFAULT_DEADLINE_SECONDS, MAX_DEADLINE_SECONDS, Call, caller
from skein_kit.database.connection_settings import database_role, service_url
from skein_kit.database.named_queries import Queries
from skein_kit.database.probe import DatabaseProbe
from skein_kit.database.transactions import Database, ReadLimits
from skein_kit.errors import StreamEnded
from skein_kit.host import open_files
from skein_kit.host.admin_port import serve_admin
from skein_kit.host.open_files import FileDescriptorShares
from skein_kit.host.readiness import Readiness, is_ready, require_connection, require_schema_version
from skein_kit.http_server.connections import HttpLimits
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier
from skein_kit.rpc import grpc_handler, pagination
from skein_kit.rpc.channel import InProcessHandlers, ServiceChannel
from skein_kit.rpc.grpc_handler import GrpcHandler
from skein_kit.rpc.health_reflection import HealthReflectionHandler, HealthStatuses
from skein_kit.rpc.interceptors import Identify, InterceptorChain, bearer_credential, translate_identify_errors
from skein_kit.rpc.servicer_registry import ServicerRegistry
from skein_kit.rpc.streaming import MAX_PER_TENANT, RECHECK_SECONDS, StreamLimiter
from skein_kit.settings import ProcessSettings
from skein_kit.telemetry.memory_spans import MemorySpans
from skein_kit.telemetry.metrics import BUILD, TRACING, VERSION, measure_event_loop
from skein_kit.tls.mutual_tls import MutualTlsFiles

__all__ = [
    "Host",
    "NotReady",
    "PortTaken",
    "RunningServices",
    "Service",
    "ServicerRegistry",
    "export_traces",
    "is_ready",
    "run_services",
]

# The default port of the gateway's HTTP.
_HTTP_PORT = 8080
# A thread that runs Python code gives way to the event loop after this long. With the 5 ms that Python has by itself,
# each step of each call waits that long while a thread converts JSON.
_SWITCH_SECONDS = 0.0001
# Seconds to wait for a connection to a replica; then the primary answers.
_REPLICA_SECONDS = 1.0
_EDGE = "gateway"
# Timeout of one statement of a read, whatever the caller's deadline: a read that takes longer keeps its connection from
# some hundred others.
_READ_SECONDS = 10.0


class PortTaken(Exception):
    """A port is in use; the message names it and the setting that changes it."""


class NotReady(Exception):
    """Services did not become ready in time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One service of the cluster, as a value."""

    # "memory"; also its database role (skein_memory) and the prefix of its settings.
    name: str
    # None: no gRPC port.
    port: int | None
    # The services that this one calls.
    depends_on: tuple[str, ...]
    start: Callable[[Host], AbstractAsyncContextManager[ServicerRegistry]]
    has_database: bool = True


@dataclass(kw_only=True)
class Host:
    """The resources of a process, from which its services open channels and databases."""

    settings: ProcessSettings
    # Environment that services read their own settings from.
    environment: Mapping[str, str]
    # The newest schema version that this code knows.
    schema_version: int
    # "host:port" of each service ("https://host:port" for TLS). Services of this process update it when they listen.
    addresses: dict[str, str]
    # False: services of this process call each other over sockets too.
    in_process_calls: bool = True
    # True while a repair of stored data runs without callers; it needs no key to the secrets in the data.
    is_repairing: bool = False
    # True while the services drain: they finish calls in flight and take no new ones.
    is_draining: bool = False
    # Limits of open connections, by kind of server.
    open_files: FileDescriptorShares = field(default_factory=lambda: FileDescriptorShares.divide(open_files.limit()))
    # Signs page tokens; read from the database before the first service is ready.
    page_token_key: bytes = field(default=b"", repr=False)
    in_process_handlers: dict[str, InProcessHandlers] = field(default_factory=dict)
    _channels: dict[tuple[str, str, bool], ServiceChannel] = field(default_factory=dict)
    _verifier: IdentityTokenVerifier | None = None

    def channel(self, service: str, *, caller: str = "", by_health: bool = True) -> aio.Channel:
        """Return a channel from the service `caller` to a service for a generated stub; the host closes it.

        Within the process its calls have the identity of `caller`; over a socket, that of the certificate. With
        `by_health` calls go to replicas that report that they serve; without it, to any.
        """
        key = (caller, service, by_health)
        if key not in self._channels:
            self._channels[key] = ServiceChannel(
                lambda: self.addresses[service],
                self.in_process_handlers.setdefault(service, {}),
                ca_file=self.settings.ca_file,
                by_health=by_health,
                # The gateway's port is public: it uses server TLS, if any.
                mutual=None if service == _EDGE else self.mutual,
                service=service,
                calling_service=caller,
            )
        return cast("aio.Channel", self._channels[key])

    @functools.cached_property
    def mutual(self) -> MutualTlsFiles | None:
        """The certificates by which the services of the cluster verify each other. Raises SettingInvalid."""
        return MutualTlsFiles.from_settings(self.settings)

    def issuer(self, configured: str) -> str:
        """Return the public URL of the gateway, without a slash at its end.

        It is `configured` (SKEIN_ISSUER), or else the HTTP address of the gateway on this machine.
        """
        if configured:
            return configured.rstrip("/")
        port = self.environment.get("SKEIN_HTTP_PORT") or _HTTP_PORT
        scheme = "https" if self.environment.get("SKEIN_TLS_CERTIFICATE") else "http"
        return f"{scheme}://{self.addresses.get('http') or f'{self.settings.host}:{port}'}"

    @property
    def verifier(self) -> IdentityTokenVerifier:
        """The verifier of identity tokens of this process."""
        if self._verifier is None:
            auth = auth_pb2_grpc.AuthServiceStub(self.channel("auth"))

            async def fetch() -> Mapping[str, str]:
                response = await auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest())
                return {key.key_id: key.jwk for key in response.signing_keys}

            self._verifier = IdentityTokenVerifier(fetch)
        return self._verifier

    @asynccontextmanager
    async def database(
        self,
        service: str,
        servicers: ServicerRegistry,
        *,
        init: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
    ) -> AsyncIterator[Database]:
        """Open a service's pool. The service is ready while the database answers with a supported schema version."""
        url = service_url(self.settings.database_url, service, self.environment)
        limits = ReadLimits(
            seconds=_READ_SECONDS,
            scan_bytes_per_second=self.settings.scan_mebibytes_per_second * MEBIBYTE,
        )
        async with (
            Database.open(
                url,
                service=service,
                size=self.settings.pool_size,
                timeout=self.settings.pool_timeout_seconds,
                init=init,
                pooled=self.settings.database_pooled,
                statements=self.settings.statement_cache_size,
                slow_seconds=self.settings.slow_query_seconds,
                limits=limits,
                citus=self.settings.database_citus,
            ) as database,
            DatabaseProbe.open(url, service=service, pooled=self.settings.database_pooled) as probe,
            AsyncExitStack() as stack,
        ):
            if self.settings.replica_url and service in database_revision.SERVICES:
                replica = Database.open(
                    service_url(self.settings.replica_url, service, self.environment),
                    service=service,
                    size=self.settings.pool_size,
                    timeout=_REPLICA_SECONDS,
                    init=init,
                    statements=self.settings.statement_cache_size,
                    only_reads=True,
                    slow_seconds=self.settings.slow_query_seconds,
                    limits=limits,
                    citus=self.settings.database_citus,
                )
                database.use_replica(await stack.enter_async_context(replica))

            async def ready() -> bool:
                try:
                    version = await probe.fetch_value(_QUERIES["schema_version"])
                except asyncpg.UndefinedTableError:
                    version = 0
                except asyncpg.PostgresError as error:
                    require_connection(error, database_role(service))
                    raise
                require_schema_version(version, self.schema_version)
                if service in pagination.SERVICES and not self.page_token_key:
                    self.page_token_key = await probe.fetch_value(_QUERIES["page_token_key"])
                return True

            servicers.ready_checks.append(ready)
            yield database

    def http_limits(self, connections: int, is_proxy: Callable[[str], bool] = lambda _address: False) -> HttpLimits:
        """Return the limits of an HTTP port with at most this many connections."""
        return HttpLimits.from_settings(
            self.settings, max_connections=connections, reserve_from=self.open_files.reserve_from, is_proxy=is_proxy
        )

    async def close(self) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            await channel.close()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningServices:
    """The services of a process, which listen."""

    host: Host
    # "127.0.0.1:9450" of /metrics, /livez and /readyz; empty when not served.
    admin: str
    _ready: Mapping[str, Readiness]

    async def wait_ready(self, seconds: float, *, except_: Collection[str] = ()) -> None:
        """Wait until every service (`except_` some) is ready. Raises NotReady with the names of the others."""
        events = {name: ready.event for name, ready in self._ready.items() if name not in except_}
        try:
            async with asyncio.timeout(seconds):
                for event in events.values():
                    await event.wait()
        except TimeoutError:
            unready = ", ".join(name for name, event in events.items() if not event.is_set())
            message = f"Not ready after {seconds:.0f} s: {unready}. Their log lines above say why."
            raise NotReady(message) from None


@asynccontextmanager
async def run_services(services: Sequence[Service], host: Host) -> AsyncIterator[RunningServices]:
    """Run services until the block ends, then drain: not ready, wait, finish what is in flight, stop.

    The services listen when the block begins; `RunningServices.wait_ready` waits until they can serve. Services stop
    in reverse order, so list those at the edge last. Raises PortTaken.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    ready = {service.name: Readiness(service.name) for service in services}
    grpc_servers = max(1, sum(service.port is not None for service in services))
    running_services: list[_ServedService] = []
    async with AsyncExitStack() as stack:
        stack.enter_context(log_unhandled_exceptions())
        stack.push_async_callback(host.close)
        BUILD.labels(VERSION, host.schema_version).set(1)
        await stack.enter_async_context(measure_event_loop())
        # Before the services, so that it outlasts them: monitoring sees their drain.
        admin = await stack.enter_async_context(_serve_admin(host, ready))
        for service in services:
            servicers = await stack.enter_async_context(service.start(host))
            server = _serve(service, servicers, host, ready[service.name], grpc_servers)
            running_services.append(await stack.enter_async_context(server))
        try:
            yield RunningServices(host=host, admin=admin, _ready=ready)
        finally:
            host.is_draining = True
            # First, so that no service reports "ready" again.
            await _cancel(*(running.readiness_watch for running in running_services))
            for readiness in ready.values():
                readiness.drain()
            for running in running_services:
                running.health.begin_shutdown()
                # Calls in flight are finished; a stream would not end by itself.
                running.streams.drain()
            await asyncio.sleep(host.settings.drain_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ServedService:
    """The parts of a service that the drain of the process reaches."""

    health: HealthStatuses
    streams: StreamLimiter
    readiness_watch: asyncio.Task[None]


@asynccontextmanager
async def _serve(
    service: Service, servicers: ServicerRegistry, host: Host, ready: Readiness, grpc_servers: int
) -> AsyncIterator[_ServedService]:
    settings = host.settings
    identify = servicers.identify or _identify_by_token(host)
    streams = StreamLimiter(
        reidentify=translate_identify_errors(identify if servicers.is_edge else _reidentify_by_key(host)),
        max_seconds=settings.max_stream_seconds,
        max_per_tenant=MAX_PER_TENANT,
        recheck_seconds=RECHECK_SECONDS,
        operation_seconds=DEFAULT_DEADLINE_SECONDS,
    )
    overload = AdmissionControl(service.name, settings, is_edge=servicers.is_edge)
    chain = InterceptorChain(
        identify=identify,
        admit=servicers.admit,
        overload=overload,
        default_deadline=DEFAULT_DEADLINE_SECONDS,
        max_deadline=MAX_DEADLINE_SECONDS,
        is_edge=servicers.is_edge,
        continues_trace=servicers.continues_trace,
        page_token_key=lambda: host.page_token_key,
        streams=streams,
        steps=servicers.steps,
    )
    handlers = {method.path: (method, chain.wrap(method)) for method in servicers.methods}
    servicers.handlers.update(handlers)
    health = HealthStatuses()
    names = ["", *servicers.service_names]
    health.set_status(names, serving=False)
    if host.in_process_calls:
        host.in_process_handlers.setdefault(service.name, {}).update(handlers)
    server: aio.Server | None = None
    if service.port is not None:
        connections = host.open_files.grpc_server_connections(is_edge=servicers.is_edge, servers=grpc_servers)
        server = await _listen(service, handlers, servicers, health, host, connections)
    watch = functools.partial(ready.watch, servicers, health, names, host.addresses.get(service.name, ""))
    watcher = asyncio.create_task(run_forever(watch, name=f"readiness of {service.name}"))
    try:
        with nullcontext() if overload is None else overload.observe_delays():
            yield _ServedService(health=health, streams=streams, readiness_watch=watcher)
    finally:
        await _cancel(watcher)
        health.close()
        if server is not None:
            await server.stop(host.settings.grace_seconds)
        host.in_process_handlers.get(service.name, {}).clear()
        ready.drain()


async def _listen(
    service: Service,
    handlers: InProcessHandlers,
    servicers: ServicerRegistry,
    health: HealthStatuses,
    host: Host,
    connections: int,
) -> aio.Server:
    options = grpc_handler.server_options(host.settings, connections=connections, is_edge=servicers.is_edge)
    server = aio.server(options=options)
    origin = servicers.resolve_origin if servicers.is_edge else None
    seconds = host.settings.transfer_seconds
    health_reflection = HealthReflectionHandler(health, servicers.service_names, message_seconds=seconds)
    server.add_generic_rpc_handlers((GrpcHandler(handlers, origin, body_seconds=seconds), health_reflection))
    address = host.addresses[service.name]
    try:
        secure = servicers.credentials
        if host.mutual is not None and not servicers.is_edge:
            secure = host.mutual.server_credentials()
        port = server.add_insecure_port(address) if secure is None else server.add_secure_port(address, secure)
    except RuntimeError:
        port = 0
    if port == 0:
        message = f"{address} is in use; set SKEIN_{service.name.upper()}_PORT to another port for {service.name}."
        raise PortTaken(message)
    host.addresses[service.name] = f"{address.rpartition(':')[0]}:{port}"
    await server.start()
    return server


def _identify_by_token(host: Host) -> Identify:
    async def identify(call: Call) -> Caller:
        token = bearer_credential(call)
        caller = await host.verifier.verify(token)
        call.identity_token = token
        return caller

    return identify


def _reidentify_by_key(host: Host) -> Identify:
    """Return the recheck of a stream's caller for services behind the gateway: auth still has the signing key.

    The gateway asks auth about the caller itself, and ends the stream if necessary. The identity token, which lives
    for a minute, has expired by then.
    """

    async def identify(call: Call) -> Caller:
        if not await host.verifier.is_key_valid(call.identity_token):
            raise StreamEnded
        return caller(call)

    return identify


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _serve_admin(host: Host, ready: Mapping[str, Readiness]) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        try:
            address = await stack.enter_async_context(
                serve_admin(
                    host.settings.host, host.settings.admin_port, ready, host.http_limits(host.open_files.admin)
                )
            )
        except OSError as error:
            message = f"Port {host.settings.admin_port} is in use; set SKEIN_ADMIN_PORT to another port for metrics."
            raise PortTaken(message) from error
        yield address


@contextlib.contextmanager
def export_traces(settings: ProcessSettings, *, name: str = "skein") -> Iterator[None]:
    """Export traces as those of `name` while the block runs; without an endpoint tracing stays off."""
    if settings.otlp_endpoint:
        TRACING.export(
            settings.otlp_endpoint,
            ratio=settings.trace_ratio,
            name=name,
            memory_spans=MemorySpans(settings.memory_spans),
        )
    try:
        yield
    finally:
        TRACING.stop()


_QUERIES = Queries.load("skein_kit")
