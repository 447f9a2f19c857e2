"""Resource indicators (RFC 8707): which resources a client means by the addresses that it sends. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from skein_auth.errors import InvalidTarget
from skein_auth.oauth_clients.model import LOOPBACK_HOSTS
from skein_auth.signing.access_tokens import AccessTokens

_DEFAULT_PORTS = {"http": 80, "https": 443}


def resolve_resources(tokens: AccessTokens, uris: Sequence[str]) -> tuple[str, ...]:
    """Return the requested resources, each once; none means the API. Raises InvalidTarget for an unknown one.

    The API includes MCP, whose tools call the API's methods: a client that learnt only the issuer reaches `/mcp` too.
    """
    known_resources = tokens.resources()
    api, mcp = known_resources[:2]
    requested = [_resource_of(uri, known_resources, mcp) for uri in uris] or [api]
    if None in requested:
        violation = ("resource", f"is none of {', '.join(known_resources)}")
        raise InvalidTarget(violations=[violation])
    with_mcp = [each for resource in requested if resource for each in ((api, mcp) if resource == api else (resource,))]
    return tuple(dict.fromkeys(with_mcp))


def _resource_of(uri: str, known_resources: Sequence[str], mcp: str) -> str | None:
    """Return the known resource that an address can only mean; None for none.

    Slashes at the end, capitals in the host, the default port and the names of this device make no difference. The
    address of MCP may carry its toolsets.
    """
    address, _, query = uri.partition("?")
    canonical = _canonical(address)
    for resource in known_resources:
        if uri == resource or (canonical is not None and canonical == _canonical(resource)):
            return resource if not query or resource in {mcp, uri} else None
    return None


def _canonical(uri: str) -> tuple[str, str, int | None, str] | None:
    """Return scheme, host, port and path; None for an address with anything else."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if not host or "#" in uri or "@" in parts.netloc:
        return None
    is_local = parts.scheme == "http" and host in LOOPBACK_HOSTS
    port = _DEFAULT_PORTS.get(parts.scheme) if port is None else port
    return parts.scheme, "localhost" if is_local else host, port, parts.path.rstrip("/")
