"""Sources: the addresses that calls come from, as attempts are counted by them. No SQL, no clock."""

from __future__ import annotations

import ipaddress

# The part of an IPv6 address that one customer of a provider has for itself.
_IPV6_PREFIX = 64


def from_source(name: str, address: str) -> str:
    """Return the subject for attempts at one account or client from one source."""
    return f"{name} {source_of(address)}"


def source_of(address: str) -> str:
    """Return what counts as one source: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
