"""Ports of this machine, for those who must know a port before anything listens on it."""

from __future__ import annotations

import errno
import random
import socket
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from skein_kit.host.process import PortTaken
from skein_kit.settings import LAST_PORT, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

# Below the ports that outgoing connections are given, which come and go by the hundred on a busy machine.
PORTS = range(20_000, 32_000)


@contextmanager
def reserved_ports(wanted: Mapping[str, tuple[str, int]], *, among: range = PORTS) -> Iterator[dict[str, str]]:
    """Keep a port for each setting until the block ends: the one that it wants of a host, for 0 a free one of `among`.

    Nobody who looks for a free port here finds one that is kept, nor do outgoing connections take it, but a server that
    is given it may listen on it, any number of times. What follows a space in a setting's name tells it from others
    alone. What cannot be kept for another reason than that somebody listens (a host that is not here, a port for root
    alone) is left to whoever tries to listen. Two who want the same port at the same time both get it.

    Raises PortTaken where somebody listens on a port that is wanted, and SettingInvalid for a port that is none or is
    wanted twice.
    """
    check_distinct({name: port for name, (_, port) in wanted.items()})
    with ExitStack() as stack:
        # First those that are wanted: a free one is none of them.
        kept = {name: _keep(stack, name, host, port) for name, (host, port) in wanted.items() if port}
        candidates = iter(random.sample(among, len(among)))
        yield {
            name: kept[name] if port else _keep_any(stack, host, candidates) for name, (host, port) in wanted.items()
        }


def free_ports(names: Iterable[str], host: str, *, among: range = PORTS) -> AbstractContextManager[dict[str, str]]:
    """Keep a free port for each name until the block ends, as `reserved_ports` does."""
    return reserved_ports(dict.fromkeys(names, (host, 0)), among=among)


def check_free(wanted: Mapping[str, tuple[str, int]]) -> None:
    """Raise, for the ports that settings want now, what `reserved_ports` raises; 0 wants none."""
    with reserved_ports({name: (host, port) for name, (host, port) in wanted.items() if port}):
        pass


def check_distinct(ports: Mapping[str, int]) -> None:
    """Raise SettingInvalid for a setting that leads to no port, and for two that lead to the same; 0 is any."""
    taken: dict[int, str] = {}
    for name, port in ports.items():
        setting = _setting(name)
        if not 0 <= port <= LAST_PORT:
            message = f"{setting} should be a port from 0 to {LAST_PORT}, not {port}."
            raise SettingInvalid(message)
        if port and port in taken:
            message = f"{taken[port]} and {setting} are both port {port}."
            raise SettingInvalid(message)
        taken[port] = setting


def _keep(stack: ExitStack, name: str, host: str, port: int) -> str:
    """Keep a port unless somebody listens there: connections that ended there a moment ago are none of our business."""
    try:
        keeper = stack.enter_context(closing(_socket(host)))
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"Port {port} is in use; set {_setting(name)} to another port."
            raise PortTaken(message) from None
    return str(port)


def _keep_any(stack: ExitStack, host: str, candidates: Iterator[int]) -> str:
    """Keep the first candidate that nobody has, listening or not."""
    for port in candidates:
        with ExitStack() as trying:
            try:
                keeper = trying.enter_context(closing(_socket(host)))
                # Without SO_REUSEADDR, so that a port that somebody keeps as we do is none; with it from now on, so
                # that the server for which it is kept may have it (Linux lets two have a port that both let go, until
                # one of them listens, and a keeper never does).
                keeper.bind((host, port))
                keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
            stack.push(trying.pop_all())
            return str(port)
    message = f"no port of {host} that may be taken is free"
    raise OSError(message)


def _setting(name: str) -> str:
    return name.partition(" ")[0]


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
