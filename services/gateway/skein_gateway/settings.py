"""Settings of the gateway service."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from skein_kit.settings import Settings, advanced


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatewaySettings(Settings):
    """What the gateway is told, besides what every process is told."""

    # HTTP port of the gateway; 0: a free one.
    http_port: int = 8080
    # A further HTTP port, of this process alone, where other processes share SKEIN_HTTP_PORT: the console's API keys
    # stay with one process. Unset: none. `skein up --processes` gives one to its first process: SKEIN_HTTP_PORT + 1.
    console_port: int | None = None
    # PEM file of the certificate, with its chain, of both gateway ports; unset: no TLS.
    tls_certificate: Path | None = None
    # PEM file of the key of SKEIN_TLS_CERTIFICATE.
    tls_key: Path | None = None
    # Origins whose pages may call the JSON API and OAuth's endpoints, e.g. https://app.example, separated by commas.
    cors_origins: str = ""
    # Proxies before the gateway (CIDR blocks, separated by commas). Their X-Forwarded-For and Forwarded headers are
    # trusted.
    trusted_proxies: str = ""
    # Invalid credentials without check digits that one source may send per second, with bursts of ten times as many;
    # all sources together may send ten times as many. A credential whose last exchange succeeded does not count. More,
    # where many callers share an address.
    unproven_credentials_per_second: float = advanced(10.0)
    # Timeout of one search branch of a recall, in seconds, if the caller's deadline is not shorter. Less, where an
    # early answer without one branch beats a whole one.
    gateway_recall_branch_seconds: float = advanced(5.0)
    # Continue the traces of callers, whose sampling decision then holds. Otherwise a trace begins at the gateway,
    # linked to the caller's.
    trust_traceparent: bool = False
