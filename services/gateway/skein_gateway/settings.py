"""Settings of the gateway service."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from skein_kit.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatewaySettings(Settings):
    """What the gateway is told, besides what every process is told."""

    # HTTP port of the gateway; 0 takes a free one.
    http_port: int = 8080
    # PEM file of the certificate, with its chain, of both gateway ports; without it they speak plain text.
    tls_certificate: Path | None = None
    # PEM file of the key of SKEIN_TLS_CERTIFICATE.
    tls_key: Path | None = None
    # Origins whose pages may call the JSON API and OAuth's endpoints, e.g. https://app.example, separated by commas.
    cors_origins: str = ""
    # Proxies before the gateway (CIDR blocks, separated by commas), whose word on where a call comes from counts.
    trusted_proxies: str = ""
    # Credentials without check digits that one source may have refused a second, ten times as many at once; all sources
    # together may have ten times as many. A credential whose last exchange ended well does not count.
    unproven_credentials_per_second: float = 10.0
    # Seconds that one arm of a recall gets at most; less when the caller's own time is shorter.
    gateway_recall_arm_seconds: float = 5.0
    # Continue the traces of callers, who then decide what is recorded; else a trace begins at the gateway, linked to
    # theirs.
    trust_traceparent: bool = False
