"""Client addresses behind trusted proxies. X-Forwarded-For of any other peer is ignored."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from prometheus_client import Counter

from skein_kit.settings import SettingInvalid
from skein_kit.telemetry import logs

# Longer lists are cut: real chains of proxies are shorter.
_MAX_HOPS = 32
# Warning of a gateway that other machines can reach.
NO_TRUSTED_PROXIES = (
    "SKEIN_TRUSTED_PROXIES is not set. If the gateway is behind a proxy, set it to the proxy's network: until then "
    "all callers share the proxy's address and the limits by address."
)
# Seconds between log lines about untrusted forwarding.
WARNING_SECONDS = 600.0

UNTRUSTED = Counter(
    "skein_gateway_untrusted_forwarded_calls_total",
    "Calls with X-Forwarded-For or Forwarded from a peer that is not in SKEIN_TRUSTED_PROXIES.",
)

log = logs.get("gateway")


class UntrustedForwardingAlert:
    """Reports forwarding headers from untrusted peers, most likely a proxy that is missing in the setting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Log the first call at once, then at most one every ten minutes."""
        self._clock = clock
        self._next_log_time = float("-inf")

    def record_call(self, peer: str) -> None:
        """Count a call, and log it unless one was logged within WARNING_SECONDS."""
        UNTRUSTED.inc()
        now = self._clock()
        if now < self._next_log_time:
            return
        self._next_log_time = now + WARNING_SECONDS
        log.warning(
            "forwarding_untrusted",
            peer=peer,
            hint="If this peer is your proxy, add it to SKEIN_TRUSTED_PROXIES. Until then all callers behind it share "
            "its address, and the limits by address.",
        )


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The networks of trusted proxies."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    untrusted_alert: UntrustedForwardingAlert = field(
        default_factory=UntrustedForwardingAlert, repr=False, compare=False
    )

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse SKEIN_TRUSTED_PROXIES: addresses and CIDR blocks, separated by commas. Raises SettingInvalid."""
        try:
            parts = (part.strip() for part in text.split(","))
            return cls(tuple(ipaddress.ip_network(part) for part in parts if part))
        except ValueError as error:
            message = f"SKEIN_TRUSTED_PROXIES should be a list of CIDR blocks such as 10.0.0.0/8: {error}."
            raise SettingInvalid(message) from None

    def client(self, peer: str, forwarded: Sequence[str], has_forwarded: bool = False) -> str:  # noqa: FBT001, FBT002 - as Origin has it.
        """Return the last address that is not a trusted proxy's; `forwarded` are X-Forwarded-For's values, in order.

        `has_forwarded`: the request has a Forwarded header, which is only reported, never read.
        """
        if not self.trusts(peer):
            if forwarded or has_forwarded:
                self.untrusted_alert.record_call(peer)
            return peer
        hops = [hop.strip() for value in forwarded for hop in value.split(",")]
        nearest = peer
        for hop in reversed(hops[-_MAX_HOPS:]):
            address = _address(hop)
            if address is None:
                # A trusted proxy did not write this hop, so only the nearest address is reliable.
                return nearest
            nearest = str(address)
            if not self.trusts(nearest):
                return nearest
        return nearest

    def trusts(self, address: str) -> bool:
        """Tell whether an address belongs to a trusted proxy."""
        parsed = _address(address) if self.networks else None
        return parsed is not None and any(parsed in network for network in self.networks)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse "192.0.2.1", "192.0.2.1:50", "2001:db8::1" or "[2001:db8::1]:50"."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
