"""The source of a call for limits: an IPv4 address, or the IPv6 network of one customer."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

# The IPv6 prefix of one customer of a provider, in bits.
_IPV6_PREFIX = 64


@lru_cache(maxsize=4096)
def source_network(address: str) -> str:
    """Return the source of an address; return any other text unchanged."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _IPV6_PREFIX), strict=False))
