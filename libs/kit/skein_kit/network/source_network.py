"""Which source a call is counted under: an IPv4 address, or the IPv6 network that one customer has for itself."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

# The part of an IPv6 address that one customer of a provider has for itself.
_IPV6_PREFIX = 64


@lru_cache(maxsize=4096)
def source_network(address: str) -> str:
    """Return the source of an address; a text that is no address stands for itself."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))
