"""Open HTTP connections and the rules that they obey: deadlines, limits, and which one yields. No sockets, no clock."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skein_kit.settings import ProcessSettings

OPEN = Gauge(
    "skein_http_connections",
    "Open connections of the HTTP ports, by what they wait for: headers, body, answer, or the next request (idle).",
    ["state"],
)
CLOSED = Counter(
    "skein_http_connections_closed_total",
    "HTTP connections closed by a limit: headers_late, body_late, yielded to a newer one, full, address_full.",
    ["reason"],
)


class Phase(enum.Enum):
    """What a connection waits for."""

    # For its TLS handshake, or for the rest of a request's headers.
    HEADERS = "headers"
    # For the next request.
    IDLE = "idle"
    # For the rest of a request's body.
    BODY = "body"
    # For us: its request is whole.
    ANSWER = "answer"


class Reason(enum.Enum):
    """Why a limit closed a connection."""

    HEADERS_LATE = "headers_late"
    BODY_LATE = "body_late"
    # It made room for a newer one.
    YIELDED = "yielded"
    # It found no room.
    FULL = "full"
    ADDRESS_FULL = "address_full"


# Who yields first. A connection that waits for us never does.
_YIELDING = (Phase.HEADERS, Phase.IDLE, Phase.BODY)
_THIS_MACHINE = ("127.0.0.1", "::1")
_LATE = {Phase.HEADERS: Reason.HEADERS_LATE, Phase.BODY: Reason.BODY_LATE}


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, from the moment when it is accepted."""

    address: str
    # Closes it: at once when it yields its place, after an answer when it is late and none has begun.
    close: Callable[[Reason], None]
    phase: Phase = Phase.HEADERS
    # When its phase began, in seconds of the caller's clock.
    since: float = 0.0
    is_counted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpLimits:
    """The limits of one port."""

    # Connections in all, and of one address.
    most: int
    most_of_address: int
    # The first descriptor of the process's reserve.
    reserve_from: int
    # Seconds that a connection may wait for its headers and for a body.
    seconds: Mapping[Phase, float]
    # Seconds without a request, and seconds in which a client takes nothing of its answer.
    idle_seconds: float
    stalled_seconds: float
    # Whether an address is a proxy's, whose connections are those of many.
    is_proxy: Callable[[str], bool]

    @classmethod
    def of(cls, settings: ProcessSettings, *, most: int, reserve_from: int, is_proxy: Callable[[str], bool]) -> Self:
        """Return what the settings say for a port with so many connections; no address gets more than half of them."""
        return cls(
            most=most,
            most_of_address=max(1, min(settings.http_connections_per_address or most, most // 2)),
            reserve_from=reserve_from,
            seconds={Phase.HEADERS: settings.http_header_seconds, Phase.BODY: settings.request_body_seconds},
            idle_seconds=settings.http_idle_seconds,
            stalled_seconds=settings.http_stalled_seconds,
            is_proxy=is_proxy,
        )

    def exempts(self, address: str) -> bool:
        """Say whether the limit of an address does not hold for this one: a proxy's, on this machine or trusted."""
        return address in _THIS_MACHINE or self.is_proxy(address)


@dataclass(slots=True)
class _Group:
    """The connections of one port or of one address: their number, and those that may yield, oldest phase first."""

    count: int = 0
    yielding: dict[Phase, dict[Connection, None]] = field(default_factory=lambda: {phase: {} for phase in _YIELDING})

    def first_to_yield(self) -> Connection | None:
        return next((connection for waiting in self.yielding.values() for connection in waiting), None)


class ConnectionTable:
    """The open connections of one port."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._all = _Group()
        self._of_address: dict[str, _Group] = {}

    def admit(self, connection: Connection, now: float, *, descriptor: int) -> bool:
        """Count a new connection in, if need be in the place of one that yields; False: there is no room for it."""
        limits = self._limits
        own = self._of_address.get(connection.address)
        if own is not None and own.count >= limits.most_of_address and not limits.exempts(connection.address):
            full, has_room = Reason.ADDRESS_FULL, self._make_room(own)
        else:
            is_full = self._all.count >= limits.most or descriptor >= limits.reserve_from
            full, has_room = Reason.FULL, not is_full or self.make_room()
        if not has_room:
            CLOSED.labels(full.value).inc()
            return False
        self._of_address.setdefault(connection.address, _Group())
        connection.since, connection.is_counted = now, True
        self._count(connection, 1)
        self._wait(connection)
        return True

    def make_room(self) -> bool:
        """Have one connection yield its place; False: none may."""
        return self._make_room(self._all)

    def move(self, connection: Connection, phase: Phase, now: float) -> None:
        """Note what a connection waits for now; the time of one that still waits for the same runs on."""
        if phase is connection.phase or not connection.is_counted:
            return
        self._stop_waiting(connection)
        connection.phase, connection.since = phase, now
        self._wait(connection)

    def remove(self, connection: Connection) -> None:
        """Count a connection out, if it has not been yet."""
        if connection.is_counted:
            connection.is_counted = False
            self._stop_waiting(connection)
            self._count(connection, -1)
            if not self._of_address[connection.address].count:
                del self._of_address[connection.address]

    def close_late(self, now: float) -> None:
        """Close the connections that have waited too long."""
        for phase, reason in _LATE.items():
            waiting, seconds = self._all.yielding[phase], self._limits.seconds[phase]
            while waiting and now - (oldest := next(iter(waiting))).since >= seconds:
                self._close(oldest, reason)

    def _make_room(self, group: _Group) -> bool:
        oldest = group.first_to_yield()
        if oldest is not None:
            self._close(oldest, Reason.YIELDED)
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
        if connection.phase in _YIELDING:
            for group in self._groups(connection):
                group.yielding[connection.phase][connection] = None

    def _stop_waiting(self, connection: Connection) -> None:
        OPEN.labels(connection.phase.value).dec()
        if connection.phase in _YIELDING:
            for group in self._groups(connection):
                del group.yielding[connection.phase][connection]

    def _groups(self, connection: Connection) -> tuple[_Group, _Group]:
        return self._all, self._of_address[connection.address]
