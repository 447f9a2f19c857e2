"""What the operator may tell pc2: where its ports are, who may reach them, and as whom it acts."""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import TYPE_CHECKING, ClassVar

from skein_kit.settings import SettingInvalid, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LAST_PORT = 65535


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pc2Settings(Settings):
    """Settings of pc2: the field `x` is the variable SKEIN_PC2_X."""

    prefix: ClassVar[str] = "SKEIN_PC2_"

    # Address that the ports bind to.
    host: str = "127.0.0.1"
    # Networks, separated by commas, that may speak to the ports beside this machine itself: "10.0.0.0/8,192.168.1.7".
    # Needed when `host` is not a loopback address.
    allow: str = ""
    # Unset: each port is the one of the protocol. 0: free ports for all. Else the first of a row of ports, in the order
    # of service.py. SKEIN_PC2_PORT_<port of the protocol> moves one port, whatever is said here.
    base_port: int | None = None
    # Messages of one port that are worked on at the same time.
    at_once: int = 64
    # Messages of one port that may wait for their turn; those beyond are refused at once.
    waiting: int = 1000

    def __post_init__(self) -> None:
        """Refuse to open the ports to everybody."""
        if not self.networks() and not _is_loopback(self.host):
            message = (
                f"SKEIN_PC2_HOST is {self.host}: the protocol has no passwords, so outside of this machine it needs "
                "SKEIN_PC2_ALLOW, the networks that may speak to it."
            )
            raise SettingInvalid(message)

    def networks(self) -> tuple[Network, ...]:
        """Return the networks of `allow`."""
        try:
            return tuple(
                ipaddress.ip_network(part.strip(), strict=False) for part in self.allow.split(",") if part.strip()
            )
        except ValueError as error:
            message = f"SKEIN_PC2_ALLOW should be networks such as 10.0.0.0/8, separated by commas: {error}."
            raise SettingInvalid(message) from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pc2Identity(Settings):
    """As whom pc2 acts; read again until it is there, because `skein up` makes the key at its first start."""

    prefix: ClassVar[str] = "SKEIN_PC2_"

    # API key of the tenant that the assistants share.
    api_key: str = dataclasses.field(default="", repr=False)


def identity_of(environment: Mapping[str, str]) -> Callable[[], str]:
    """Return what reads the API key until it is there, and remembers it then."""
    found = ""

    def key() -> str:
        nonlocal found
        found = found or Pc2Identity.read(environment).api_key.strip()
        return found

    return key


def setting_of(number: int) -> str:
    """Return the name of the setting that moves one port."""
    return f"SKEIN_PC2_PORT_{number}"


def port_of(environment: Mapping[str, str], number: int, *, position: int, base_port: int | None) -> int:
    """Return where the protocol's port `number` is to listen; 0 takes a free one."""
    text = environment.get(setting_of(number))
    if text is None:
        if base_port is None:
            return number
        return base_port + position if base_port else 0
    if not (text.isascii() and text.isdecimal()) or int(text) > _LAST_PORT:
        message = f"{setting_of(number)} should be a port, 0 to {_LAST_PORT}, not {text!r}."
        raise SettingInvalid(message)
    return int(text)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
