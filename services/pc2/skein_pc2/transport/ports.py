"""Opens the ports of the protocol, each as soon as it has an API key; a port in use is skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, MutableMapping, MutableSequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

import zmq.asyncio

from skein_kit.telemetry import logs
from skein_pc2.protocol.dialect import Dialect
from skein_pc2.settings import setting_of
from skein_pc2.transport.listener import ConnectionCount, Listener, listen
from skein_pc2.transport.publisher import Publisher
from skein_pc2.transport.router import PortConfig, PortInUse, Router

# Pauses between two looks for API keys: a start often writes one, and later an operator does.
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.1, 2.0

log = logs.get("pc2")


@dataclass(frozen=True, kw_only=True, slots=True)
class Port:
    """One port of the protocol, with a dialect, publishers or both.

    With both, the peer's socket type tells requests from subscriptions. CURVE hides it, so a port has one of them then.
    """

    config: PortConfig
    # Says whether there is an API key; the port opens then.
    has_identity: Callable[[], bool]
    # Answers requests.
    dialect: Dialect | None = None
    # The port's publisher is added to this list; None for a port that does not publish.
    publishers: MutableSequence[Publisher] | None = None


class Ports:
    """The ports of one process."""

    def __init__(
        self, context: zmq.asyncio.Context, addresses: MutableMapping[str, str], *, max_queued_messages: int
    ) -> None:
        """Write "127.0.0.1:5570" for "pc2:5570" into `addresses` when it opens."""
        self._context = context
        self._addresses = addresses
        self._max_queued_messages = max_queued_messages
        self._connections = ConnectionCount()
        self._pending: dict[int, Port] = {}
        self._listeners: list[Listener] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        # Stop all at once: each then waits for its pending replies.
        for listener in self._listeners:
            listener.begin_stop()
        await self._stack.aclose()

    def are_open(self) -> bool:
        """Say whether no port waits for a key and all open ports listen, at least one."""
        return (
            not self._pending and bool(self._listeners) and all(listener.is_listening for listener in self._listeners)
        )

    async def open(self, ports: Iterable[Port]) -> None:
        """Open the ports that have an API key; `open_pending` opens the others."""
        for port in ports:
            if port.has_identity():
                await self._open(port)
            else:
                log.info("port_waits_for_identity", port=port.config.number)
                self._pending[port.config.number] = port

    async def open_pending(self) -> None:
        """Open each pending port when its API key exists. Runs until cancelled."""
        pause = _MIN_POLL_SECONDS
        while True:
            for number, port in list(self._pending.items()):
                if port.has_identity():
                    await self._open(port)
                    del self._pending[number]
            # The key appears in the environment or in a file, without notice.
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_POLL_SECONDS)

    async def _open(self, port: Port) -> None:
        number = port.config.number
        try:
            listener = await self._start_listener(port)
        except PortInUse as error:
            # The other ports open, so this is an event without a traceback.
            log.error("port_in_use", port=port.config.port, setting=setting_of(number), error=str(error))  # noqa: TRY400
            return
        self._listeners.append(listener)
        self._addresses[f"pc2:{number}"] = listener.address

    async def _start_listener(self, port: Port) -> Listener:
        router = publisher = None
        if port.dialect is not None:
            router = Router(self._context, port.config, port.dialect, max_queued_messages=self._max_queued_messages)
        if port.publishers is not None:
            publisher = Publisher(self._context, port.config)
        listener = await self._stack.enter_async_context(
            listen(port.config, router=router, publisher=publisher, total_connections=self._connections)
        )
        if publisher is not None and port.publishers is not None:
            port.publishers.append(publisher)
        return listener
