"""Where a call comes from when proxies stand before the gateway: they are believed, others are not."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

# As many hops as anybody has; a longer list is somebody's joke.
_MAX_HOPS = 32


@dataclass(frozen=True, slots=True)
class Proxies:
    """The networks of the proxies whose word counts."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    @classmethod
    def of(cls, text: str) -> Self:
        """Read SKEIN_TRUSTED_PROXIES: addresses and CIDR blocks, separated by commas. Raises SettingInvalid."""
        try:
            parts = (part.strip() for part in text.split(","))
            return cls(tuple(ipaddress.ip_network(part) for part in parts if part))
        except ValueError as error:
            message = f"SKEIN_TRUSTED_PROXIES should be a list of CIDR blocks such as 10.0.0.0/8: {error}."
            raise SettingInvalid(message) from None

    def client(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the last address that no trusted proxy has; `forwarded` are X-Forwarded-For's values, in order."""
        if not self.trusts(peer):
            return peer
        hops = [hop.strip() for value in forwarded for hop in value.split(",")]
        nearest = peer
        for hop in reversed(hops[-_MAX_HOPS:]):
            address = _address(hop)
            if address is None:
                # What is written here no trusted proxy has seen: whoever is nearest is all that is known.
                return nearest
            nearest = str(address)
            if not self.trusts(nearest):
                return nearest
        return nearest

    def trusts(self, address: str) -> bool:
        """Say whether an address is a trusted proxy's."""
        found = _address(address) if self.networks else None
        return found is not None and any(found in network for network in self.networks)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read "192.0.2.1", "192.0.2.1:50", "2001:db8::1" or "[2001:db8::1]:50"."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
