"""Settings of pc2: addresses of its ports, allowed clients, API keys."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Self

from skein_kit.settings import SettingInvalid, Settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ALL_NETWORKS: tuple[Network, ...] = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))

# The ports of the protocol, in the order of a row of ports that begins at SKEIN_PC2_BASE_PORT: new ones come last.
PORTS = (5570, 5576, 5596, 5574, 7140, 5617, 5597, 5599, 5575, 7141, 5598, 6583, 7240, 8140)

_MAX_PORT = 65535
# The shortest prefixes of networks, by version of IP, that may be allowed without `allow_wide`.
_MIN_PREFIX_BITS = {4: 24, 6: 64}
_MAPPED_BITS = 96
_API_KEY = "SKEIN_PC2_API_KEY"
# Ports that publish and answer, and the values of their settings: the first for both (with CURVE: it publishes), the
# second for requests alone.
_ROLES = {5598: ("events", "jarvis"), 6583: ("pub", "rep")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pc2Settings(Settings):
    """Settings of pc2: the field `x` is the variable SKEIN_PC2_X."""

    prefix: ClassVar[str] = "SKEIN_PC2_"

    # 1: `skein up` and `skein cluster` open the assistants' ports. Every program of this machine, of any user, then
    # acts with the development tenant's key, unless SECURE_ZMQ is on. `skein serve pc2` opens them in any case.
    enabled: bool = False
    # Address that the ports listen on.
    host: str = "127.0.0.1"
    # Networks, separated by commas, that may connect to the ports besides this machine: "192.168.1.7,192.168.2.0/28".
    # Required if SKEIN_PC2_HOST is not a loopback address, unless SECURE_ZMQ is on.
    allow: str = ""
    # 1: SKEIN_PC2_ALLOW may contain networks wider than /24 (IPv6: /64). Every address in them acts with the tenant's
    # key.
    allow_wide: bool = False
    # Folder of the certificates for SECURE_ZMQ, made by `skein pc2 certificates`.
    certificates: Path | None = None
    # Unset: the ports of the protocol. 0: free ports. Otherwise the first of a row of ports, in the order of the
    # protocol's table. SKEIN_PC2_PORT_5570 and the like set single ports.
    base_port: int | None = None
    # 1: a gateway in another process learns the address of each assistant, for its access log. It must trust pc2's
    # address (SKEIN_TRUSTED_PROXIES).
    forward_addresses: bool = False

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read every field; refuse to open the ports to a whole network. Raises SettingInvalid."""
        result = super().read(environment)
        networks = result.networks()
        if is_secure(environment):
            return result
        if not (networks or _is_loopback(result.host)):
            raise SettingInvalid(
                f"SKEIN_PC2_HOST is {result.host}: the protocol has no passwords, so on an address beyond loopback it "
                "needs SECURE_ZMQ=1 (certificates), or SKEIN_PC2_ALLOW: the addresses of the assistants, such as "
                "192.168.1.7."
            )
        wide_networks = [str(network) for network in networks if network.prefixlen < _MIN_PREFIX_BITS[network.version]]
        if wide_networks and not result.allow_wide:
            raise SettingInvalid(
                f"SKEIN_PC2_ALLOW has {', '.join(wide_networks)}, wider than /24 (IPv6: /64), and every address in it "
                "would act with the tenant's key: name the assistants' own addresses, set SECURE_ZMQ=1 (certificates), "
                "or say that this is meant with SKEIN_PC2_ALLOW_WIDE=1."
            )
        return result

    def networks(self) -> tuple[Network, ...]:
        """Return the networks of `allow`; one of IPv4 addresses in IPv6 form is one of IPv4."""
        try:
            return tuple(
                _without_ipv4_mapping(ipaddress.ip_network(part.strip(), strict=False))
                for part in self.allow.split(",")
                if part.strip()
            )
        except ValueError as error:
            raise SettingInvalid(
                f"SKEIN_PC2_ALLOW should be networks such as 192.168.1.0/28, separated by commas: {error}."
            ) from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pc2Security(Settings):
    """Whether the ports are encrypted, by the variable that the deployed agents use."""

    prefix: ClassVar[str] = ""

    # 1: the ports use CURVE, and accept admitted clients only.
    secure_zmq: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pc2Identity(Settings):
    """The API key of pc2, which is read until it exists: `skein up` creates it at its first start."""

    prefix: ClassVar[str] = "SKEIN_PC2_"

    # API key of the tenant that the assistants share. SKEIN_PC2_API_KEY_5596 and the like (or …_5596_FILE) set another
    # key for one port.
    api_key: str = dataclasses.field(default="", repr=False)


def is_secure(environment: Mapping[str, str] | None = None) -> bool:
    """Say whether the ports use CURVE."""
    return Pc2Security.read(environment).secure_zmq


def identity_of(environment: Mapping[str, str], number: int | None = None) -> Callable[[], str]:
    """Return a function that reads the API key until it exists and caches it; of one port with `number`."""
    result = ""

    def key() -> str:
        nonlocal result
        if not result:
            values = environment if number is None else _port_variables(environment, number)
            result = Pc2Identity.read(values).api_key.strip()
        return result

    return key


def has_own_identity(environment: Mapping[str, str], number: int) -> bool:
    """Say whether a port has an API key of its own."""
    return bool(_port_variables(environment, number))


def _port_variables(environment: Mapping[str, str], number: int) -> dict[str, str]:
    """Return a port's own variables under the names for all ports."""
    port_key = f"{_API_KEY}_{number}"
    names = {port_key: _API_KEY, f"{port_key}_FILE": f"{_API_KEY}_FILE"}
    return {name: environment[variable] for variable, name in names.items() if environment.get(variable)}


def is_reply_only(environment: Mapping[str, str], number: int) -> bool:
    """Say whether a publishing port is set to answer requests only. Raises SettingInvalid."""
    if number not in _ROLES:
        return False
    publishing_role, replying_role = _ROLES[number]
    name = role_setting_of(number)
    text = environment.get(name, "").strip().lower()
    if text not in {"", publishing_role, replying_role}:
        raise SettingInvalid(f"{name} should be {publishing_role} or {replying_role}, not {text!r}.")
    return text == replying_role


def check_roles(environment: Mapping[str, str]) -> None:
    """Raise SettingInvalid for an unknown role of a port."""
    for number in _ROLES:
        is_reply_only(environment, number)


def role_setting_of(number: int) -> str:
    """Return the name of a port's role setting."""
    return f"SKEIN_PC2_{number}"


def default_roles() -> dict[str, str]:
    """Return the role settings with their defaults."""
    return {role_setting_of(number): publishing_role for number, (publishing_role, _) in _ROLES.items()}


def setting_of(number: int) -> str:
    """Return the name of the setting that moves one port."""
    return f"SKEIN_PC2_PORT_{number}"


def port_of(environment: Mapping[str, str], number: int, *, position: int, base_port: int | None) -> int:
    """Return the port on which the protocol's port `number` listens; 0 takes a free one."""
    text = environment.get(setting_of(number))
    if text is None:
        if base_port is None:
            return number
        return base_port + position if base_port else 0
    if not (text.isascii() and text.isdecimal()) or int(text) > _MAX_PORT:
        raise SettingInvalid(f"{setting_of(number)} should be a port, 0 to {_MAX_PORT}, not {text!r}.")
    return int(text)


def _without_ipv4_mapping(network: Network) -> Network:
    """Return 10.0.0.0/8 for ::ffff:10.0.0.0/104: peers' addresses are compared in that form."""
    ipv4_address = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    if ipv4_address is None or network.prefixlen < _MAPPED_BITS:
        return network
    return ipaddress.ip_network((ipv4_address, network.prefixlen - _MAPPED_BITS))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
