"""Which service a call came from: its certificate names it, or within a process the channel does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

# A certificate of the services auth and memory has these DNS names: auth.skein.internal, memory.skein.internal. They
# are names of services, not of hosts, and no resolver knows them.
_DOMAIN = ".skein.internal"
_NAMES = "x509_subject_alternative_name"


def certificate_name(service: str) -> str:
    """Return the DNS name by which a certificate names a service."""
    return f"{service}{_DOMAIN}"


def services_of(auth_context: Mapping[str, Iterable[bytes]]) -> frozenset[str]:
    """Return the services that the peer's verified certificate names; empty without a certificate."""
    names = auth_context.get(_NAMES)
    return _services(tuple(names)) if names else frozenset()


@lru_cache(maxsize=256)
def _services(names: tuple[bytes, ...]) -> frozenset[str]:
    texts = [name.decode("utf-8", "replace") for name in names]
    return frozenset(text.removesuffix(_DOMAIN) for text in texts if text.endswith(_DOMAIN))
