"""Reserved ports of this machine, for processes that must know a port before a server listens on it."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager

from skein_kit.host.process import PortTaken
from skein_kit.settings import LAST_PORT, SettingInvalid

# Below the range of outgoing connections, which change constantly on a busy machine.
PORTS = range(20_000, 32_000)


@contextmanager
def reserved_ports(requested: Mapping[str, tuple[str, int]], *, among: range = PORTS) -> Iterator[dict[str, str]]:
    """Reserve a port for each setting until the block ends: the configured one, or for 0 a free one of `among`.

    Searches for free ports and outgoing connections skip a reserved port, but its server may listen on it any number of
    times. A suffix after a space in a setting's name only makes it unique. Ports that cannot be reserved for other
    reasons (a foreign host, a port for root) are left to their server. Two processes may reserve one port at once.

    Raises PortTaken for a port in use, and SettingInvalid for an invalid or duplicate port.
    """
    check_distinct({name: port for name, (_, port) in requested.items()})
    with ExitStack() as stack:
        # Configured ports first, so that free ones differ from them.
        configured_ports = {name: _reserve(stack, name, host, port) for name, (host, port) in requested.items() if port}
        candidates = iter(random.sample(among, len(among)))
        yield {
            name: configured_ports[name] if port else _reserve_any(stack, host, candidates)
            for name, (host, port) in requested.items()
        }


def free_ports(names: Iterable[str], host: str, *, among: range = PORTS) -> AbstractContextManager[dict[str, str]]:
    """Reserve a free port for each name until the block ends, as `reserved_ports` does."""
    return reserved_ports(dict.fromkeys(names, (host, 0)), among=among)


def check_free(requested: Mapping[str, tuple[str, int]]) -> None:
    """Raise the errors of `reserved_ports` for configured ports; 0 is any port."""
    with reserved_ports({name: (host, port) for name, (host, port) in requested.items() if port}):
        pass


def check_distinct(ports: Mapping[str, int]) -> None:
    """Raise SettingInvalid for an invalid port and for duplicates; 0 is any port."""
    settings_by_port: dict[int, str] = {}
    for name, port in ports.items():
        setting = _setting(name)
        if not 0 <= port <= LAST_PORT:
            raise SettingInvalid(f"{setting} should be a port from 0 to {LAST_PORT}, not {port}.")
        if port and port in settings_by_port:
            raise SettingInvalid(f"{settings_by_port[port]} and {setting} are both port {port}.")
        settings_by_port[port] = setting


def _reserve(stack: ExitStack, name: str, host: str, port: int) -> str:
    """Reserve a port unless a server listens there; connections that just ended do not matter."""
    try:
        reservation = stack.enter_context(closing(_socket(host)))
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"Port {port} is in use; set {_setting(name)} to another port.") from None
    return str(port)


def _reserve_any(stack: ExitStack, host: str, candidates: Iterator[int]) -> str:
    """Reserve the first candidate that no socket has, listening or not."""
    for port in candidates:
        with ExitStack() as trying:
            try:
                reservation = trying.enter_context(closing(_socket(host)))
                # Bind without SO_REUSEADDR, so that ports reserved by others are skipped. Set it later, so that the
                # server may bind too: with it, Linux lets two sockets share a port until one of them listens.
                reservation.bind((host, port))
                reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
            stack.push(trying.pop_all())
            return str(port)
    raise OSError(f"no port of {host} that may be taken is free")


def _setting(name: str) -> str:
    return name.partition(" ")[0]


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
