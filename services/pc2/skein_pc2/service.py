"""How pc2 is put together."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import zmq.asyncio

from skein_kit import logs
from skein_kit.service import Host, Service, Servicers
from skein_pc2.api import Api
from skein_pc2.dialects import HealthPort, StatusPort, reasoning_refusal, service_refusal, session_refusal
from skein_pc2.health import Health
from skein_pc2.orchestrator import Orchestrator
from skein_pc2.router import Door, PortInUse, listening
from skein_pc2.settings import Pc2Settings, identity_of, port_of, setting_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skein_pc2.dialects import Dialect
    from skein_pc2.router import Router

log = logs.get("pc2")


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Listen on the ports of the protocol. A port in use is logged and the others start."""
    settings = Pc2Settings.read(host.environment)
    api = Api(host.channel("gateway"), identity_of(host.environment))
    servicers = Servicers()
    opened: list[Router] = []

    async def is_ready() -> bool:
        return bool(opened) and all(router.is_listening for router in opened) and await api.is_accepted()

    servicers.ready_checks.append(is_ready)
    async with AsyncExitStack() as stack:
        context = zmq.asyncio.Context()
        stack.callback(context.term)
        for position, (number, dialect) in enumerate(_dialects(api, settings).items()):
            port = port_of(host.environment, number, position=position, base_port=settings.base_port)
            door = Door(number=number, host=settings.host, port=port, networks=settings.networks())
            try:
                router = await stack.enter_async_context(listening(context, door, dialect, waiting=settings.waiting))
            except PortInUse as error:
                # The others start, so this is no failure of ours: an event without a traceback.
                log.error("port_in_use", port=port, setting=setting_of(number), error=str(error))  # noqa: TRY400
                continue
            opened.append(router)
            host.addresses[f"pc2:{number}"] = router.address
        yield servicers


def _dialects(api: Api, settings: Pc2Settings) -> dict[int, Dialect]:
    """Return how each port of the protocol talks; health ports are named for the agent that they belong to."""

    def health(agent: str) -> Health:
        return Health(agent, api.has_key)

    def orchestrator() -> Dialect:
        return Orchestrator(api, health("MemoryOrchestrator"), at_once=settings.at_once)

    def status(agent: str, refusal: Callable[..., dict[str, object]]) -> Dialect:
        return StatusPort(health(agent), refusal)

    return {
        5570: orchestrator(),
        5576: orchestrator(),
        5596: status("UnifiedMemoryReasoningAgent", reasoning_refusal),
        5574: status("SessionMemoryAgent", session_refusal),
        7140: status("MemoryOrchestratorService", service_refusal),
        5617: HealthPort(health("UnifiedMemoryReasoningAgent")),
        5597: HealthPort(health("UnifiedMemoryReasoningAgent")),
        5599: HealthPort(health("DreamWorldAgent")),
        5575: HealthPort(health("SessionMemoryAgent")),
        7141: HealthPort(health("MemoryOrchestratorService")),
    }


SERVICE = Service(name="pc2", port=50057, calls=("gateway",), start=start, has_database=False)
