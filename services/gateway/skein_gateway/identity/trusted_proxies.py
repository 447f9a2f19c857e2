"""Where a call comes from when proxies stand before the gateway: they are believed, others are not."""

from __future__ import annotations

import ipaddress
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from prometheus_client import Counter

from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# As many hops as anybody has; a longer list is somebody's joke.
_MAX_HOPS = 32
# For a gateway that other machines reach.
NO_TRUSTED_PROXIES = (
    "SKEIN_TRUSTED_PROXIES is not set. If a proxy stands before the gateway, name it there: until then all callers "
    "have the proxy's address, and limits by address hold for all of them together."
)
# The log has a line about untrusted proxies once in this time.
WARNING_SECONDS = 600.0

UNTRUSTED = Counter(
    "skein_gateway_untrusted_forwarding_total",
    "Calls with X-Forwarded-For or Forwarded from a peer that SKEIN_TRUSTED_PROXIES does not name.",
)

log = logs.get("gateway")


class UntrustedForwardingAlert:
    """Says that a peer which is no trusted proxy tells where calls come from: most likely a proxy nobody named."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Log the first call at once, and of later ones one in ten minutes."""
        self._clock = clock
        self._quiet_until = float("-inf")

    def notice(self, peer: str) -> None:
        """Count a call, and log it unless another one was logged a while ago."""
        UNTRUSTED.inc()
        at = self._clock()
        if at < self._quiet_until:
            return
        self._quiet_until = at + WARNING_SECONDS
        log.warning(
            "forwarding_not_trusted",
            peer=peer,
            hint="If this peer is your proxy, name it in SKEIN_TRUSTED_PROXIES. Until then all callers behind it share "
            "its address, and the limits by address.",
        )


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The networks of the proxies whose word counts."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    untrusted: UntrustedForwardingAlert = field(default_factory=UntrustedForwardingAlert, repr=False, compare=False)

    @classmethod
    def of(cls, text: str) -> Self:
        """Read SKEIN_TRUSTED_PROXIES: addresses and CIDR blocks, separated by commas. Raises SettingInvalid."""
        try:
            parts = (part.strip() for part in text.split(","))
            return cls(tuple(ipaddress.ip_network(part) for part in parts if part))
        except ValueError as error:
            message = f"SKEIN_TRUSTED_PROXIES should be a list of CIDR blocks such as 10.0.0.0/8: {error}."
            raise SettingInvalid(message) from None

    def client(self, peer: str, forwarded: Sequence[str], has_forwarded: bool = False) -> str:  # noqa: FBT001, FBT002 - as Origin has it.
        """Return the last address that no trusted proxy has; `forwarded` are X-Forwarded-For's values, in order.

        `has_forwarded` says that there is a header Forwarded, which is not read.
        """
        if not self.trusts(peer):
            if forwarded or has_forwarded:
                self.untrusted.notice(peer)
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
