"""Open HTTP connections with their deadlines, limits and eviction. No sockets, no clock."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from prometheus_client import Counter, Gauge

from skein_kit.settings import ProcessSettings

OPEN = Gauge(
    "skein_http_connections",
    "Open connections of the HTTP ports, by what they wait for: headers, body, response, or the next request (idle).",
    ["state"],
)
CLOSED = Counter(
    "skein_http_connections_closed_total",
    "HTTP connections closed by a limit: headers_timeout, body_timeout, evicted, port_full, address_full.",
    ["reason"],
)


class Phase(enum.Enum):
    """The phase of a connection: what it waits for."""

    # The TLS handshake, or the rest of a request's headers.
    HEADERS = "headers"
    # The next request.
    IDLE = "idle"
    # The rest of a request's body.
    BODY = "body"
    # The response: its request is complete.
    RESPONSE = "response"


class Reason(enum.Enum):
    """Why a limit closed a connection."""

    HEADERS_TIMEOUT = "headers_timeout"
    BODY_TIMEOUT = "body_timeout"
    # Evicted for a newer connection.
    EVICTED = "evicted"
    # The port had no room, and no connection to evict.
    PORT_FULL = "port_full"
    ADDRESS_FULL = "address_full"


# Order of eviction by phase. A connection that waits for a response is never evicted.
_EVICTABLE_PHASES = (Phase.HEADERS, Phase.IDLE, Phase.BODY)
_THIS_MACHINE = ("127.0.0.1", "::1")
_TIMEOUT_REASONS = {Phase.HEADERS: Reason.HEADERS_TIMEOUT, Phase.BODY: Reason.BODY_TIMEOUT}


@dataclass(eq=False, slots=True)
class Connection:
    """One accepted connection."""

    address: str
    # Closes it: at once when it is evicted, after an error response when it is late and no response has begun.
    close: Callable[[Reason], None]
    phase: Phase = Phase.HEADERS
    # Start of its phase, in seconds of the caller's clock.
    since: float = 0.0
    is_counted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpLimits:
    """The limits of one port."""

    # Connections in all, and of one address.
    max_connections: int
    max_per_address: int
    # The first descriptor of the process's reserve.
    reserve_from: int
    # Seconds that a connection may wait for its headers and for a body.
    seconds: Mapping[Phase, float]
    # Seconds without a request, and seconds in which a client reads nothing of its response.
    idle_seconds: float
    stalled_seconds: float
    # Returns whether an address is a proxy's, whose connections serve many clients.
    is_proxy: Callable[[str], bool]

    @classmethod
    def from_settings(
        cls, settings: ProcessSettings, *, max_connections: int, reserve_from: int, is_proxy: Callable[[str], bool]
    ) -> Self:
        """Return the limits of a port with `max_connections` connections; one address gets at most half of them."""
        return cls(
            max_connections=max_connections,
            max_per_address=max(1, min(settings.http_connections_per_address or max_connections, max_connections // 2)),
            reserve_from=reserve_from,
            seconds={Phase.HEADERS: settings.handshake_seconds, Phase.BODY: settings.transfer_seconds},
            idle_seconds=settings.idle_seconds,
            stalled_seconds=settings.transfer_seconds,
            is_proxy=is_proxy,
        )

    def is_exempt(self, address: str) -> bool:
        """Return whether an address has no limit of its own: this machine, or a trusted proxy."""
        return address in _THIS_MACHINE or self.is_proxy(address)


@dataclass(slots=True)
class _Group:
    """The connections of one port or one address: their number, and the evictable ones, oldest phase first."""

    count: int = 0
    evictable: dict[Phase, dict[Connection, None]] = field(
        default_factory=lambda: {phase: {} for phase in _EVICTABLE_PHASES}
    )

    def eviction_candidate(self) -> Connection | None:
        return next((connection for waiting in self.evictable.values() for connection in waiting), None)


class ConnectionTable:
    """The open connections of one port."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._all = _Group()
        self._by_address: dict[str, _Group] = {}

    def admit(self, connection: Connection, now: float, *, descriptor: int) -> bool:
        """Add a new connection, if necessary by evicting another; return False when there is no room."""
        limits = self._limits
        address_group = self._by_address.get(connection.address)
        if (
            address_group is not None
            and address_group.count >= limits.max_per_address
            and not limits.is_exempt(connection.address)
        ):
            full_reason, has_room = Reason.ADDRESS_FULL, self._make_room(address_group)
        else:
            is_full = self._all.count >= limits.max_connections or descriptor >= limits.reserve_from
            full_reason, has_room = Reason.PORT_FULL, not is_full or self.make_room()
        if not has_room:
            CLOSED.labels(full_reason.value).inc()
            return False
        self._by_address.setdefault(connection.address, _Group())
        connection.since, connection.is_counted = now, True
        self._count(connection, 1)
        self._wait(connection)
        return True

    def is_empty(self) -> bool:
        """Return whether no connection is open."""
        return self._all.count == 0

    def make_room(self) -> bool:
        """Evict one connection; return False when none can be evicted."""
        return self._make_room(self._all)

    def set_phase(self, connection: Connection, phase: Phase, now: float) -> None:
        """Set the phase of a connection; the time of an unchanged phase continues."""
        if phase is connection.phase or not connection.is_counted:
            return
        self._stop_waiting(connection)
        connection.phase, connection.since = phase, now
        self._wait(connection)

    def remove(self, connection: Connection) -> None:
        """Remove a connection; a second call has no effect."""
        if connection.is_counted:
            connection.is_counted = False
            self._stop_waiting(connection)
            self._count(connection, -1)
            if not self._by_address[connection.address].count:
                del self._by_address[connection.address]

    def close_expired(self, now: float) -> None:
        """Close the connections that have waited too long."""
        for phase, reason in _TIMEOUT_REASONS.items():
            waiting, seconds = self._all.evictable[phase], self._limits.seconds[phase]
            while waiting and now - (oldest := next(iter(waiting))).since >= seconds:
                self._close(oldest, reason)

    def _make_room(self, group: _Group) -> bool:
        oldest = group.eviction_candidate()
        if oldest is not None:
            self._close(oldest, Reason.EVICTED)
        return oldest is not None

    def _close(self, connection: Connection, reason: Reason) -> None:
        CLOSED.labels(reason.value).inc()
        self.remove(connection)
        connection.close(reason)

    def _count(self, connection: Connection, change: int) -> None:
        for group in self._groups(connection):
            group.count += change

    def _wait(self, connection: Connection) -> None:
        OPEN.labels(connection.phase.value).inc()
        if connection.phase in _EVICTABLE_PHASES:
            for group in self._groups(connection):
                group.evictable[connection.phase][connection] = None

    def _stop_waiting(self, connection: Connection) -> None:
        OPEN.labels(connection.phase.value).dec()
        if connection.phase in _EVICTABLE_PHASES:
            for group in self._groups(connection):
                del group.evictable[connection.phase][connection]

    def _groups(self, connection: Connection) -> tuple[_Group, _Group]:
        return self._all, self._by_address[connection.address]
