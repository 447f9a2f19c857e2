"""Composition root of pc2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import zmq
import zmq.asyncio

from skein_kit.background import background_tasks
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_pc2.envelope.background_deletion import BackgroundDeletions
from skein_pc2.envelope.dialect import Orchestrator
from skein_pc2.events import EventPublisher
from skein_pc2.gateway_api.client import GatewayApi, PortApis
from skein_pc2.memory_service.service import MemoryService
from skein_pc2.protocol.dialect import Dialect, HealthPort
from skein_pc2.protocol.health import Health
from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates
from skein_pc2.reasoning.actions.health import ReasoningHealth
from skein_pc2.reasoning.jarvis.jarvis import Jarvis
from skein_pc2.reasoning.port import ReasoningPort
from skein_pc2.sessions import HeartbeatPublisher, SessionAgent
from skein_pc2.settings import ALL_NETWORKS, PORTS, Pc2Settings, is_reply_only, is_secure, port_of
from skein_pc2.transport.curve import CurveCertificates, run_zap_handler
from skein_pc2.transport.ports import Port, Ports
from skein_pc2.transport.publisher import Publisher
from skein_pc2.transport.router import LONG_REPLY_SECONDS, REPLY_SECONDS, PortConfig

# Ports whose documented clients wait for five seconds.
_LONG_REPLY_PORTS = (5570, 5576)
# The port of heartbeats, and those of events.
_HEARTBEAT_PORT = 6583
_EVENT_PORTS = (5598, 7240, 5599)
# Ports that act as the agent of another port.
_AGENTS = {number: number for number in (5570, 5576, 5596, 5574, 7140, 5598)} | {
    **dict.fromkeys((5617, 5597), 5596),
    **dict.fromkeys((5575, 6583), 5574),
    **dict.fromkeys((7141, 8140, 7240), 7140),
    5599: 5598,
}
_MAX_SOCKETS = 16_384
# Messages of one port that are processed at the same time: more only wait for the gateway's limits.
MAX_CONCURRENT_MESSAGES = 64
# Messages in the queue of one port; further ones are refused at once. At 64 at a time they wait a second or two.
MAX_QUEUED_MESSAGES = 1000
# Seconds between two heartbeats of the session agent: what the deployed agents expect.
HEARTBEAT_SECONDS = 5.0
# Health ports that also publish, except with CURVE, which hides a peer's socket type.
_HEALTH_EVENT_PORTS = frozenset({5599})


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Listen on the ports of the protocol. A port in use is logged and the others start."""
    settings = Pc2Settings.read(host.environment)
    certificates = CurveCertificates.read(settings.certificates) if is_secure(host.environment) else None
    apis = PortApis(
        host.channel("gateway", caller="pc2"), host.environment, is_trusted_proxy=settings.forward_addresses
    )
    deletions, updates = BackgroundDeletions(), BackgroundUpdates()
    dialects = _create_dialects(apis, deletions, updates, max_concurrency=MAX_CONCURRENT_MESSAGES)
    publishers = _create_publishers(apis)
    servicers = ServicerRegistry()
    async with AsyncExitStack() as stack:
        context = zmq.asyncio.Context()
        # Each connection has a socket; libzmq's default limit is 1,023.
        context.set(zmq.MAX_SOCKETS, _MAX_SOCKETS)
        stack.callback(context.term)
        await stack.enter_async_context(run_zap_handler(context, certificates))
        ports = await stack.enter_async_context(Ports(context, host.addresses, max_queued_messages=MAX_QUEUED_MESSAGES))

        async def is_ready() -> bool:
            return ports.are_open() and await apis.are_accepted()

        servicers.ready_checks.append(is_ready)
        configs = _create_port_configs(host.environment, settings, certificates)
        await ports.open(
            Port(
                config=configs[number],
                has_identity=_always_true if isinstance(dialect, HealthPort) else apis.of(_AGENTS[number]).has_key,
                dialect=dialect,
                publishers=port_publishers,
            )
            for number, dialect, port_publishers in _port_roles(dialects, publishers, host.environment, certificates)
        )
        tasks = _create_publisher_tasks(apis, publishers)
        tasks |= {"pc2 ports": ports.open_pending, "pc2 deletions": deletions.run, "pc2 updates": updates.run}
        await stack.enter_async_context(background_tasks(**tasks))
        yield servicers


def _create_port_configs(
    environment: Mapping[str, str], settings: Pc2Settings, certificates: CurveCertificates | None
) -> dict[int, PortConfig]:
    """Return the addresses and allowed networks of all ports."""
    # Clients with certificates may connect from anywhere unless networks are set.
    networks = settings.networks() or (ALL_NETWORKS if certificates else ())
    return {
        number: PortConfig(
            number=number,
            host=settings.host,
            port=port_of(environment, number, position=position, base_port=settings.base_port),
            networks=networks,
            certificates=certificates,
            reply_seconds=LONG_REPLY_SECONDS if number in _LONG_REPLY_PORTS else REPLY_SECONDS,
        )
        for position, number in enumerate(PORTS)
    }


def _port_roles(
    dialects: Mapping[int, Dialect],
    publishers: Mapping[int, list[Publisher]],
    environment: Mapping[str, str],
    certificates: CurveCertificates | None,
) -> Iterator[tuple[int, Dialect | None, list[Publisher] | None]]:
    """Yield each port with its dialect and the list of its publishers."""
    for number, dialect in dialects.items():
        if number not in publishers or is_reply_only(environment, number):
            yield number, dialect, None
        elif certificates is None:
            yield number, dialect, publishers[number]
        elif number in _HEALTH_EVENT_PORTS:
            yield number, dialect, None
        else:
            yield number, None, publishers[number]


def _create_publishers(apis: PortApis) -> dict[int, list[Publisher]]:
    """Return the publisher list of each publishing port; event ports with the same key share one."""
    events: dict[GatewayApi, list[Publisher]] = {}
    return {number: events.setdefault(apis.of(_AGENTS[number]), []) for number in _EVENT_PORTS} | {_HEARTBEAT_PORT: []}


def _create_publisher_tasks(
    apis: PortApis, publishers: Mapping[int, list[Publisher]]
) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the background tasks that publish, each with the key of its agent."""
    by_api = {apis.of(_AGENTS[number]): publishers[number] for number in _EVENT_PORTS}
    tasks = {f"pc2 events {count}": EventPublisher(*pair).run for count, pair in enumerate(by_api.items())}
    heartbeat = HeartbeatPublisher(
        apis.of(_AGENTS[_HEARTBEAT_PORT]), publishers[_HEARTBEAT_PORT], interval_seconds=HEARTBEAT_SECONDS
    )
    return {**tasks, "pc2 pulse": heartbeat.run}


def _always_true() -> bool:
    return True


def _create_dialects(
    apis: PortApis, deletions: BackgroundDeletions, updates: BackgroundUpdates, *, max_concurrency: int
) -> dict[int, Dialect]:
    """Return the dialect of each port; `apis.of(port)` has its key."""

    def health(agent: str, port: int) -> Health:
        """Return the health of the agent on `port`, for its health port."""
        return Health(agent, apis.of(port).has_key)

    def orchestrator(port: int) -> Dialect:
        return Orchestrator(
            apis.of(port), health("MemoryOrchestrator", port), deletions, max_concurrency=max_concurrency
        )

    reasoning_health = ReasoningHealth("UnifiedMemoryReasoningAgent", apis.of(5596))
    service = MemoryService(apis.of(7140), health("MemoryOrchestratorService", 7140), max_concurrency=max_concurrency)
    return {
        5570: orchestrator(5570),
        5576: orchestrator(5576),
        5596: ReasoningPort(apis.of(5596), reasoning_health, updates, max_concurrency=max_concurrency),
        5574: SessionAgent(apis.of(5574), health("SessionMemoryAgent", 5574), max_concurrency=max_concurrency),
        7140: service,
        5617: HealthPort(reasoning_health),
        5597: HealthPort(reasoning_health),
        5599: HealthPort(health("DreamWorldAgent", 5598)),
        5575: HealthPort(health("SessionMemoryAgent", 5574)),
        7141: HealthPort(health("MemoryOrchestratorService", 7140)),
        5598: Jarvis(apis.of(5598), health("DreamWorldAgent", 5598), max_concurrency=max_concurrency),
        6583: HealthPort(health("SessionMemoryAgent", 5574)),
        # Containers map this port to 7140.
        7240: service,
        8140: HealthPort(health("MemoryOrchestratorService", 7140)),
    }


SERVICE = Service(name="pc2", port=50057, depends_on=("gateway",), start=start, has_database=False)
