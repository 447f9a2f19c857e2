"""How pc2 is put together."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import zmq.asyncio

from skein_kit import logs
from skein_kit.background import alongside
from skein_kit.service import Host, Service, Servicers
from skein_pc2.api import Apis
from skein_pc2.curve import Certificates, admitting
from skein_pc2.dialects import HealthPort
from skein_pc2.events import Events
from skein_pc2.health import Health
from skein_pc2.memory_service import MemoryService
from skein_pc2.orchestrator import Orchestrator
from skein_pc2.publishing import publishing
from skein_pc2.reasoning.jarvis import Jarvis
from skein_pc2.reasoning.port import Reasoning
from skein_pc2.router import ANSWER_SECONDS, PATIENT_SECONDS, Door, PortInUse, listening
from skein_pc2.session_agent import Pulse, SessionAgent
from skein_pc2.settings import EVERYWHERE, Pc2Settings, is_secure, port_of, setting_of, speaks_jarvis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from skein_pc2.api import Api
    from skein_pc2.dialects import Dialect
    from skein_pc2.publishing import Publisher
    from skein_pc2.router import Router

    Work = Callable[[], Awaitable[None]]

# Ports whose clients wait for five seconds, as their document has it.
_PATIENT = (5570, 5576)
# The port that says that the session agent is alive, and those that tell of events, each with the port of its agent.
_PULSE = 6583
_EVENTS = {5598: 5598, 7240: 7140}

log = logs.get("pc2")


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Listen on the ports of the protocol. A port in use is logged and the others start."""
    settings = Pc2Settings.read(host.environment)
    certificates = Certificates.read(settings.certificates) if is_secure(host.environment) else None
    # Who has a certificate may come from anywhere, unless it is said from where.
    networks = settings.networks() or (EVERYWHERE if certificates else ())
    apis = Apis(host.channel("gateway"), host.environment)
    servicers = Servicers()
    opened: list[Router | Publisher] = []
    publishers: dict[int, Publisher] = {}

    async def is_ready() -> bool:
        return bool(opened) and all(port.is_listening for port in opened) and await apis.are_accepted()

    servicers.ready_checks.append(is_ready)
    async with AsyncExitStack() as stack:
        context = zmq.asyncio.Context()
        stack.callback(context.term)
        await stack.enter_async_context(admitting(context, certificates))
        jarvis = speaks_jarvis(host.environment)
        for position, (number, dialect) in enumerate(_dialects(apis, settings, jarvis=jarvis).items()):
            port = port_of(host.environment, number, position=position, base_port=settings.base_port)
            door = Door(
                number=number,
                host=settings.host,
                port=port,
                networks=networks,
                certificates=certificates,
                answer_seconds=PATIENT_SECONDS if number in _PATIENT else ANSWER_SECONDS,
            )
            listener: Router | Publisher
            try:
                if dialect is None:
                    listener = await stack.enter_async_context(publishing(context, door))
                    publishers[number] = listener
                else:
                    listener = await stack.enter_async_context(
                        listening(context, door, dialect, waiting=settings.waiting)
                    )
            except PortInUse as error:
                # The others start, so this is no failure of ours: an event without a traceback.
                log.error("port_in_use", port=port, setting=setting_of(number), error=str(error))  # noqa: TRY400
                continue
            opened.append(listener)
            host.addresses[f"pc2:{number}"] = listener.address
        await stack.enter_async_context(alongside(**_works(apis, publishers, settings)))
        yield servicers


def _works(apis: Apis, publishers: Mapping[int, Publisher], settings: Pc2Settings) -> dict[str, Work]:
    """Return what keeps the publishing ports busy: each acts as the agent that it belongs to."""
    works: dict[str, Work] = {}
    told: dict[Api, list[Publisher]] = {}
    for number, agent in _EVENTS.items():
        if number in publishers:
            told.setdefault(apis.of(agent), []).append(publishers[number])
    for api, ports in told.items():
        works[f"pc2 events {len(works)}"] = Events(api, ports).tell
    if _PULSE in publishers:
        works["pc2 pulse"] = Pulse(apis.of(5574), publishers[_PULSE], seconds=settings.pulse_seconds).beat
    return works


def _dialects(apis: Apis, settings: Pc2Settings, *, jarvis: bool) -> dict[int, Dialect | None]:
    """Return how each port of the protocol talks, None for those that publish; `apis.of(port)` is as whom it acts."""

    def health(agent: str, port: int) -> Health:
        """Make the document of an agent that listens on `port`, whose health port is another."""
        return Health(agent, apis.of(port).has_key)

    def orchestrator(port: int) -> Dialect:
        return Orchestrator(apis.of(port), health("MemoryOrchestrator", port), at_once=settings.at_once)

    return {
        5570: orchestrator(5570),
        5576: orchestrator(5576),
        5596: Reasoning(apis.of(5596), health("UnifiedMemoryReasoningAgent", 5596), at_once=settings.at_once),
        5574: SessionAgent(apis.of(5574), health("SessionMemoryAgent", 5574), at_once=settings.at_once),
        7140: MemoryService(apis.of(7140), health("MemoryOrchestratorService", 7140), at_once=settings.at_once),
        5617: HealthPort(health("UnifiedMemoryReasoningAgent", 5596)),
        5597: HealthPort(health("UnifiedMemoryReasoningAgent", 5596)),
        5599: HealthPort(health("DreamWorldAgent", 5598)),
        5575: HealthPort(health("SessionMemoryAgent", 5574)),
        7141: HealthPort(health("MemoryOrchestratorService", 7140)),
        5598: Jarvis(apis.of(5598), health("DreamWorldAgent", 5598), at_once=settings.at_once) if jarvis else None,
        6583: None,
        7240: None,
    }


SERVICE = Service(name="pc2", port=50057, calls=("gateway",), start=start, has_database=False)
